// Reads a graph back through the API: what kinds of nodes it has and how they are ordered.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace apps {

struct GraphContents {
  std::vector<hipGraphNodeType> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // from, to: indices into nodes

  [[nodiscard]] std::size_t count(hipGraphNodeType type) const;
};

GraphContents read_graph(hipGraph_t graph);

/// "nodes N", a line "INDEX TYPE" each, "edges N", a line "FROM TO" each.
void write_graph(const GraphContents& contents, std::ostream& out);

std::string node_type_name(hipGraphNodeType type);

}  // namespace apps

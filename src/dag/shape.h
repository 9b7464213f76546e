// The shape of a finished graph.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace hipgraft::dag {

struct Shape {
  std::uint64_t edges = 0;
  std::uint64_t width = 0;          // most nodes on one level, a node's level being its depth
  std::uint64_t critical_path = 0;  // nodes on the longest path
};

using Edge = std::pair<std::uint32_t, std::uint32_t>;  // from, to: indices of nodes

// Linear in nodes and edges. Edges that name a node beyond `nodes` are ignored.
Shape measure(std::uint32_t nodes, std::span<const Edge> edges);

}  // namespace hipgraft::dag

#include "graph_reader.h"

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <unordered_map>

#include "hip_support.h"

namespace apps {
namespace {

std::vector<hipGraphNode_t> read_nodes(hipGraph_t graph) {
  std::size_t count = 0;
  HIP_CHECK(hipGraphGetNodes(graph, nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  if (count > 0) HIP_CHECK(hipGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

std::vector<std::pair<hipGraphNode_t, hipGraphNode_t>> read_edges(hipGraph_t graph) {
  std::size_t count = 0;
  HIP_CHECK(hipGraphGetEdges(graph, nullptr, nullptr, &count));
  std::vector<hipGraphNode_t> from(count);
  std::vector<hipGraphNode_t> to(count);
  if (count > 0) HIP_CHECK(hipGraphGetEdges(graph, from.data(), to.data(), &count));
  std::vector<std::pair<hipGraphNode_t, hipGraphNode_t>> edges;
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(from[i], to[i]);
  return edges;
}

}  // namespace

std::size_t GraphContents::count(hipGraphNodeType type) const {
  return static_cast<std::size_t>(std::ranges::count(nodes, type));
}

GraphContents read_graph(hipGraph_t graph) {
  GraphContents contents;
  std::unordered_map<hipGraphNode_t, std::size_t> index_of;
  for (hipGraphNode_t node : read_nodes(graph)) {
    hipGraphNodeType type{};
    HIP_CHECK(hipGraphNodeGetType(node, &type));
    index_of.emplace(node, contents.nodes.size());
    contents.nodes.push_back(type);
  }
  for (const auto& [from, to] : read_edges(graph)) {
    if (!index_of.contains(from) || !index_of.contains(to)) {
      throw std::runtime_error("hipGraphGetEdges names a node that hipGraphGetNodes does not");
    }
    contents.edges.emplace_back(index_of.at(from), index_of.at(to));
  }
  std::ranges::sort(contents.edges);
  return contents;
}

void write_graph(const GraphContents& contents, std::ostream& out) {
  out << "nodes " << contents.nodes.size() << '\n';
  for (std::size_t i = 0; i < contents.nodes.size(); ++i) {
    out << i << ' ' << node_type_name(contents.nodes[i]) << '\n';
  }
  out << "edges " << contents.edges.size() << '\n';
  for (const auto& [from, to] : contents.edges) out << from << ' ' << to << '\n';
}

std::string node_type_name(hipGraphNodeType type) {
  switch (type) {
    case hipGraphNodeTypeKernel:
      return "kernel";
    case hipGraphNodeTypeMemcpy:
      return "memcpy";
    case hipGraphNodeTypeMemset:
      return "memset";
    case hipGraphNodeTypeHost:
      return "host";
    case hipGraphNodeTypeGraph:
      return "child_graph";
    case hipGraphNodeTypeEmpty:
      return "empty";
    case hipGraphNodeTypeWaitEvent:
      return "event_wait";
    case hipGraphNodeTypeEventRecord:
      return "event_record";
    case hipGraphNodeTypeMemAlloc:
      return "mem_alloc";
    case hipGraphNodeTypeMemFree:
      return "mem_free";
    default:
      return "type_" + std::to_string(static_cast<int>(type));
  }
}

}  // namespace apps

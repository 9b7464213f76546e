#include "capture/census.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "capture/state.h"
#include "runtime/calls.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

struct Kind {
  hipGraphNodeType type;
  const char* name;
  std::uint64_t report::NodeCounts::*count;
};

constexpr Kind kKinds[] = {
    {hipGraphNodeTypeKernel, "kernel", &report::NodeCounts::kernel},
    {hipGraphNodeTypeMemcpy, "memcpy", &report::NodeCounts::memcpy},
    {hipGraphNodeTypeMemset, "memset", &report::NodeCounts::memset},
    {hipGraphNodeTypeHost, "host", &report::NodeCounts::host},
    {hipGraphNodeTypeGraph, "child_graph", &report::NodeCounts::child_graph},
    {hipGraphNodeTypeEmpty, "empty", &report::NodeCounts::empty},
    {hipGraphNodeTypeWaitEvent, "event_wait", &report::NodeCounts::event_wait},
    {hipGraphNodeTypeEventRecord, "event_record", &report::NodeCounts::event_record},
    {hipGraphNodeTypeMemAlloc, "mem_alloc", &report::NodeCounts::mem_alloc},
    {hipGraphNodeTypeMemFree, "mem_free", &report::NodeCounts::mem_free},
};

const Kind* kind_of(std::optional<hipGraphNodeType> type) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const Kind& known) { return known.type == type; });
  return kind != std::end(kKinds) ? kind : nullptr;
}

// Counts kernels by the function they launch; a graph has few functions and many nodes.
class KernelTally {
 public:
  const std::string& count(void* function) {
    auto [entry, fresh] = by_function_.try_emplace(function);
    if (fresh) entry->second.name = runtime::kernel_name(function);
    ++entry->second.count;
    return entry->second.name;
  }

  std::vector<report::NamedCount> by_name() const {
    std::vector<report::NamedCount> kernels;
    for (const auto& tallied : by_function_) {
      const report::NamedCount& entry = tallied.second;
      const auto same = std::find_if(kernels.begin(), kernels.end(),
                                     [&](const auto& other) { return other.name == entry.name; });
      if (same == kernels.end()) {
        kernels.push_back(entry);
      } else {
        same->count += entry.count;
      }
    }
    std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
      return a.count != b.count ? a.count > b.count : a.name < b.name;
    });
    return kernels;
  }

 private:
  std::unordered_map<void*, report::NamedCount> by_function_;
};

std::vector<dag::Edge> indexed_edges(hipGraph_t graph, const std::vector<std::uint64_t>& nodes) {
  std::unordered_map<std::uint64_t, std::uint32_t> index;
  index.reserve(nodes.size());
  for (std::uint32_t i = 0; i < nodes.size(); ++i) index.emplace(nodes[i], i);
  const auto edges = runtime::edges_of(graph);
  std::vector<dag::Edge> indexed;
  indexed.reserve(edges.size());
  for (const auto& [from, to] : edges) {
    const auto a = index.find(from);
    const auto b = index.find(to);
    if (a != index.end() && b != index.end()) indexed.emplace_back(a->second, b->second);
  }
  return indexed;
}

}  // namespace

Census take_census(hipGraph_t graph, const std::vector<std::uint64_t>& foreign) {
  Census census;
  if (options().report.empty()) return census;
  const bool detail = options().report_detail;
  const std::vector<std::uint64_t> nodes = runtime::nodes_of(graph);
  KernelTally kernels;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::optional<hipGraphNodeType> type = runtime::type_of(nodes[i]);
    const Kind* kind = kind_of(type);
    const bool counts = std::find(foreign.begin(), foreign.end(), nodes[i]) == foreign.end();
    if (counts) ++(census.nodes.*(kind != nullptr ? kind->count : &report::NodeCounts::other));
    std::string name;
    if (counts && type == hipGraphNodeTypeKernel)
      name = kernels.count(runtime::kernel_of(nodes[i]));
    if (!detail) continue;
    census.graph.nodes.push_back(
        {i,
         kind != nullptr ? kind->name : fmt::format("type {}", type ? static_cast<int>(*type) : -1),
         name});
  }
  census.kernels = kernels.by_name();
  const std::vector<dag::Edge> edges = indexed_edges(graph, nodes);
  census.shape = dag::measure(static_cast<std::uint32_t>(nodes.size()), edges);
  if (detail) census.graph.edges.assign(edges.begin(), edges.end());
  return census;
}

}  // namespace hipgraft::capture

#include "capture/edits.h"

#include <algorithm>

#include "capture/handles.h"
#include "runtime/calls.h"
#include "util/log.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

// Whether arena blocks are used in the graph, captured or being captured.
bool uses_arena(hipGraph_t graph) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto captured = s.graphs.find(reinterpret_cast<std::uint64_t>(graph));
  if (captured != s.graphs.end()) return !captured->second.memories.empty();
  return std::any_of(s.sessions.begin(), s.sessions.end(), [&](const auto& entry) {
    return entry.second->graph == graph && !entry.second->own.empty();
  });
}

}  // namespace

void keep_order_around(hipGraphNode_t node) {
  const hipGraph_t graph = graph_around(node);
  if (graph == nullptr || !uses_arena(graph)) return;
  const auto id = reinterpret_cast<std::uint64_t>(node);
  std::vector<std::uint64_t> before;
  if (!runtime::dependencies_of(id, before)) return;
  const std::vector<std::uint64_t> after = runtime::dependents_of(id);
  for (const std::uint64_t later : after) {
    std::vector<std::uint64_t> known;
    runtime::dependencies_of(later, known);
    for (const std::uint64_t earlier : before) {
      // Adding an edge that is there corrupts the memory of 5.7, which lists some nodes twice.
      if (std::find(known.begin(), known.end(), earlier) != known.end()) continue;
      if (runtime::add_edge(graph, earlier, later)) known.push_back(earlier);
    }
  }
}

void forget_node(hipGraphNode_t node) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [id, session] : s.sessions) {
    session->mirror.forget(reinterpret_cast<dag::NodeId>(node));
  }
}

void edges_removed(hipGraph_t graph) {
  static std::atomic<bool> said{false};
  if (!uses_arena(graph) || said.exchange(true)) return;
  log::write(log::Level::warn,
             "hipGraphRemoveDependencies on a graph whose allocations the arena serves: if uses of "
             "different allocations are no longer ordered, set HIPGRAFT_ARENA=noreuse");
}

}  // namespace hipgraft::capture

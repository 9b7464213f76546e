#include "capture/handles.h"

#include <algorithm>
#include <utility>

#include "capture/records.h"
#include "runtime/calls.h"

namespace hipgraft::capture {
namespace {

using namespace abi;
using Table = std::unordered_map<std::uint64_t, Holder>;

std::uint64_t id(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

void add_new(std::vector<MemoryRef>& to, const std::vector<MemoryRef>& from) {
  for (const MemoryRef& memory : from) {
    if (std::find(to.begin(), to.end(), memory) == to.end()) to.push_back(memory);
  }
}

void add_uses(const Holder& from, Holder& to) {
  if (to.record == nullptr) to.record = from.record;
  add_new(to.memories, from.memories);
  add_new(to.borrowed, from.borrowed);
  to.frees.insert(to.frees.end(), from.frees.begin(), from.frees.end());
}

// Adds what `graph` uses to the entry of `handle`. With the lock held.
void add_uses_of(hipGraph_t graph, Table& table, std::uint64_t handle) {
  const auto source = state().graphs.find(id(graph));
  if (source == state().graphs.end()) return;
  const Holder from = source->second;  // `table` may be that of the graphs
  add_uses(from, table[handle]);
}

}  // namespace

void graph_captured(Holder&& uses, hipGraph_t graph) { add_uses(uses, state().graphs[id(graph)]); }

void graph_cloned(hipGraph_t from, hipGraph_t to) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  add_uses_of(from, s.graphs, id(to));
}

void graph_instantiated(hipGraph_t from, hipGraphExec_t to) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  generation.fetch_add(1);
  add_uses_of(from, s.execs, id(to));
  const auto holder = s.execs.find(id(to));
  if (holder != s.execs.end()) record_exec(holder->second.record);
}

void graph_nested(hipGraph_t child, hipGraph_t parent) { graph_cloned(child, parent); }

void graph_nested(hipGraph_t child, hipGraphExec_t parent) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  generation.fetch_add(1);
  add_uses_of(child, s.execs, id(parent));
}

hipGraph_t graph_around(hipGraphNode_t node) {
  State& s = state();
  std::vector<hipGraph_t> graphs;
  {
    const std::lock_guard lock(s.mutex);
    for (const auto& entry : s.graphs) graphs.push_back(reinterpret_cast<hipGraph_t>(entry.first));
    for (const auto& entry : s.sessions) graphs.push_back(entry.second->graph);
  }
  for (const hipGraph_t graph : graphs) {
    const auto nodes = runtime::nodes_of(graph);
    if (std::find(nodes.begin(), nodes.end(), id(node)) != nodes.end()) return graph;
  }
  return nullptr;
}

void nested_graph_seen(hipGraphNode_t node, hipGraph_t nested) {
  const std::uint64_t around = id(graph_around(node));
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto parent = s.graphs.find(around);
  if (parent == s.graphs.end()) return;
  parent->second.nested.push_back(id(nested));
  const Holder uses = parent->second;  // all of the parent's: more than it may need, never less
  add_uses(uses, s.graphs[id(nested)]);
}

void graph_nested(hipGraph_t child, hipGraphNode_t node) {
  const std::uint64_t around = id(graph_around(node));
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (around != 0) add_uses_of(child, s.graphs, around);
}

void exec_updated(hipGraphExec_t exec, hipGraph_t graph, bool succeeded) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  generation.fetch_add(1);
  Holder before;
  if (succeeded) {
    const auto holder = s.execs.find(id(exec));
    if (holder != s.execs.end()) before = std::move(holder->second);
    s.execs.erase(id(exec));
  }
  add_uses_of(graph, s.execs, id(exec));
}

namespace {

// The handles of graphs inside one that is gone, and inside those, are so too.
void forget_nested(const Holder& gone, Table& table) {
  for (const std::uint64_t nested : gone.nested) {
    if (const auto entry = table.extract(nested)) forget_nested(entry.mapped(), table);
  }
}

}  // namespace

Forgotten::Forgotten(hipGraph_t graph) : table_(state().graphs), handle_(id(graph)) {
  const std::lock_guard lock(state().mutex);
  auto entry = table_.extract(handle_);
  if (!entry) return;
  holder_ = std::move(entry.mapped());
  forget_nested(*holder_, table_);
}

Forgotten::Forgotten(hipGraphExec_t exec) : table_(state().execs), handle_(id(exec)) {
  const std::lock_guard lock(state().mutex);
  generation.fetch_add(1);
  if (auto entry = table_.extract(handle_)) holder_ = std::move(entry.mapped());
}

void Forgotten::restore() {
  const std::lock_guard lock(state().mutex);
  if (holder_) table_.insert_or_assign(handle_, std::move(*holder_));
  holder_.reset();
}

Forgotten::~Forgotten() {
  const std::lock_guard lock(state().mutex);
  holder_.reset();  // the last references to memory end under the lock
}

}  // namespace hipgraft::capture

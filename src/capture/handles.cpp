#include "capture/handles.h"

#include <algorithm>
#include <utility>

#include "capture/records.h"

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

void graph_captured(Holder&& uses, hipGraph_t graph) {
  add_uses(uses, state().graphs[id(graph)]);
}

void graph_cloned(hipGraph_t from, hipGraph_t to) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  add_uses_of(from, s.graphs, id(to));
}

void graph_instantiated(hipGraph_t from, hipGraphExec_t to) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.generation.fetch_add(1);
  add_uses_of(from, s.execs, id(to));
  const auto holder = s.execs.find(id(to));
  if (holder != s.execs.end()) record_exec(holder->second.record);
}

void graph_nested(hipGraph_t child, hipGraph_t parent) { graph_cloned(child, parent); }

void graph_nested(hipGraph_t child, hipGraphExec_t parent) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.generation.fetch_add(1);
  add_uses_of(child, s.execs, id(parent));
}

void exec_updated(hipGraphExec_t exec, hipGraph_t graph, bool succeeded) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.generation.fetch_add(1);
  Holder before;
  if (succeeded) {
    const auto holder = s.execs.find(id(exec));
    if (holder != s.execs.end()) before = std::move(holder->second);
    s.execs.erase(id(exec));
  }
  add_uses_of(graph, s.execs, id(exec));
}

Forgotten::Forgotten(hipGraph_t graph) : table_(state().graphs), handle_(id(graph)) {
  const std::lock_guard lock(state().mutex);
  if (auto entry = table_.extract(handle_)) holder_ = std::move(entry.mapped());
}

Forgotten::Forgotten(hipGraphExec_t exec) : table_(state().execs), handle_(id(exec)) {
  const std::lock_guard lock(state().mutex);
  state().generation.fetch_add(1);
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

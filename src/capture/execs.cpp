#include "capture/execs.h"

#include <algorithm>

#include "runtime/bypass.h"
#include "runtime/calls.h"
#include "runtime/quirks.h"
#include "runtime/real.h"
#include "util/log.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

// An exec is worn when its updates have updated so many nodes: about 1 MiB of kernel arguments. But
// to make an exec costs as much as a few updates, and so has to wait for some.
constexpr std::uint64_t kWornNodes = 8192;
constexpr std::uint64_t kFewestUpdates = 32;

std::uint64_t id(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

Renewable* find(hipGraphExec_t exec) {
  State& s = state();
  const auto entry = s.renewables.find(id(exec));
  return entry != s.renewables.end() ? &entry->second : nullptr;
}

// Null if the exec's own graph is gone.
Source* source_of(const Renewable& exec) {
  State& s = state();
  const auto source = s.sources.find(id(exec.source));
  const bool same = source != s.sources.end() && source->second.number == exec.source_number;
  return same ? &source->second : nullptr;
}

// What an update sets as a whole. It leaves graphs inside the graph as they were (seen on 6.4 and
// 7.2), and what a node has allocated belongs to one exec.
bool updates_set(hipGraphNodeType type) {
  switch (type) {
    case hipGraphNodeTypeKernel:
    case hipGraphNodeTypeMemcpy:
    case hipGraphNodeTypeMemset:
    case hipGraphNodeTypeHost:
    case hipGraphNodeTypeEmpty:
      return true;
    default:
      return false;
  }
}

// 0 if an exec of the graph must not be renewed.
std::uint64_t count_nodes(hipGraph_t graph) {
  const std::vector<std::uint64_t> nodes = runtime::nodes_of(graph);
  const bool renewable = std::all_of(nodes.begin(), nodes.end(), [](std::uint64_t node) {
    const auto type = runtime::type_of(node);
    return type && updates_set(*type);
  });
  return renewable ? nodes.size() : 0;
}

bool much_updated(Renewable& exec) {
  return exec.nodes != 0 && exec.updates >= kFewestUpdates &&
         exec.updates * exec.nodes >= kWornNodes;
}

// How a worn exec is made anew.
struct Renewal {
  hipGraph_t from = nullptr;
  unsigned long long flags = 0;
  int device = 0;
  bool own_graph = false;  // `from` is the exec's own, in use meanwhile
};

// Counts an update. With the lock held.
std::optional<Renewal> renewal_after(hipGraphExec_t handle, hipGraph_t updated_from) {
  Renewable* exec = find(handle);
  if (exec == nullptr || exec->kept) return std::nullopt;
  ++exec->updates;
  if (!much_updated(*exec)) return std::nullopt;
  exec->updates = 0;
  Source* source = source_of(*exec);
  if (source == nullptr) return Renewal{updated_from, exec->flags, exec->device, false};
  // The program has not named its graph in this call: another thread might be changing it.
  if (exec->source != updated_from && exec->thread != this_thread()) return std::nullopt;
  ++source->in_use;
  return Renewal{exec->source, exec->flags, exec->device, true};
}

// Null if the runtime refuses, or if a call past us might mean the former exec.
hipGraphExec_t make(const Renewal& renewal, hipGraph_t updated_from) {
  if (runtime::object_that_bypasses() != nullptr) return nullptr;
  const hipGraphExec_t made = runtime::instantiate(renewal.from, renewal.flags, renewal.device);
  if (made == nullptr || renewal.from == updated_from) return made;
  if (runtime::update(made, updated_from)) return made;
  runtime::destroy_exec(made);
  return nullptr;
}

// Gives back what there is to destroy.
hipGraphExec_t replace(hipGraphExec_t handle, const Renewal& renewal, hipGraphExec_t made) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (renewal.own_graph) {
    --s.sources[id(renewal.from)].in_use;
    s.changed.notify_all();
  }
  Renewable* exec = find(handle);
  if (exec == nullptr || made == nullptr) return made;
  if (exec->behind == nullptr) s.renewed.fetch_add(1, std::memory_order_release);
  generation.fetch_add(1);
  return std::exchange(exec->behind, made);
}

void renew(hipGraphExec_t handle, hipGraph_t updated_from, const Renewal& renewal) {
  const hipGraphExec_t made = make(renewal, updated_from);
  log::write(log::Level::debug, "the exec {} was updated often and is {}",
             static_cast<const void*>(handle), made != nullptr ? "renewed" : "not to be renewed");
  const hipGraphExec_t former = replace(handle, renewal, made);
  if (former != nullptr) runtime::destroy_exec(former);
}

// Looks at the graph once in the life of an exec, not before it is of interest.
void look_at_nodes(hipGraphExec_t handle, hipGraph_t graph) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    const Renewable* exec = find(handle);
    if (exec == nullptr || exec->kept || exec->nodes != 0) return;
    if (exec->updates + 1 < kFewestUpdates) return;
  }
  const std::uint64_t nodes = count_nodes(graph);
  const std::lock_guard lock(s.mutex);
  Renewable* exec = find(handle);
  if (exec == nullptr) return;
  exec->nodes = nodes;
  exec->kept = exec->kept || nodes == 0;
}

}  // namespace

hipGraphExec_t behind_locked(hipGraphExec_t exec) {
  const Renewable* known = find(exec);
  return known != nullptr && known->behind != nullptr ? known->behind : exec;
}

hipGraphExec_t behind(hipGraphExec_t exec) {
  State& s = state();
  if (s.renewed.load(std::memory_order_acquire) == 0) return exec;
  const std::lock_guard lock(s.mutex);
  return behind_locked(exec);
}

void exec_made(hipGraphExec_t exec, hipGraph_t from, unsigned long long flags) {
  if (!runtime::updates_pile_up()) return;
  Renewable made;
  made.source = from;
  made.flags = flags;
  made.device = runtime::current_device();
  made.thread = this_thread();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.inner_graphs.contains(id(from))) return;
  const auto [source, is_new] = s.sources.try_emplace(id(from));
  if (is_new) source->second.number = ++s.sources_made;
  made.source_number = source->second.number;
  s.renewables.insert_or_assign(id(exec), made);
}

void exec_worn(hipGraphExec_t exec, hipGraph_t updated_from) {
  State& s = state();
  if (!runtime::updates_pile_up() || s.user_objects.load()) return;
  look_at_nodes(exec, updated_from);
  std::optional<Renewal> renewal;
  {
    const std::lock_guard lock(s.mutex);
    renewal = renewal_after(exec, updated_from);
  }
  if (renewal) renew(exec, updated_from, *renewal);
}

void keep_exec(hipGraphExec_t exec) {
  const std::lock_guard lock(state().mutex);
  if (Renewable* known = find(exec)) known->kept = true;
}

void user_objects_seen() { state().user_objects.store(true); }

void inner_graph_seen(hipGraph_t graph) {
  if (!runtime::updates_pile_up()) return;
  const std::lock_guard lock(state().mutex);
  state().inner_graphs.insert(id(graph));
}

hipError_t destroy_exec(hipGraphExec_t exec) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  auto entry = s.renewables.extract(id(exec));
  lock.unlock();
  const hipError_t result = runtime::real().hipGraphExecDestroy(exec);
  if (!entry) return result;
  if (result != hipSuccess) {
    lock.lock();
    s.renewables.insert(std::move(entry));
    return result;
  }
  if (entry.mapped().behind == nullptr) return result;
  s.renewed.fetch_sub(1, std::memory_order_release);
  runtime::destroy_exec(entry.mapped().behind);
  return result;
}

hipError_t destroy_graph(hipGraph_t graph) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  const auto unused = [&] {
    const auto source = s.sources.find(id(graph));
    return source == s.sources.end() || source->second.in_use == 0;
  };
  s.changed.wait(lock, unused);
  auto entry = s.sources.extract(id(graph));
  lock.unlock();
  const hipError_t result = runtime::real().hipGraphDestroy(graph);
  lock.lock();
  if (result != hipSuccess && entry) s.sources.insert(std::move(entry));
  return result;
}

}  // namespace hipgraft::capture

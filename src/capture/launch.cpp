#include "capture/launch.h"

#include <sched.h>
#include <time.h>

#include "capture/ordering.h"
#include "capture/records.h"
#include "runtime/real.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// A memory is settled on a timeline when its last launch was on it and another one there needs
// nothing but the launch itself: no order, no block to allocate or free again. Such launches, all of
// them in most programs, take no lock: they announce themselves in Memory::launching and then look
// whether the memory is still settled. Whoever changes that resets `settled` first and then waits
// for the announced ones, so that one of the two sees the other (both sequentially consistent).
constexpr std::uint64_t settled_on(arena::Fence timeline) { return std::uint64_t{timeline} + 1; }

// What a thread remembers of an exec on a stream, valid for one State::generation.
struct Known {
  hipGraphExec_t exec = nullptr;
  StreamKey stream;
  std::uint64_t generation = 0;
  const Holder* holder = nullptr;  // null: nothing of ours
  arena::Fence timeline = 0;
};

constexpr std::size_t kKnown = 8;
constinit thread_local Known known_execs[kKnown];

Known& slot_of(hipGraphExec_t exec) {
  return known_execs[reinterpret_cast<std::uint64_t>(exec) / 64 % kKnown];
}

hipError_t issue(hipGraphExec_t exec, hipStream_t stream, Record* record) {
  const auto& real = runtime::real().hipGraphLaunch;
  if (record == nullptr) return real(exec, stream);
  const std::uint64_t begun = now_ns();
  const hipError_t result = real(exec, stream);
  if (result == hipSuccess) record->host_ns.add(now_ns() - begun);
  return result;
}

void retract(const Holder& holder, std::size_t announced) {
  for (std::size_t i = 0; i < announced; ++i) holder.memories[i]->launching.fetch_sub(1);
}

bool announce(const Known& known) {
  const Holder& holder = *known.holder;
  if (!holder.frees.empty()) return false;
  for (std::size_t i = 0; i < holder.memories.size(); ++i) {
    holder.memories[i]->launching.fetch_add(1);
    if (holder.memories[i]->settled.load() == settled_on(known.timeline)) continue;
    retract(holder, i + 1);
    return false;
  }
  return true;
}

// A launch that has to take the lock.
struct Launch {
  Known known;
  std::vector<MemoryRef> memories;
  std::size_t allocates = 0;  // the first so many of them
  std::vector<arena::Address> frees;
  arena::Fences waits;
  RecordRef record;
};

// The graph allocates anew what the program has freed since, and frees what it frees.
void run_allocations(const Launch& launch) {
  State& s = state();
  for (std::size_t i = 0; i < launch.allocates; ++i) {
    const MemoryRef& memory = launch.memories[i];
    for (const arena::Address address : memory->returned) s.blocks.emplace(address, memory);
    memory->returned.clear();
  }
  for (const arena::Address address : launch.frees) {
    const auto block = s.blocks.find(address);
    if (block == s.blocks.end()) continue;
    block->second->returned.push_back(address);
    s.blocks.erase(block);
  }
}

// Waits its turn at each memory: the next launch must find this one issued before it records an
// event behind it. Launches are short, and seldom meet.
void wait_for_turn(const std::vector<MemoryRef>& memories, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    bool free = true;
    for (const MemoryRef& memory : memories) memory->settled.store(0);
    for (const MemoryRef& memory : memories) free = free && memory->launching.load() == 0;
    if (free) return;
    lock.unlock();
    sched_yield();
    lock.lock();
  }
}

Launch prepare(hipGraphExec_t exec, hipStream_t stream) {
  State& s = state();
  Launch launch;
  std::unique_lock lock(s.mutex);
  launch.known.exec = exec;
  launch.known.stream = key_of(stream);
  launch.known.generation = s.generation.load();
  const auto entry = s.execs.find(reinterpret_cast<std::uint64_t>(exec));
  if (entry == s.execs.end()) return launch;
  launch.known.holder = &entry->second;
  launch.record = entry->second.record;
  launch.memories = entry->second.memories;
  launch.allocates = launch.memories.size();
  const std::vector<MemoryRef>& borrowed = entry->second.borrowed;
  launch.memories.insert(launch.memories.end(), borrowed.begin(), borrowed.end());
  launch.frees = entry->second.frees;
  if (launch.memories.empty()) return launch;

  wait_for_turn(launch.memories, lock);
  const arena::Fence mine = fence_of(stream);
  launch.known.timeline = mine;
  for (const MemoryRef& memory : launch.memories) {
    memory->launching.fetch_add(1);
    arena::add_fences(launch.waits, memory->region.fences());
    memory->region.fences().assign(1, mine);
  }
  std::erase(launch.waits, mine);
  if (!launch.waits.empty() && launch.record != nullptr) ++launch.record->data.replays.ordered;
  run_allocations(launch);
  issued(mine);
  return launch;
}

void finish(Launch& launch) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  // A thread's own stream has to be sealed behind each launch.
  const bool plain = launch.known.stream.thread == 0 && launch.frees.empty();
  for (const MemoryRef& memory : launch.memories) {
    const bool settled = plain && memory->returned.empty();
    memory->settled.store(settled ? settled_on(launch.known.timeline) : 0);
    memory->launching.fetch_sub(1);
  }
  launch.memories.clear();  // may be the last reference: under the lock
}

hipError_t launch_with_lock(hipGraphExec_t exec, hipStream_t stream) {
  Launch launch = prepare(exec, stream);
  slot_of(exec) = launch.known;
  if (launch.memories.empty()) return issue(exec, stream, launch.record.get());
  hipError_t result = launch.waits.empty() ? hipSuccess : order_after(launch.waits, stream);
  if (result == hipSuccess) result = issue(exec, stream, launch.record.get());
  // Other threads cannot record anything on a thread's own stream later.
  if (launch.known.stream.thread != 0) seal(stream);
  finish(launch);
  return result;
}

}  // namespace

hipError_t launch(hipGraphExec_t exec, hipStream_t stream) {
  const Known& known = slot_of(exec);
  const bool valid = known.exec == exec && known.stream == key_of(stream) &&
                     known.generation == state().generation.load();
  if (!valid) return launch_with_lock(exec, stream);
  if (known.holder == nullptr) return issue(exec, stream, nullptr);
  const Holder& holder = *known.holder;
  if (!announce(known)) return launch_with_lock(exec, stream);
  const hipError_t result = issue(exec, stream, holder.record.get());
  retract(holder, holder.memories.size());
  return result;
}

}  // namespace hipgraft::capture

#include "capture/launch.h"

#include <sched.h>
#include <time.h>

#include "capture/allocation.h"
#include "capture/ordering.h"
#include "capture/records.h"
#include "runtime/calls.h"
#include "runtime/last_error.h"
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
// nothing but the launch itself: no order, no block to allocate or free again. Such launches, all
// of them in most programs, take no lock: they announce themselves in Memory::launching and then
// look whether the memory is still settled. Whoever changes that resets `settled` first and then
// waits for the announced ones, so that one of the two sees the other (both sequentially
// consistent).
constexpr std::uint64_t settled_on(arena::Fence timeline) { return std::uint64_t{timeline} + 1; }

// What a thread remembers of an exec on a stream, valid for one State::generation.
struct Known {
  hipGraphExec_t exec = nullptr;
  StreamKey stream;
  std::uint64_t generation = 0;
  const Holder* holder = nullptr;  // null: nothing of ours
  arena::Fence timeline = 0;
  std::atomic<int>* issuing = nullptr;  // of the timeline
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

void retract(const Known& known, std::size_t announced) {
  for (std::size_t i = 0; i < announced; ++i) known.holder->memories[i]->launching.fetch_sub(1);
  known.issuing->fetch_sub(1);
}

// False if the launch has to take the lock.
bool announce(const Known& known) {
  const Holder& holder = *known.holder;
  if (known.issuing == nullptr || !holder.frees.empty()) return false;
  known.issuing->fetch_add(1);
  std::size_t announced = 0;
  bool settled = known.generation == state().generation.load();
  while (settled && announced < holder.memories.size()) {
    Memory& memory = *holder.memories[announced++];
    memory.launching.fetch_add(1);
    settled = memory.settled.load() == settled_on(known.timeline);
  }
  if (!settled) retract(known, announced);
  return settled;
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

// The graph allocates its blocks, those that the program has not freed since the last launch
// excepted, and frees those of other graphs that it frees.
void run_allocations(const Launch& launch) {
  State& s = state();
  for (std::size_t i = 0; i < launch.allocates; ++i) {
    const MemoryRef& memory = launch.memories[i];
    for (const arena::Address address : memory->dormant) s.blocks[address].owned = memory;
    memory->dormant.clear();
  }
  for (const arena::Address address : launch.frees) give_up_block(address);
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

Launch prepare(hipGraphExec_t exec, const StreamAt& at) {
  State& s = state();
  Launch launch;
  std::unique_lock lock(s.mutex);
  launch.known.exec = exec;
  launch.known.stream = at.key;
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
  const arena::Fence mine = fence_of(at);
  launch.known.timeline = mine;
  launch.known.issuing = &s.issuing[mine];
  for (const MemoryRef& memory : launch.memories) {
    memory->launching.fetch_add(1);
    arena::add_fences(launch.waits, memory->region.fences());
    memory->region.fences().assign(1, mine);
  }
  std::erase(launch.waits, mine);
  if (!launch.waits.empty() && launch.record != nullptr) ++launch.record->data.replays.ordered;
  run_allocations(launch);
  return launch;
}

void finish(Launch& launch, bool can_settle) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const MemoryRef& memory : launch.memories) {
    const bool settled = can_settle && launch.frees.empty() && memory->dormant.empty();
    memory->settled.store(settled ? settled_on(launch.known.timeline) : 0);
    memory->launching.fetch_sub(1);
  }
  launch.memories.clear();  // may be the last reference: under the lock
}

// From here to the end of the call a seal of the stream waits.
void begin_issue(const Launch& launch) {
  const std::lock_guard lock(state().mutex);
  launch.known.issuing->fetch_add(1);
  issued(launch.known.timeline);
}

// The runtime runs a launch on a capturing stream at once, outside the capture. No event could be
// recorded behind it on that stream: it runs on one of ours that stands in for it.
hipError_t launch_beside_capture(const Launch& launch, const StreamAt& at) {
  const hipStream_t relay = stand_in(at, launch.waits);
  if (relay == nullptr) return runtime::answer(hipErrorOutOfMemory);
  const hipError_t result = issue(launch.known.exec, relay, launch.record.get());
  const hipError_t noted = stand_in_issued(at, relay);
  return result == hipSuccess ? noted : result;
}

hipError_t launch_on_stream(const Launch& launch, const StreamAt& at) {
  if (!launch.waits.empty()) {
    const hipError_t ordered = order_after(launch.waits, at.stream);
    if (ordered != hipSuccess) return runtime::answer(ordered);
  }
  begin_issue(launch);
  const hipError_t result = issue(launch.known.exec, at.stream, launch.record.get());
  launch.known.issuing->fetch_sub(1);
  // Other threads cannot record anything on a thread's own stream later.
  if (at.key.per_thread()) seal(at.stream);
  return result;
}

bool captures(hipStream_t stream) {
  return state().live_sessions.load(std::memory_order_acquire) != 0 &&
         runtime::capture_of(stream).active();
}

hipError_t launch_with_lock(hipGraphExec_t exec, hipStream_t stream) {
  const StreamAt at(stream);
  Launch launch = prepare(exec, at);
  if (launch.memories.empty()) {
    slot_of(exec) = launch.known;
    return issue(exec, stream, launch.record.get());
  }
  const bool beside = captures(stream);
  if (!beside) slot_of(exec) = launch.known;
  const hipError_t result =
      beside ? launch_beside_capture(launch, at) : launch_on_stream(launch, at);
  finish(launch, !beside && !at.key.per_thread());
  return result;
}

}  // namespace

hipError_t launch(hipGraphExec_t exec, hipStream_t stream) {
  const Known known = slot_of(exec);
  const bool valid = known.exec == exec && known.stream == key_of(stream) &&
                     known.generation == state().generation.load();
  if (!valid) return launch_with_lock(exec, stream);
  if (known.holder == nullptr) return issue(exec, stream, nullptr);
  Record* record = known.holder->record.get();
  if (known.holder->memories.empty() && known.holder->borrowed.empty()) {
    return issue(exec, stream, record);
  }
  if (!announce(known)) return launch_with_lock(exec, stream);
  const hipError_t result = issue(exec, stream, record);
  retract(known, known.holder->memories.size());
  return result;
}

}  // namespace hipgraft::capture

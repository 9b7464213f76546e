#include "capture/launch.h"

#include <sched.h>
#include <time.h>

#include "capture/allocation.h"
#include "capture/execs.h"
#include "capture/ordering.h"
#include "capture/records.h"
#include "runtime/calls.h"
#include "runtime/inside.h"
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
// of them in most programs, take no lock: they announce themselves in State::issuing and then look
// whether the memory is still settled. Memory::settled names the timeline by its State::issuing.
// Whoever changes that resets `settled` first and then waits for the announced ones, so that one of
// the two sees the other (both sequentially consistent).

// What a thread remembers of a launch that it may repeat without the lock: all that is needed, in
// one cache line, because between launches the caches are the program's.
struct alignas(64) Known {
  hipGraphExec_t exec = nullptr;
  hipGraphExec_t behind = nullptr;  // see execs.h
  hipStream_t stream = nullptr;
  std::uint64_t generation = 0;
  abi::hipGraphLaunch_fn* real = nullptr;
  Record* record = nullptr;             // null: nobody asks
  Memory* memory = nullptr;             // null: the graph uses none of the arena's
  std::atomic<int>* issuing = nullptr;  // of the timeline
};
static_assert(sizeof(Known) == 64);

constexpr std::size_t kKnown = 8;
constinit thread_local Known known_execs[kKnown];

Known& slot_of(hipGraphExec_t exec) {
  return known_execs[reinterpret_cast<std::uint64_t>(exec) / 64 % kKnown];
}

// Times the first launches, then every 16th: enough for percentiles.
constexpr std::uint64_t kAlwaysTimed = 128;
constexpr std::uint64_t kTimedEvery = 16;

[[gnu::hot]] hipError_t issue(hipGraphExec_t exec, hipStream_t stream, abi::hipGraphLaunch_fn* real,
                              Record* record) {
  if (record == nullptr) return real(exec, stream);
  const std::uint64_t before = record->launches.fetch_add(1, std::memory_order_relaxed);
  const bool is_timed = before < kAlwaysTimed || before % kTimedEvery == 0;
  const std::uint64_t begun = is_timed ? now_ns() : 0;
  const hipError_t result = real(exec, stream);
  if (result != hipSuccess) {
    record->launches.fetch_sub(1, std::memory_order_relaxed);
    return result;
  }
  if (is_timed) record->host_ns.add(now_ns() - begun);
  return result;
}

// A launch that has to take the lock.
struct Launch {
  hipGraphExec_t exec = nullptr;
  hipGraphExec_t behind = nullptr;
  std::uint64_t generation = 0;  // when it was looked up
  arena::Fence timeline = 0;
  std::atomic<int>* issuing = nullptr;  // of the timeline
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
  std::vector<std::atomic<int>*> settled;  // where launches without the lock may be under way
  for (;;) {
    for (const MemoryRef& memory : memories) settled.push_back(memory->settled.exchange(nullptr));
    bool free = true;
    for (const std::atomic<int>* on : settled) free = free && (on == nullptr || on->load() == 0);
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
  launch.exec = exec;
  launch.behind = behind_locked(exec);
  launch.generation = generation.load();
  const auto entry = s.execs.find(reinterpret_cast<std::uint64_t>(exec));
  if (entry == s.execs.end()) return launch;
  launch.record = entry->second.record;
  launch.memories = entry->second.memories;
  launch.allocates = launch.memories.size();
  const std::vector<MemoryRef>& borrowed = entry->second.borrowed;
  launch.memories.insert(launch.memories.end(), borrowed.begin(), borrowed.end());
  launch.frees = entry->second.frees;
  if (launch.memories.empty()) return launch;

  wait_for_turn(launch.memories, lock);
  const arena::Fence mine = fence_of(at);
  launch.timeline = mine;
  launch.issuing = &s.issuing[mine];
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
    const arena::Fences& fences = memory->region.fences();  // more than one: not_ordered
    const bool settled = can_settle && launch.frees.empty() && memory->dormant.empty() &&
                         fences.size() == 1 && fences[0] == launch.timeline;
    memory->settled.store(settled ? launch.issuing : nullptr);
    memory->launching.fetch_sub(1);
  }
  launch.memories.clear();  // may be the last reference: under the lock
}

// The launch does not happen because it could not be ordered: the next one has to wait in its
// place.
void not_ordered(const Launch& launch) {
  const std::lock_guard lock(state().mutex);
  for (const MemoryRef& memory : launch.memories) {
    arena::add_fences(memory->region.fences(), launch.waits);
  }
}

// From here to the end of the call a seal of the stream waits.
void begin_issue(const Launch& launch) {
  const std::lock_guard lock(state().mutex);
  launch.issuing->fetch_add(1);
  issued(launch.timeline);
}

// The runtime runs a launch on a capturing stream at once, outside the capture. No event could be
// recorded behind it on that stream: it runs on one of ours that stands in for it.
hipError_t launch_beside_capture(const Launch& launch, const StreamAt& at) {
  const hipStream_t relay = stand_in(at, launch.waits);
  if (relay == nullptr) {
    not_ordered(launch);
    return runtime::answer(hipErrorOutOfMemory);
  }
  const hipError_t result =
      issue(launch.behind, relay, runtime::real().hipGraphLaunch, launch.record.get());
  const hipError_t noted = stand_in_issued(at, relay);
  return result == hipSuccess ? noted : result;
}

hipError_t launch_on_stream(const Launch& launch, const StreamAt& at) {
  if (!launch.waits.empty()) {
    const hipError_t ordered = order_after(launch.waits, at.stream);
    if (ordered != hipSuccess) {
      not_ordered(launch);
      return runtime::answer(ordered);
    }
  }
  begin_issue(launch);
  const hipError_t result =
      issue(launch.behind, at.stream, runtime::real().hipGraphLaunch, launch.record.get());
  launch.issuing->fetch_sub(1);
  // Other threads cannot record anything on a thread's own stream later.
  if (at.key.per_thread()) seal(at.stream);
  return result;
}

bool captures(hipStream_t stream) {
  return state().live_sessions.load(std::memory_order_acquire) != 0 &&
         runtime::capture_of(stream).active();
}

// For the next launch of this thread. A graph with several memories is rare, and launched with the
// lock; so are the streams that mean another one by place or thread.
void remember(const Launch& launch, const StreamAt& at) {
  if (at.key.handle <= kPerThreadHandle || launch.memories.size() > 1 || !launch.frees.empty()) {
    return;
  }
  Known& known = slot_of(launch.exec);
  known.exec = launch.exec;
  known.behind = launch.behind;
  known.stream = at.stream;
  known.generation = launch.generation;
  known.real = runtime::real().hipGraphLaunch;
  known.record = launch.record.get();
  known.memory = launch.memories.empty() ? nullptr : launch.memories[0].get();
  known.issuing = launch.issuing;
}

}  // namespace

hipError_t launch(hipGraphExec_t exec, hipStream_t stream) {
  runtime::supersede_last_error();
  const StreamAt at(stream);
  Launch launch = prepare(exec, at);
  if (launch.memories.empty()) {
    remember(launch, at);
    return issue(launch.behind, stream, runtime::real().hipGraphLaunch, launch.record.get());
  }
  const bool beside = captures(stream);
  if (!beside) remember(launch, at);
  const hipError_t result =
      beside ? launch_beside_capture(launch, at) : launch_on_stream(launch, at);
  finish(launch, !beside && !at.key.per_thread());
  return result;
}

// Hot, like all that it runs and its caller: the linker then puts them side by side, and a launch
// meets one cold page of ours instead of three.
[[gnu::hot]] Answer launch_again(hipGraphExec_t exec, hipStream_t stream) {
  const Known& known = slot_of(exec);
  if (known.exec != exec || known.stream != stream) return std::nullopt;
  const runtime::Inside inside;
  if (!inside.outermost()) return std::nullopt;
  if (known.memory == nullptr) {
    if (known.generation != generation.load()) return std::nullopt;
    return issue(known.behind, stream, known.real, known.record);
  }
  std::atomic<int>& issuing = *known.issuing;
  issuing.fetch_add(1);
  Answer answer;
  if (known.generation == generation.load() && known.memory->settled.load() == known.issuing) {
    answer = issue(known.behind, stream, known.real, known.record);
  }
  issuing.fetch_sub(1);
  return answer;
}

}  // namespace hipgraft::capture

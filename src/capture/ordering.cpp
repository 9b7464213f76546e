#include "capture/ordering.h"

#include <sched.h>

#include "runtime/calls.h"

namespace hipgraft::capture {
namespace {

using namespace abi;

// Event work by one thread at a time, without holding the lock.
class Ordering {
 public:
  Ordering() {
    State& s = state();
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return !s.ordering; });
    s.ordering = true;
  }
  ~Ordering() {
    State& s = state();
    {
      const std::lock_guard lock(s.mutex);
      s.ordering = false;
    }
    s.changed.notify_all();
  }
  Ordering(const Ordering&) = delete;
  Ordering& operator=(const Ordering&) = delete;
};

Timeline timeline(arena::Fence fence) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.timelines[fence];
}

std::optional<arena::Fence> known_timeline(StreamKey key) {
  State& s = state();
  if (s.known_timelines.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(s.mutex);
  const auto known = s.timeline_of.find(key);
  if (known == s.timeline_of.end()) return std::nullopt;
  return known->second;
}

// Records the timeline's event, so that waiting for it is waiting for all issued so far.
hipError_t record(arena::Fence fence, Timeline& at) {
  const hipError_t result = runtime::record_event(at.event, at.stream, at.device);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.timelines[fence].event = at.event;
  return result;
}

// Records on a stream of ours what a later wait for the timeline will wait for.
hipError_t record_on_relay(arena::Fence fence, Timeline& at, hipStream_t relay) {
  const hipError_t result = runtime::record_event(at.relayed, relay, at.device);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.timelines[fence].relayed = at.relayed;
  return result;
}

hipError_t record_relayed(arena::Fence fence, Timeline& at) {
  hipError_t result = record(fence, at);
  if (result != hipSuccess) return result;
  const hipStream_t relay = runtime::own_stream(at.device);
  if (relay == nullptr) return hipErrorOutOfMemory;
  result = runtime::wait_event(relay, at.event);
  return result == hipSuccess ? record_on_relay(fence, at, relay) : result;
}

hipError_t order_after_one(arena::Fence fence, hipStream_t stream) {
  Timeline at = timeline(fence);
  if (at.unused) return hipSuccess;
  if (at.sealed) return runtime::wait_event(stream, at.relayed);
  const hipError_t recorded = record(fence, at);
  return recorded == hipSuccess ? runtime::wait_event(stream, at.event) : recorded;
}

hipError_t order_after_all(const arena::Fences& fences, hipStream_t stream) {
  for (const arena::Fence fence : fences) {
    const hipError_t result = order_after_one(fence, stream);
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

// A launch on the stream that is being issued meanwhile would stand behind the event and be taken
// for ordered: launches in flight are waited for, and one that begins makes it try again.
void seal_timeline(arena::Fence fence) {
  State& s = state();
  for (;;) {
    while (s.issuing[fence].load() != 0) sched_yield();
    Timeline at = timeline(fence);
    if (at.sealed || runtime::capture_of(at.stream).active()) return;
    if (record_relayed(fence, at) != hipSuccess) return;
    const std::lock_guard lock(s.mutex);
    if (s.issuing[fence].load() != 0 || s.timelines[fence].issues != at.issues) continue;
    s.timelines[fence].sealed = true;
    return;
  }
}

}  // namespace

StreamAt::StreamAt(hipStream_t handle)
    : stream(handle), key(key_of(handle)), device(runtime::device_of(handle)) {}

arena::Fence fence_of(const StreamAt& at) {
  State& s = state();
  const auto known = s.timeline_of.find(at.key);
  if (known != s.timeline_of.end()) return known->second;
  arena::Fence fence = 0;
  while (fence < s.timelines.size() && !s.timelines[fence].unused) ++fence;
  if (fence == s.timelines.size()) {
    s.timelines.emplace_back();
    s.issuing.emplace_back(0);
  }
  s.timelines[fence] = Timeline{};
  s.timelines[fence].key = at.key;
  s.timelines[fence].stream = at.stream;
  s.timelines[fence].device = at.device;
  s.timeline_of.emplace(at.key, fence);
  s.known_timelines.fetch_add(1, std::memory_order_release);
  return fence;
}

void issued(arena::Fence fence) {
  Timeline& at = state().timelines[fence];
  ++at.issues;
  at.sealed = false;
}

hipError_t order_after(const arena::Fences& fences, hipStream_t stream) {
  const Ordering ordering;
  return order_after_all(fences, stream);
}

void seal(hipStream_t stream) {
  const std::optional<arena::Fence> fence = known_timeline(key_of(stream));
  if (!fence) return;
  // From here on launches on the stream take the lock, and are noticed.
  generation.fetch_add(1);
  const Ordering ordering;
  seal_timeline(*fence);
}

void seal_for_capture(hipStream_t stream) {
  State& s = state();
  const StreamAt at(stream);
  {
    const std::lock_guard lock(s.mutex);
    // Another thread may instantiate and launch meanwhile, and wait for what ran on the stream.
    if (s.execs.empty() && !s.timeline_of.contains(at.key)) return;
    fence_of(at);
  }
  seal(stream);
}

hipStream_t stand_in(const StreamAt& at, const arena::Fences& fences) {
  const Ordering ordering;
  const hipStream_t relay = runtime::own_stream(at.device);
  if (relay == nullptr || order_after_all(fences, relay) != hipSuccess) return nullptr;
  const std::optional<arena::Fence> own = known_timeline(at.key);
  if (!own) return relay;
  const Timeline before = timeline(*own);
  const bool reached = !before.sealed || order_after_one(*own, relay) == hipSuccess;
  return reached ? relay : nullptr;
}

hipError_t stand_in_issued(const StreamAt& at, hipStream_t stand_in) {
  State& s = state();
  const Ordering ordering;
  const std::optional<arena::Fence> own = known_timeline(at.key);
  if (!own) return hipSuccess;
  Timeline now = timeline(*own);
  const hipError_t result = record_on_relay(*own, now, stand_in);
  const std::lock_guard lock(s.mutex);
  s.timelines[*own].sealed = true;
  s.timelines[*own].rejoin = true;
  return result;
}

void rejoin_stand_ins() {
  State& s = state();
  if (s.known_timelines.load(std::memory_order_acquire) == 0) return;
  const Ordering ordering;
  for (arena::Fence fence = 0;; ++fence) {
    Timeline at;
    {
      const std::lock_guard lock(s.mutex);
      if (fence == s.timelines.size()) return;
      at = s.timelines[fence];
    }
    if (!at.rejoin || at.gone || runtime::capture_of(at.stream).active()) continue;
    runtime::wait_event(at.stream, at.relayed);
    const std::lock_guard lock(s.mutex);
    s.timelines[fence].rejoin = false;
  }
}

hipStream_t own_stream_behind(hipEvent_t event, int device) {
  const Ordering ordering;
  const hipStream_t own = runtime::own_stream(device);
  const bool behind = own != nullptr && runtime::wait_event(own, event) == hipSuccess;
  return behind ? own : nullptr;
}

void stream_destroyed(StreamKey key) {
  State& s = state();
  if (s.known_timelines.load(std::memory_order_acquire) == 0) return;
  std::size_t gone = 0;
  {
    const std::lock_guard lock(s.mutex);
    const auto known = s.timeline_of.find(key);
    if (known == s.timeline_of.end()) return;
    s.timelines[known->second].gone = true;
    generation.fetch_add(1);
    s.timeline_of.erase(known);
    for (const Timeline& other : s.timelines) gone += other.gone && !other.unused;
  }
  constexpr std::size_t kManyGone = 32;
  if (gone >= kManyGone) settle_timelines();
}

// A number is given away again although bytes may still carry it: they then wait for more than they
// must, never for less.
void settle_timelines() {
  State& s = state();
  if (s.known_timelines.load(std::memory_order_acquire) == 0) return;
  const Ordering ordering;
  std::size_t count = 0;
  {
    const std::lock_guard lock(s.mutex);
    count = s.timelines.size();
  }
  for (arena::Fence fence = 0; fence < count; ++fence) {
    const Timeline at = timeline(fence);
    if (!at.gone || at.unused || !runtime::event_done(at.relayed)) continue;
    runtime::destroy_event(at.event);
    runtime::destroy_event(at.relayed);
    const std::lock_guard lock(s.mutex);
    s.timelines[fence] = Timeline{};
    s.timelines[fence].unused = true;
    s.known_timelines.fetch_sub(1, std::memory_order_release);
  }
}

void forget_timelines(int device) {
  State& s = state();
  const Ordering ordering;
  runtime::forget_own_stream(device);
  const std::lock_guard lock(s.mutex);
  generation.fetch_add(1);
  for (Timeline& at : s.timelines) {
    if (at.unused || at.device != device) continue;
    s.timeline_of.erase(at.key);
    at = Timeline{};
    at.unused = true;
    s.known_timelines.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace hipgraft::capture

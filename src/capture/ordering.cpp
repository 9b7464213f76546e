#include "capture/ordering.h"

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
  const hipError_t result = runtime::record_event(at.event, at.stream);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.timelines[fence].event = at.event;
  return result;
}

hipError_t order_after_one(arena::Fence fence, hipStream_t stream) {
  Timeline at = timeline(fence);
  if (at.unused) return hipSuccess;
  if (at.sealed) return runtime::wait_event(stream, at.relayed);
  const hipError_t recorded = record(fence, at);
  return recorded == hipSuccess ? runtime::wait_event(stream, at.event) : recorded;
}

}  // namespace

arena::Fence fence_of(hipStream_t stream) {
  State& s = state();
  const StreamKey key = key_of(stream);
  const auto known = s.timeline_of.find(key);
  if (known != s.timeline_of.end()) return known->second;
  arena::Fence fence = 0;
  while (fence < s.timelines.size() && !s.timelines[fence].unused) ++fence;
  if (fence == s.timelines.size()) s.timelines.emplace_back();
  s.timelines[fence] = Timeline{};
  s.timelines[fence].key = key;
  s.timelines[fence].stream = stream;
  s.timeline_of.emplace(key, fence);
  s.known_timelines.fetch_add(1, std::memory_order_release);
  return fence;
}

void issued(arena::Fence fence) { state().timelines[fence].sealed = false; }

hipError_t order_after(const arena::Fences& fences, hipStream_t stream) {
  const Ordering ordering;
  for (const arena::Fence fence : fences) {
    const hipError_t result = order_after_one(fence, stream);
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

namespace {

// Leaves the timeline with an event that depends on nothing but our own stream.
hipError_t record_relayed(arena::Fence fence, Timeline& at) {
  hipError_t result = record(fence, at);
  if (result != hipSuccess) return result;
  const hipStream_t relay = runtime::own_stream(runtime::device_of(at.stream));
  if (relay == nullptr) return hipErrorOutOfMemory;
  result = runtime::wait_event(relay, at.event);
  if (result != hipSuccess) return result;
  Timeline relayed = at;
  relayed.stream = relay;
  relayed.event = at.relayed;
  result = runtime::record_event(relayed.event, relay);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.timelines[fence].relayed = relayed.event;
  return result;
}

}  // namespace

void seal(hipStream_t stream) {
  const std::optional<arena::Fence> fence = known_timeline(key_of(stream));
  if (!fence) return;
  const Ordering ordering;
  Timeline at = timeline(*fence);
  if (at.sealed || runtime::capture_of(stream).active()) return;
  if (record_relayed(*fence, at) != hipSuccess) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.timelines[*fence].sealed = true;
  s.generation.fetch_add(1);  // the next launch there must break the seal
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
    s.generation.fetch_add(1);
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

}  // namespace hipgraft::capture

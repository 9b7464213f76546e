// The order between work on different streams that uses the same arena bytes.
//
// A stream on which such work was issued is a timeline; its number is the fence that the bytes
// carry. To use them on another stream is to wait there for an event recorded on the timeline's
// stream: only then, so that a program that launches on one stream pays nothing. Before the stream
// is destroyed or captures, when nothing could be recorded on it any more, its timeline is sealed:
// an event is recorded in advance. It is recorded on a stream of our own that has waited for the
// other: the runtime refuses to wait for an event of a stream that now captures (905), and takes
// the event of a destroyed stream for done (hip_event.cpp of 5.7 to 7.2).
//
// Events are touched by one thread at a time (State::ordering). Launches, stream destruction and
// capture begin wait for that, and a free on a thread's own stream; no other free and no graph's
// destruction, which the runtime's callbacks may bring about.
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// A stream with what only the runtime can tell of it: made without the lock.
struct StreamAt {
  explicit StreamAt(abi::hipStream_t handle);
  abi::hipStream_t stream;
  StreamKey key;
  int device;
};

// The number of the stream's timeline; with the lock held.
arena::Fence fence_of(const StreamAt& at);

// Work is issued on the timeline: with the lock held. What was sealed is so no longer.
void issued(arena::Fence fence);

// Makes later work on `stream` wait for all timelines in `fences`. Not with the lock held.
abi::hipError_t order_after(const arena::Fences& fences, abi::hipStream_t stream);

// Nothing can be recorded on the stream from now on, or for a while. Waits for launches that other
// threads are issuing there.
void seal(abi::hipStream_t stream);
// The stream is about to capture: from now on its work is only reached through the seal.
void seal_for_capture(abi::hipStream_t stream);

// A stream of our own that has waited for all that the capturing stream ran before its capture, and
// for `fences`: work that the program issues on the stream now can run there. Null if there is
// none.
abi::hipStream_t stand_in(const StreamAt& at, const arena::Fences& fences);
// Work was issued on the stand-in: the stream will wait for it when its capture is over.
abi::hipError_t stand_in_issued(const StreamAt& at, abi::hipStream_t stand_in);
// A capture is over.
void rejoin_stand_ins();

// A stream of our own behind the event; null if there is none to be had.
abi::hipStream_t own_stream_behind(abi::hipEvent_t event, int device);

// The stream is about to be destroyed; it was sealed before.
void stream_destroyed(StreamKey key);

// Forgets timelines of destroyed streams whose work is done.
void settle_timelines();

// The runtime has destroyed all streams of the device.
void forget_timelines(int device);

}  // namespace hipgraft::capture

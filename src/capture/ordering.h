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
// Events are touched by one thread at a time (State::ordering). Only launches, stream destruction
// and capture begin wait for that, never a free or a graph's destruction, which the runtime's
// callbacks may bring about.
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// The number of the stream's timeline; with the lock held.
arena::Fence fence_of(abi::hipStream_t stream);

// Work was issued on the timeline: with the lock held. What was sealed is so no longer.
void issued(arena::Fence fence);

// Makes later work on `stream` wait for all timelines in `fences`. Not with the lock held.
abi::hipError_t order_after(const arena::Fences& fences, abi::hipStream_t stream);

// Nothing can be recorded on the stream from now on, or for a while.
void seal(abi::hipStream_t stream);
// The stream is no more; it was sealed before.
void stream_destroyed(StreamKey key);

// Forgets timelines of destroyed streams whose work is done.
void settle_timelines();

}  // namespace hipgraft::capture

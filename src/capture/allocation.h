// Stream-ordered memory in captures: who is served from the arena, and what a free means.
//
// Each function answers nothing where the call is not hipgraft's business: the caller then makes it
// natively.
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// hipMallocAsync, and hipMallocFromPoolAsync with its pool. On failure `*pointer` is untouched.
Answer allocate(Call call, void** pointer, std::size_t bytes, abi::hipStream_t stream,
                abi::hipMemPool_t pool);

// A capture is about to begin: sees to it that what the former one from the same place needed is
// there, so that nothing has to be got from the runtime while it runs.
void reserve(Call call, abi::hipStream_t stream);

// hipFreeAsync.
Answer free_on_stream(void* pointer, abi::hipStream_t stream);

// Every other call that frees. An arena block is freed logically: the pointer must never reach the
// runtime, which would free the whole chunk around it (ihipFree of 5.7 to 7.2 has no offset test).
Answer free_now(void* pointer);

// The program gives up a block that it owns; the next launch of its graph allocates it again. With
// the lock held.
void give_up_block(arena::Address address);

// A free node, added to a graph that may be one being captured: an empty node takes its place.
Answer free_by_node(abi::hipGraphNode_t* node, abi::hipGraph_t graph,
                    const abi::hipGraphNode_t* dependencies, std::size_t count, void* pointer);

// Chunks that nobody uses are kept for the next capture, for a while: `unused` returns those to the
// runtime that have not been used since the last `waited` but one, `waited` does the same and lets
// the others age, `all` returns all. False if there were none. The runtime waits for the device:
// call it where the program has waited already, or when memory is short.
enum class Trim { unused, waited, all };
bool trim(Trim what);

// Bytes of chunks on the device that nobody uses: there for whoever needs memory.
std::uint64_t idle_bytes(int device);

// hipFree waits for all work of the device: what hipgraft does in its place does so too.
void wait_like_free(int device);

// Whether the arena may have anything to do with what happens now.
bool serving();

// Makes memory of the program the capture's own, as if a block had been freed there. With the lock
// held.
void adopt(Session& session, int device, arena::Extent freed, const dag::Marks& marks);

// The runtime has dropped all memory and streams of the device.
void forget_device(int device);

}  // namespace hipgraft::capture

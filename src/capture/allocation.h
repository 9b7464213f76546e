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

// hipFreeAsync.
Answer free_on_stream(void* pointer, abi::hipStream_t stream);

// Every other call that frees. An arena block is freed logically: the pointer must never reach the
// runtime, which would free the whole chunk around it (ihipFree of 5.7 to 7.2 has no offset test).
Answer free_now(void* pointer);

// The program gives up a block that it owns; the next launch of its graph allocates it again. With
// the lock held.
void give_up_block(arena::Address address);

// Returns chunks that nobody uses to the runtime, which waits for the device: call it where the
// program has waited already, or when memory is short. False if there were none.
bool trim();

// The runtime has dropped all memory and streams of the device.
void forget_device(int device);

}  // namespace hipgraft::capture

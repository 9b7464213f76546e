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

// After a call that waited for the whole device: returns chunks that nobody uses to the runtime.
void trim();

// The runtime has dropped all memory of the device.
void forget_device(int device);

}  // namespace hipgraft::capture

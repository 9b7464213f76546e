// Stream-ordered memory on streams that do not capture, while some other stream does.
//
// From 6.4 on the runtime refuses hipMallocAsync and hipFreeAsync on every such stream of a device
// (900) while a blocking stream captures there, and crashes when it is the null stream
// (ROCm/legacy-rocm-build #6681; 7.2.4 too). The functions that name a pool lack that check. The
// frees, which have no such sibling, are done when the capture is over, in the stream's order.
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// Each answers nothing where the runtime can be asked as usual.
Answer allocate_beside(void** pointer, std::size_t bytes, abi::hipStream_t stream);
Answer free_beside(void* pointer, abi::hipStream_t stream);

// Whether the program has freed the pointer, and the runtime does not know yet.
bool freed_beside(const void* pointer);

// The runtime has dropped all memory of the device.
void forget_frees_beside(int device);

// A capture is over: makes the frees that waited for it.
void run_frees_beside();

}  // namespace hipgraft::capture

// Launches of graphs whose memory is the arena's.
//
// Natively the free nodes' waits serialise such launches; without them two launches that use the
// same bytes on different streams would overlap. They are ordered here, whether of one exec, of two
// execs, or of a clone.
#pragma once

#include "capture/state.h"

namespace hipgraft::capture {

// hipGraphLaunch. A launch on the stream of the former one adds no HIP call.
abi::hipError_t launch(abi::hipGraphExec_t exec, abi::hipStream_t stream);

// The same, if this thread may repeat a launch that it remembers: the first thing that the wrapper
// tries. Nothing otherwise.
Answer launch_again(abi::hipGraphExec_t exec, abi::hipStream_t stream);

}  // namespace hipgraft::capture

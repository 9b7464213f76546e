// What differs between versions of the runtime, where hipgraft must answer in its place.
#pragma once

#include "abi/types.h"

namespace hipgraft::runtime {

// What hipFreeAsync(nullptr) returns: success from 7.0 on, before that hipErrorInvalidValue (AMD's
// HIP 7.0 changelog; seen on 5.7, 6.4 and 7.2).
abi::hipError_t result_of_null_free();

// Whether hipGraphExecUpdate takes new kernel-argument memory for each kernel node, and gives the
// former back only with the exec: from 6.2 on, where execs keep packets (rocm-systems issue 10713;
// seen on 6.4 and 7.2, not on 5.7). No runtime that does better is known.
bool updates_pile_up();

// Whether a call that succeeds leaves the last error alone: from 7.0 on (AMD's HIP 7.0 changelog).
bool errors_outlive_success();

}  // namespace hipgraft::runtime

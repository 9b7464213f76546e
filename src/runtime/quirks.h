// What differs between versions of the runtime, where hipgraft must answer in its place.
#pragma once

#include "abi/types.h"

namespace hipgraft::runtime {

// What hipFreeAsync(nullptr) returns: success from 7.0 on, before that hipErrorInvalidValue (AMD's
// HIP 7.0 changelog; seen on 5.7, 6.4 and 7.2).
abi::hipError_t result_of_null_free();

}  // namespace hipgraft::runtime

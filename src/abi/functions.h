// The types of the HIP functions in functions.def: abi::hipMalloc_fn and so on.
#pragma once

#include "abi/types.h"

namespace hipgraft::abi {

#define HIPGRAFT_TYPE(name, result, parameters) using name##_fn = result parameters;
#define HIPGRAFT_INTERCEPT HIPGRAFT_TYPE
#define HIPGRAFT_CALL HIPGRAFT_TYPE
#include "abi/functions.def"
#undef HIPGRAFT_CALL
#undef HIPGRAFT_INTERCEPT
#undef HIPGRAFT_TYPE

}  // namespace hipgraft::abi

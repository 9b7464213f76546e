#include "runtime/quirks.h"

#include "runtime/calls.h"

namespace hipgraft::runtime {

abi::hipError_t result_of_null_free() {
  return major_version() >= 7 ? abi::hipSuccess : abi::hipErrorInvalidValue;
}

}  // namespace hipgraft::runtime

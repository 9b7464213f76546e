// hipGetLastError as the program sees it.
//
// hipgraft makes calls of its own, which may fail, and returns errors of its own, which the runtime
// does not know. The runtime has no way to set the last error, so what the program should see is
// kept beside it: from HIP 7.0 on only a failing call changes the last error, hence an error that
// the runtime holds is newer than ours and wins (AMD's HIP 7.0 changelog; hip_internal.hpp
// HIP_RETURN). Before that success overwrites as well, of which only the wrappers know. All of this
// is per thread, as in the runtime.
#pragma once

#include "abi/types.h"

namespace hipgraft::runtime {

// For the wrappers of hipGetLastError and hipPeekAtLastError.
abi::hipError_t take_last_error();
abi::hipError_t peek_last_error();

// Makes `error` the thread's last error, unless it is success, and returns it: for results that
// hipgraft gives without the runtime.
abi::hipError_t answer(abi::hipError_t error);

// In wrappers of calls that set the last error even if they succeed, as most do before HIP 7, ahead
// of calls of our own: what those keep must not outlive the program's call.
void supersede_last_error();

// Around calls of our own: whatever they do to the last error is undone. May be nested.
class KeepLastError {
 public:
  KeepLastError();
  ~KeepLastError();
  KeepLastError(const KeepLastError&) = delete;
  KeepLastError& operator=(const KeepLastError&) = delete;

 private:
  abi::hipError_t before_;
};

}  // namespace hipgraft::runtime

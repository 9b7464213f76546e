#include "runtime/last_error.h"

#include <utility>

#include "runtime/quirks.h"
#include "runtime/real.h"

namespace hipgraft::runtime {
namespace {

// What the program should see while the runtime itself holds no error.
constinit thread_local abi::hipError_t kept = abi::hipSuccess;

// How many KeepLastError the thread is inside of: the outermost does the work.
constinit thread_local int keeping = 0;

}  // namespace

abi::hipError_t take_last_error() {
  const abi::hipError_t newest = real().hipGetLastError();
  const abi::hipError_t ours = std::exchange(kept, abi::hipSuccess);
  return newest != abi::hipSuccess ? newest : ours;
}

abi::hipError_t peek_last_error() {
  const abi::hipError_t newest = real().hipPeekAtLastError();
  return newest != abi::hipSuccess ? newest : kept;
}

abi::hipError_t answer(abi::hipError_t error) {
  if (error == abi::hipSuccess) return error;
  real().hipGetLastError();  // else an older error of the runtime would hide this one
  kept = error;
  return error;
}

void supersede_last_error() {
  static const bool errors_stay = errors_outlive_success();
  if (errors_stay) return;
  take_last_error();
}

KeepLastError::KeepLastError() : before_(keeping++ == 0 ? peek_last_error() : abi::hipSuccess) {}

KeepLastError::~KeepLastError() {
  if (--keeping != 0) return;
  if (peek_last_error() == before_) return;
  if (before_ == abi::hipSuccess) {
    take_last_error();
    return;
  }
  answer(before_);
}

}  // namespace hipgraft::runtime

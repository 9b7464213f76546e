#include "runtime/quirks.h"

#include <atomic>

#include "runtime/calls.h"

namespace hipgraft::runtime {

abi::hipError_t result_of_null_free() {
  return major_version() >= 7 ? abi::hipSuccess : abi::hipErrorInvalidValue;
}

bool updates_pile_up() {
  constexpr int kFirst = 60'200'000;
  static constinit std::atomic<int> version{0};
  int known = version.load(std::memory_order_relaxed);
  if (known == 0) version.store(known = packed_version(), std::memory_order_relaxed);
  return known >= kFirst;
}

bool errors_outlive_success() { return major_version() >= 7; }

}  // namespace hipgraft::runtime

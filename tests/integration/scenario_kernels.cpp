// Device code and twins of the scenarios; see apps/kernels.h for what compiles this file.
#include "scenario_kernels.h"

#if defined(APPS_HOST_TWINS)
#include "twin.h"
#endif

namespace scenario {
namespace {

constexpr std::uint32_t kTaken = 0x7a4e17;

}  // namespace

// One work-item does the counting, so that no atomics are needed.

APPS_KERNEL void enter(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults) {
  if (apps::global_index() != 0) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (cells[i] == kTaken) ++*faults;
    cells[i] = kTaken;
  }
}

APPS_KERNEL void leave(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults) {
  if (apps::global_index() != 0) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (cells[i] != kTaken) ++*faults;
    cells[i] = 0;
  }
}

APPS_KERNEL void fill(std::uint32_t* cells, std::uint32_t count, std::uint32_t value) {
  const std::uint32_t i = apps::global_index();
  if (i < count) cells[i] = value + i;
}

APPS_KERNEL void sum(std::uint32_t* total, const std::uint32_t* cells, std::uint32_t count) {
  if (apps::global_index() != 0) return;
  for (std::uint32_t i = 0; i < count; ++i) *total += cells[i];
}

}  // namespace scenario

#if defined(APPS_HOST_TWINS)
#define SCENARIO_TWIN(symbol, name) APPS_TWIN(symbol, scenario::name)
SCENARIO_KERNELS(SCENARIO_TWIN)
#endif

// Kernels that notice when two launches use the same bytes at once.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace scenario {

// Marks every cell as taken by somebody. A cell that is taken already is counted in `faults`.
APPS_KERNEL void enter(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults);

// Gives every cell back. A cell that was not taken is counted in `faults`.
APPS_KERNEL void leave(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults);

// cells[i] = value + i
APPS_KERNEL void fill(std::uint32_t* cells, std::uint32_t count, std::uint32_t value);

// sum[0] += all cells
APPS_KERNEL void sum(std::uint32_t* total, const std::uint32_t* cells, std::uint32_t count);

}  // namespace scenario

#define SCENARIO_KERNELS(ROW)           \
  ROW(_ZN8scenario5enterEPjjS0_, enter) \
  ROW(_ZN8scenario5leaveEPjjS0_, leave) \
  ROW(_ZN8scenario4fillEPjjj, fill)     \
  ROW(_ZN8scenario3sumEPjPKjj, sum)

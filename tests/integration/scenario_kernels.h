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

// What a kernel does with one block. A block's bytes carry its tag, not 0, from the first use on:
// in each unit of kTagUnit bytes as many bytes of it as fit.
struct Use {
  unsigned char* bytes;
  std::uint64_t size;
  std::uint32_t tag;
  std::uint32_t is_first;
};
// The arena's alignment: two blocks that start there and share bytes share the start of a unit.
constexpr std::uint64_t kTagUnit = 256;
constexpr std::uint32_t kWrongTag = 1U << 31;

// Writes the tags of blocks used for the first time and checks the others': where use i finds
// another tag, found[i] = kWrongTag | that tag.
APPS_KERNEL void touch(const Use* uses, std::uint32_t* found, std::uint32_t count);

}  // namespace scenario

#define SCENARIO_KERNELS(ROW)           \
  ROW(_ZN8scenario5enterEPjjS0_, enter) \
  ROW(_ZN8scenario5leaveEPjjS0_, leave) \
  ROW(_ZN8scenario4fillEPjjj, fill)     \
  ROW(_ZN8scenario3sumEPjPKjj, sum)     \
  ROW(_ZN8scenario5touchEPKNS_3UseEPjj, touch)

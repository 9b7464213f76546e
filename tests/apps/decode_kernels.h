// The kernels of the decode step: short ones, on vectors of a few words. All arithmetic is on
// 32-bit integers, so that every value can be checked exactly whatever the order of the work-items.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace decode {

/// Tokens that a layer remembers.
inline constexpr std::uint32_t kSlots = 4;

// hidden[i] begins as the i-th word of the input.
APPS_KERNEL void embed(std::uint32_t* hidden, const std::uint32_t* input, std::uint32_t width);

// target[i] is made of two elements of the source and of the weight.
APPS_KERNEL void project(std::uint32_t* target, const std::uint32_t* source, std::uint32_t width,
                         std::uint32_t weight);

// The source is stored in the cache at the position, and the target is taken from all of the cache.
APPS_KERNEL void attend(std::uint32_t* target, const std::uint32_t* source, std::uint32_t* cache,
                        const std::uint32_t* position, std::uint32_t width);

// hidden[i] takes up source[i].
APPS_KERNEL void accumulate(std::uint32_t* hidden, const std::uint32_t* source,
                            std::uint32_t width);

// output[i] is taken from all of hidden.
APPS_KERNEL void unembed(std::uint32_t* output, const std::uint32_t* hidden, std::uint32_t width);

}  // namespace decode

// One row a kernel: mangled name (what the code object calls it), function in decode.
#define DECODE_KERNELS(ROW)                      \
  ROW(_ZN6decode5embedEPjPKjj, embed)            \
  ROW(_ZN6decode7projectEPjPKjjj, project)       \
  ROW(_ZN6decode6attendEPjPKjS0_S2_j, attend)    \
  ROW(_ZN6decode10accumulateEPjPKjj, accumulate) \
  ROW(_ZN6decode7unembedEPjPKjj, unembed)

// The kernels of the simulator step. All arithmetic is on 32-bit integers, so that every value can
// be checked exactly whatever the order in which work-items run.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace sim {

struct Stencil {
  std::uint32_t reach;
  std::uint32_t salt;
  std::uint32_t rounds;
};

// values[i] takes up one element of the field.
APPS_KERNEL void gather(std::uint32_t* values, const std::uint32_t* field, std::uint32_t count,
                        std::uint32_t field_count, std::uint32_t salt);

// values[i] takes up one element of another set of values.
APPS_KERNEL void couple(std::uint32_t* values, const std::uint32_t* other, std::uint32_t count,
                        std::uint32_t other_count, std::uint32_t salt);

// values[i] advances by itself.
APPS_KERNEL void relax(std::uint32_t* values, std::uint32_t count, std::uint32_t salt);

// next[i] advances by a neighbourhood in another field of the same size.
APPS_KERNEL void advect(std::uint32_t* next, const std::uint32_t* previous, Stencil stencil,
                        std::uint32_t count);

// field[i] takes up its share of all the values: each of them changes the field.
APPS_KERNEL void integrate(std::uint32_t* field, const std::uint32_t* values,
                           std::uint32_t field_count, std::uint32_t count, std::uint32_t salt);

}  // namespace sim

// One row a kernel: mangled name (what the code object calls it), function in sim.
#define STEP_KERNELS(ROW)                        \
  ROW(_ZN3sim6gatherEPjPKjjjj, gather)           \
  ROW(_ZN3sim6coupleEPjPKjjjj, couple)           \
  ROW(_ZN3sim5relaxEPjjj, relax)                 \
  ROW(_ZN3sim6advectEPjPKjNS_7StencilEj, advect) \
  ROW(_ZN3sim9integrateEPjPKjjjj, integrate)

// Device code and twins of the simulator step; see kernels.h for what compiles this file.
#include "step_kernels.h"

#if defined(APPS_HOST_TWINS)
#include "twin.h"
#endif

namespace sim {
namespace {

APPS_DEVICE inline std::uint32_t mix(std::uint32_t left, std::uint32_t right) {
  std::uint32_t value = left + right * 0x9e3779b1u;
  value ^= value >> 15;
  value *= 0x2c1b3c6du;
  value ^= value >> 13;
  return value;
}

}  // namespace

APPS_KERNEL void gather(std::uint32_t* values, const std::uint32_t* field, std::uint32_t count,
                        std::uint32_t field_count, std::uint32_t salt) {
  const std::uint32_t i = apps::global_index();
  if (i >= count) return;
  values[i] = mix(values[i] ^ salt, field[(i * 7 + salt) % field_count]);
}

APPS_KERNEL void couple(std::uint32_t* values, const std::uint32_t* other, std::uint32_t count,
                        std::uint32_t other_count, std::uint32_t salt) {
  const std::uint32_t i = apps::global_index();
  if (i >= count) return;
  values[i] = mix(values[i], other[(i + salt) % other_count]);
}

APPS_KERNEL void relax(std::uint32_t* values, std::uint32_t count, std::uint32_t salt) {
  const std::uint32_t i = apps::global_index();
  if (i >= count) return;
  values[i] = mix(values[i], i + salt);
}

APPS_KERNEL void advect(std::uint32_t* next, const std::uint32_t* previous, Stencil stencil,
                        std::uint32_t count) {
  const std::uint32_t i = apps::global_index();
  if (i >= count) return;
  std::uint32_t value = mix(next[i], stencil.salt);
  for (std::uint32_t round = 0; round < stencil.rounds; ++round) {
    value = mix(value, previous[(i + round * stencil.reach) % count]);
  }
  next[i] = value;
}

APPS_KERNEL void integrate(std::uint32_t* field, const std::uint32_t* values,
                           std::uint32_t field_count, std::uint32_t count, std::uint32_t salt) {
  const std::uint32_t i = apps::global_index();
  if (i >= field_count) return;
  std::uint32_t value = field[i] ^ salt;
  for (std::uint32_t j = i % count; j < count; j += field_count) value = mix(value, values[j]);
  field[i] = value;
}

}  // namespace sim

#if defined(APPS_HOST_TWINS)
#define STEP_TWIN(symbol, name) APPS_TWIN(symbol, sim::name)
STEP_KERNELS(STEP_TWIN)
#endif

// Device code and twins of the decode step; see kernels.h for what compiles this file.
#include "decode_kernels.h"

#if defined(APPS_HOST_TWINS)
#include "twin.h"
#endif

namespace decode {
namespace {

APPS_DEVICE inline std::uint32_t rotate(std::uint32_t value, std::uint32_t bits) {
  return value << bits | value >> (32 - bits);
}

APPS_DEVICE inline std::uint32_t fold(std::uint32_t sum, std::uint32_t value) {
  return rotate(sum ^ value, 13) * 5 + 0xe6546b64u;
}

}  // namespace

APPS_KERNEL void embed(std::uint32_t* hidden, const std::uint32_t* input, std::uint32_t width) {
  const std::uint32_t i = apps::global_index();
  if (i >= width) return;
  hidden[i] = fold(i, input[i]);
}

APPS_KERNEL void project(std::uint32_t* target, const std::uint32_t* source, std::uint32_t width,
                         std::uint32_t weight) {
  const std::uint32_t i = apps::global_index();
  if (i >= width) return;
  target[i] = fold(source[i] * (weight | 1), source[(i + weight) % width]);
}

APPS_KERNEL void attend(std::uint32_t* target, const std::uint32_t* source, std::uint32_t* cache,
                        const std::uint32_t* position, std::uint32_t width) {
  const std::uint32_t i = apps::global_index();
  if (i >= width) return;
  cache[*position % kSlots * width + i] = source[i];
  std::uint32_t sum = *position;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) sum = fold(sum, cache[slot * width + i]);
  target[i] = sum;
}

APPS_KERNEL void accumulate(std::uint32_t* hidden, const std::uint32_t* source,
                            std::uint32_t width) {
  const std::uint32_t i = apps::global_index();
  if (i >= width) return;
  hidden[i] = fold(hidden[i], source[i]);
}

APPS_KERNEL void unembed(std::uint32_t* output, const std::uint32_t* hidden, std::uint32_t width) {
  const std::uint32_t i = apps::global_index();
  if (i >= width) return;
  std::uint32_t sum = i;
  for (std::uint32_t j = 0; j < width; ++j) sum = fold(sum, hidden[j]);
  output[i] = sum;
}

}  // namespace decode

#if defined(APPS_HOST_TWINS)
#define DECODE_TWIN(symbol, name) APPS_TWIN(symbol, decode::name)
DECODE_KERNELS(DECODE_TWIN)
#endif

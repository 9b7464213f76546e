// Makes the twin of a kernel: the function that the software agent calls instead of running
// device code. It unpacks the kernel-argument segment as the hardware would lay it out (natural
// alignment, declaration order) and walks over all work-items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "kernels.h"

namespace apps {

class KernelArguments {
 public:
  explicit KernelArguments(const void* segment)
      : segment_(static_cast<const std::byte*>(segment)) {}

  template <typename T>
  T next() {
    offset_ = (offset_ + alignof(T) - 1) / alignof(T) * alignof(T);
    T value;
    std::memcpy(&value, segment_ + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

 private:
  const std::byte* segment_;
  std::size_t offset_ = 0;
};

template <auto kernel>
struct Twin;

template <typename... Parameters, void (*kernel)(Parameters...)>
struct Twin<kernel> {
  static void run(const void* segment, const std::uint32_t* grid, const std::uint16_t* block) {
    KernelArguments packed(segment);
    // Braces, since they fix the order in which the arguments are taken.
    const std::tuple<Parameters...> arguments{packed.next<Parameters>()...};
    current_work_item.block_size = {block[0], block[1], block[2]};
    for (std::uint32_t z = 0; z < grid[2]; ++z) {
      for (std::uint32_t y = 0; y < grid[1]; ++y) {
        for (std::uint32_t x = 0; x < grid[0]; x += block[0]) {
          current_work_item.block = {x / block[0], y / block[1], z / block[2]};
          current_work_item.thread = {0, y % block[1], z % block[2]};
          run_row(arguments, std::min<std::uint32_t>(block[0], grid[0] - x));
        }
      }
    }
  }

 private:
  static void run_row(const std::tuple<Parameters...>& arguments, std::uint32_t width) {
    for (std::uint32_t x = 0; x < width; ++x) {
      current_work_item.thread.x = x;
      std::apply(kernel, arguments);
    }
  }
};

}  // namespace apps

#define APPS_TWIN(symbol, kernel)                                                 \
  extern "C" __attribute__((visibility("default"))) void twin_##symbol(           \
      void* segment, const std::uint32_t grid[3], const std::uint16_t block[3]) { \
    apps::Twin<&kernel>::run(segment, grid, block);                               \
  }

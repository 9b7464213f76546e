// One token of the decode as data: the kernel launches of its layers, which the HIP program and its
// CPU reference both walk over. Before the layers the input is embedded in kHidden, behind them the
// output is made of it: one launch each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace decode {

/// Launches of a whole layer.
inline constexpr std::uint32_t kLayerLaunches = 54;

/// Of a model with 36 layers, embedding and output.
inline constexpr std::uint32_t kDefaultLaunches = 36 * kLayerLaunches + 2;

enum class Kernel {
  kProject,     // target by source
  kAttend,      // target by source and the layer's cache
  kAccumulate,  // hidden by source
};

enum class Buffer : std::size_t { kHidden, kFirst, kSecond };
inline constexpr std::size_t kBuffers = 3;

struct Launch {
  Kernel kernel;
  Buffer target = Buffer::kHidden;
  Buffer source = Buffer::kHidden;
  std::uint32_t weight = 0;
};

/// Keeps nothing in kFirst and kSecond for the next layer; has a cache of its own.
using Layer = std::vector<Launch>;

struct Plan {
  std::uint32_t width;
  std::vector<Layer> layers;

  [[nodiscard]] std::size_t launches() const;
};

/// `launches` in all, at least 2; the last layer gets what is left, so it may be a short one.
Plan make_plan(std::uint32_t launches, std::uint32_t width);

/// What the host gives to each step: `width` words, and behind them the position.
std::vector<std::uint32_t> make_input(std::uint32_t width, std::uint32_t position);

}  // namespace decode

// Runs the plan of the decode through HIP: one stream, and two sets of input and output that
// alternate, so that the host can prepare a token while the one before is computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode_plan.h"
#include "hip_support.h"

namespace decode {

inline constexpr std::size_t kSets = 2;

struct PinnedMemoryTraits {
  static void destroy(void* address) { HIP_CHECK_TEARDOWN(hipHostFree(address)); }
};
using PinnedMemory = apps::Owner<void*, PinnedMemoryTraits>;

class Model {
 public:
  /// `allocate_in_step`: the layers' buffers come from hipMallocAsync, layer by layer.
  Model(const Plan& plan, bool allocate_in_step);

  [[nodiscard]] hipStream_t stream() const { return stream_.get(); }

  /// What the next step of the set reads. The set must be idle.
  void set_input(std::size_t set, std::span<const std::uint32_t> input);

  /// What the last step of the set wrote. The set must be idle.
  [[nodiscard]] std::span<const std::uint32_t> output(std::size_t set) const;

  /// Makes all the HIP calls of one step, copies included.
  void issue_step(std::size_t set);

  /// The same calls into a graph.
  apps::Graph capture_step(std::size_t set);

  /// To be called behind the work of a step.
  void mark_busy(std::size_t set);

  /// Returns when all work up to the last mark is done. At once if there is no mark.
  void wait_until_idle(std::size_t set);

 private:
  struct Set {
    PinnedMemory host_input;
    PinnedMemory host_output;
    apps::DeviceMemory input;
    apps::DeviceMemory output;
    apps::Event done;
  };

  void issue_layer(std::size_t layer, const std::uint32_t* position);
  void issue(const Launch& launch, std::uint32_t* cache, const std::uint32_t* position);
  void allocate_buffers(std::size_t layer);
  void free_buffers();

  std::uint32_t*& at(Buffer buffer) { return buffers_[static_cast<std::size_t>(buffer)]; }
  [[nodiscard]] std::size_t input_bytes() const;
  [[nodiscard]] std::size_t output_bytes() const;
  [[nodiscard]] apps::LaunchShape shape() const;

  const Plan& plan_;
  bool allocate_in_step_;
  apps::Stream stream_;
  std::array<Set, kSets> sets_;
  std::vector<apps::DeviceMemory> owned_;
  std::vector<std::uint32_t*> caches_;
  std::array<std::uint32_t*, kBuffers> buffers_{};
};

}  // namespace decode

// Runs the plan of a simulator step through HIP, eagerly or into a stream capture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hip_support.h"
#include "step_plan.h"

namespace sim {

enum class Launches { kRegistered, kModule, kAlternating };

struct SimulatorOptions {
  bool fork = false;         // else all on one stream
  bool preallocate = false;  // temporaries allocated once, the hand-written way
  Launches launches = Launches::kAlternating;
};

class Simulator {
 public:
  Simulator(const Plan& plan, SimulatorOptions options);

  /// Makes all the HIP calls of one step; work of all streams is joined into origin() at its end.
  void issue_step();

  /// The same calls into a graph.
  apps::Graph capture_step(hipStreamCaptureMode mode);

  [[nodiscard]] hipStream_t origin() const { return streams_[0].get(); }
  [[nodiscard]] std::vector<std::uint32_t> read_field(std::size_t field) const;

 private:
  void issue(const Op& op);
  void launch(const Op& op);
  void allocate(const Op& op);
  void release(const Op& op);
  void fork();
  void join();

  [[nodiscard]] hipStream_t stream_of(const Op& op) const;
  [[nodiscard]] std::size_t bytes(std::size_t buffer) const;
  apps::LaunchRoute next_route();

  const Plan& plan_;
  SimulatorOptions options_;
  apps::LoadedCode loaded_code_;
  std::vector<apps::Stream> streams_;
  apps::Event fork_event_;
  std::array<apps::Event, kStreams> join_events_;
  std::vector<apps::DeviceMemory> owned_;
  std::vector<std::uint32_t*> buffers_;
  std::size_t launches_ = 0;
};

}  // namespace sim

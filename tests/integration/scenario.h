// What the scenarios share: the kernels, and a graph that notices when it overlaps with itself.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hip_support.h"

namespace scenario {

struct Use;

void launch_enter(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults,
                  hipStream_t stream);
void launch_leave(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults,
                  hipStream_t stream);
void launch_fill(std::uint32_t* cells, std::uint32_t count, std::uint32_t value,
                 hipStream_t stream);
void launch_sum(std::uint32_t* total, const std::uint32_t* cells, std::uint32_t count,
                hipStream_t stream);

// See scenario_kernels.h.
void launch_touch(const Use* uses, std::uint32_t* found, std::uint32_t count, hipStream_t stream);
hipGraphNode_t add_touch_node(hipGraph_t graph, const std::vector<hipGraphNode_t>& dependencies,
                              const Use* uses, std::uint32_t* found, std::uint32_t count);

// One value of device memory that the host reads and writes.
class DeviceValue {
 public:
  DeviceValue();
  std::uint32_t* get() const { return static_cast<std::uint32_t*>(memory_.get()); }
  std::uint32_t read() const;

 private:
  apps::DeviceMemory memory_;
};

constexpr std::uint32_t kCells = 64;

template <class T>
T* allocate_async(std::size_t count, hipStream_t stream) {
  void* memory = nullptr;
  HIP_CHECK(hipMallocAsync(&memory, count * sizeof(T), stream));
  return static_cast<T*>(memory);
}

// Captures what `work` issues on `stream`.
template <class Work>
apps::Graph capture(hipStream_t stream, Work work,
                    hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
  HIP_CHECK(hipStreamBeginCapture(stream, mode));
  work();
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamEndCapture(stream, &graph));
  return apps::Graph(graph);
}

// Makes a call that kills every capture of the process. From HIP 6 on there are such calls; 5.7
// lets captures live.
#if HIP_VERSION_MAJOR >= 6
#define SCENARIO_CAPTURES_CAN_BE_KILLED
inline void kill_captures() { CHECK(hipDeviceSynchronize() != hipSuccess); }
#endif

// hipMallocAsync, enter, leave, hipFreeAsync: counts in `faults` whoever else is in its bytes.
apps::Graph capture_turnstile(hipStream_t stream, const DeviceValue& faults);

// total += value + (value + 1) + ... through a temporary.
apps::Graph capture_sum(hipStream_t stream, const DeviceValue& total, std::uint32_t value);
std::uint32_t expected_sum(std::uint32_t value);

std::vector<hipGraphNodeType> node_types(hipGraph_t graph);
int memory_nodes(hipGraph_t graph);

// Counters of the software agent; 0 without it.
std::uint64_t agent_count(const char* name);
std::uint64_t agent_device_bytes();
// Waits for the device, and has memory that no graph uses given back to it.
void return_idle_memory();
// Device bytes in use once they are down to `expected`, or have not come down for long: the runtime
// destroys execs on a thread of its own, some time after their last launch.
std::uint64_t settled_device_bytes(std::uint64_t expected);
std::uint64_t resident_bytes();

}  // namespace scenario

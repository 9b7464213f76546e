#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "scenario.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "scenario_kernels.h"

extern const unsigned char scenario_bundle[];

namespace scenario {
namespace {

namespace handles {
#define SCENARIO_HANDLE(symbol, name) \
  constinit apps::Kernel<decltype(scenario::name)> name{{#symbol}};
SCENARIO_KERNELS(SCENARIO_HANDLE)
}  // namespace handles

#define SCENARIO_HANDLE_ADDRESS(symbol, name) &handles::name,
constexpr apps::KernelHandle* kAllKernels[] = {SCENARIO_KERNELS(SCENARIO_HANDLE_ADDRESS)};

const apps::RegisteredCode registered_code(scenario_bundle, kAllKernels);

constexpr auto kRoute = apps::LaunchRoute::kRegistered;
constexpr apps::LaunchShape kOne{1, kCells};

}  // namespace

void launch_enter(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults,
                  hipStream_t stream) {
  handles::enter(kRoute, kOne, stream, cells, count, faults);
}
void launch_leave(std::uint32_t* cells, std::uint32_t count, std::uint32_t* faults,
                  hipStream_t stream) {
  handles::leave(kRoute, kOne, stream, cells, count, faults);
}
void launch_fill(std::uint32_t* cells, std::uint32_t count, std::uint32_t value,
                 hipStream_t stream) {
  handles::fill(kRoute, {(count + kCells - 1) / kCells, kCells}, stream, cells, count, value);
}
void launch_sum(std::uint32_t* total, const std::uint32_t* cells, std::uint32_t count,
                hipStream_t stream) {
  handles::sum(kRoute, kOne, stream, total, cells, count);
}
void launch_touch(const Use* uses, std::uint32_t* found, std::uint32_t count, hipStream_t stream) {
  handles::touch(kRoute, {1, 1}, stream, uses, found, count);
}
hipGraphNode_t add_touch_node(hipGraph_t graph, const std::vector<hipGraphNode_t>& dependencies,
                              const Use* uses, std::uint32_t* found, std::uint32_t count) {
  void* arguments[] = {&uses, &found, &count};
  hipKernelNodeParams parameters{};
  parameters.func = &handles::touch;
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
  hipGraphNode_t node = nullptr;
  HIP_CHECK(
      hipGraphAddKernelNode(&node, graph, dependencies.data(), dependencies.size(), &parameters));
  return node;
}

DeviceValue::DeviceValue() : memory_(apps::allocate_device_memory(sizeof(std::uint32_t))) {
  HIP_CHECK(hipMemset(get(), 0, sizeof(std::uint32_t)));
  HIP_CHECK(hipDeviceSynchronize());
}

std::uint32_t DeviceValue::read() const {
  HIP_CHECK(hipDeviceSynchronize());
  std::uint32_t value = 0;
  HIP_CHECK(hipMemcpy(&value, get(), sizeof value, hipMemcpyDeviceToHost));
  return value;
}

apps::Graph capture_turnstile(hipStream_t stream, const DeviceValue& faults) {
  return capture(stream, [&] {
    auto* cells = allocate_async<std::uint32_t>(kCells, stream);
    launch_enter(cells, kCells, faults.get(), stream);
    launch_leave(cells, kCells, faults.get(), stream);
    HIP_CHECK(hipFreeAsync(cells, stream));
  });
}

apps::Graph capture_sum(hipStream_t stream, const DeviceValue& total, std::uint32_t value) {
  return capture(stream, [&] {
    auto* cells = allocate_async<std::uint32_t>(kCells, stream);
    launch_fill(cells, kCells, value, stream);
    launch_sum(total.get(), cells, kCells, stream);
    HIP_CHECK(hipFreeAsync(cells, stream));
  });
}

std::uint32_t expected_sum(std::uint32_t value) {
  return kCells * value + kCells * (kCells - 1) / 2;
}

std::vector<hipGraphNodeType> node_types(hipGraph_t graph) {
  std::size_t count = 0;
  HIP_CHECK(hipGraphGetNodes(graph, nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  if (count != 0) HIP_CHECK(hipGraphGetNodes(graph, nodes.data(), &count));
  std::vector<hipGraphNodeType> types(count);
  for (std::size_t i = 0; i < count; ++i) HIP_CHECK(hipGraphNodeGetType(nodes[i], &types[i]));
  return types;
}

int memory_nodes(hipGraph_t graph) {
  int count = 0;
  for (const hipGraphNodeType type : node_types(graph)) {
    count += type == hipGraphNodeTypeMemAlloc || type == hipGraphNodeTypeMemFree;
  }
  return count;
}

std::uint64_t agent_count(const char* name) {
  using Count = std::uint64_t(const char*);
  auto* const count = reinterpret_cast<Count*>(dlsym(RTLD_DEFAULT, "softagent_count"));
  return count != nullptr ? count(name) : 0;
}

std::uint64_t agent_device_bytes() {
  using Bytes = std::uint64_t();
  auto* const bytes = reinterpret_cast<Bytes*>(dlsym(RTLD_DEFAULT, "softagent_device_bytes"));
  return bytes != nullptr ? bytes() : 0;
}

void return_idle_memory() {
  HIP_CHECK(hipDeviceSynchronize());
  HIP_CHECK(hipDeviceGraphMemTrim(0));
}

std::uint64_t settled_device_bytes(std::uint64_t expected) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::uint64_t lowest = agent_device_bytes();
  while (lowest > expected && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
    lowest = std::min(lowest, agent_device_bytes());
  }
  return lowest;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace scenario

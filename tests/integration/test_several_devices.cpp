// Captures on several GPUs: each gets memory of its own device.
//
// Run with SOFTAGENT_GPUS=2.
#include <dlfcn.h>

#include <array>
#include <thread>

#include "scenario.h"

using namespace scenario;

namespace {

constexpr int kDevices = 2;

std::uint64_t device_bytes_of(int device) {
  using Bytes = std::uint64_t(int);
  auto* const bytes = reinterpret_cast<Bytes*>(dlsym(RTLD_DEFAULT, "softagent_device_bytes_of"));
  return bytes != nullptr ? bytes(device) : 0;
}

int device_of(const void* memory) {
  hipPointerAttribute_t attributes{};
  HIP_CHECK(hipPointerGetAttributes(&attributes, memory));
  return attributes.device;
}

class CurrentDevice {
 public:
  explicit CurrentDevice(int device) { HIP_CHECK(hipSetDevice(device)); }
  ~CurrentDevice() { HIP_CHECK_TEARDOWN(hipSetDevice(0)); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
};

// On the current device.
struct Replay {
  apps::Stream stream = apps::make_non_blocking_stream();
  DeviceValue total;
  apps::Graph graph;
  apps::GraphExec exec;

  explicit Replay(std::uint32_t value)
      : graph(capture_sum(stream.get(), total, value)), exec(apps::instantiate(graph)) {}

  std::uint32_t run() {
    HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
    HIP_CHECK(hipStreamSynchronize(stream.get()));
    return total.read();
  }
};

}  // namespace

TEST_SUITE_BEGIN("several devices");

TEST_CASE("there are two") {
  int devices = 0;
  HIP_CHECK(hipGetDeviceCount(&devices));
  REQUIRE(devices == kDevices);
}

TEST_CASE("each device replays") {
  for (int device = 0; device < kDevices; ++device) {
    const CurrentDevice current(device);
    Replay replay(3);
    CHECK(replay.run() == expected_sum(3));
    CHECK(memory_nodes(replay.graph.get()) == 0);
  }
}

TEST_CASE("a block lies on the device of its stream") {
  // Whatever device is current, and also after the other device's captures have left chunks.
  std::array<apps::Stream, kDevices> streams;
  for (int device = 0; device < kDevices; ++device) {
    const CurrentDevice current(device);
    streams.at(static_cast<std::size_t>(device)) = apps::make_non_blocking_stream();
  }
  for (int round = 0; round < 3; ++round) {
    for (int device = 0; device < kDevices; ++device) {
      CAPTURE(device);
      const CurrentDevice current((device + round) % kDevices);
      const hipStream_t stream = streams.at(static_cast<std::size_t>(device)).get();
      void* block = nullptr;
      const apps::Graph graph = capture(stream, [&] {
        block = allocate_async<char>(5'000, stream);
        CHECK(device_of(block) == device);
        HIP_CHECK(hipFreeAsync(block, stream));
      });
    }
  }
}

TEST_CASE("a pool's memory lies on the pool's device, whatever the stream's") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, 1};
  hipMemPool_t made = nullptr;
  HIP_CHECK(hipMemPoolCreate(&made, &properties));
  hipMemPool_t standard = nullptr;
  HIP_CHECK(hipDeviceGetDefaultMemPool(&standard, 1));
  const apps::Graph graph = capture(stream.get(), [&] {
    for (const hipMemPool_t pool : {made, standard}) {
      void* block = nullptr;
      HIP_CHECK(hipMallocFromPoolAsync(&block, 5'000, pool, stream.get()));
      CHECK(device_of(block) == 1);
      HIP_CHECK(hipFreeAsync(block, stream.get()));
    }
  });
  CHECK(memory_nodes(graph.get()) == 0);
  HIP_CHECK(hipMemPoolDestroy(made));
}

TEST_CASE("a device that does not capture gives no memory") {
  const CurrentDevice current(1);
  { Replay warm_up(1); }
  const std::uint64_t others = device_bytes_of(0);
  const apps::Stream stream = apps::make_non_blocking_stream();
  const std::uint64_t before = device_bytes_of(1);
  const apps::Graph graph = capture(stream.get(), [&] {
    void* block = allocate_async<char>(40 << 20, stream.get());
    HIP_CHECK(hipFreeAsync(block, stream.get()));
  });
  CHECK(device_bytes_of(0) == others);
  CHECK(device_bytes_of(1) >= before + (40 << 20));
}

TEST_CASE("two devices in one capture") {
  const apps::Stream first = apps::make_non_blocking_stream();
  const DeviceValue first_total;
  HIP_CHECK(hipSetDevice(1));
  const apps::Stream second = apps::make_non_blocking_stream();
  const apps::Event joined = apps::make_ordering_event();
  const DeviceValue second_total;
  HIP_CHECK(hipSetDevice(0));
  const apps::Event forked = apps::make_ordering_event();
  const apps::Graph graph = capture(first.get(), [&] {
    HIP_CHECK(hipEventRecord(forked.get(), first.get()));
    HIP_CHECK(hipStreamWaitEvent(second.get(), forked.get(), 0));
    auto* here = allocate_async<std::uint32_t>(kCells, first.get());
    auto* there = allocate_async<std::uint32_t>(kCells, second.get());
    CHECK(device_of(here) == 0);
    CHECK(device_of(there) == 1);
    launch_fill(here, kCells, 4, first.get());
    launch_sum(first_total.get(), here, kCells, first.get());
    HIP_CHECK(hipSetDevice(1));
    launch_fill(there, kCells, 5, second.get());
    launch_sum(second_total.get(), there, kCells, second.get());
    HIP_CHECK(hipFreeAsync(there, second.get()));
    HIP_CHECK(hipEventRecord(joined.get(), second.get()));
    HIP_CHECK(hipSetDevice(0));
    HIP_CHECK(hipFreeAsync(here, first.get()));
    HIP_CHECK(hipStreamWaitEvent(first.get(), joined.get(), 0));
  });
  CHECK(memory_nodes(graph.get()) == 0);
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipGraphLaunch(exec.get(), first.get()));
  HIP_CHECK(hipStreamSynchronize(first.get()));
  CHECK(first_total.read() == expected_sum(4));
  CHECK(second_total.read() == expected_sum(5));
}

TEST_CASE("two threads, each with its device") {
  constexpr std::uint32_t rounds = 20;
  const DeviceValue first;
  HIP_CHECK(hipSetDevice(1));
  const DeviceValue second;
  HIP_CHECK(hipSetDevice(0));
  // Nothing that waits for a device: that would fail while the other thread captures.
  const auto work = [](int device, const DeviceValue& total) {
    HIP_CHECK(hipSetDevice(device));
    const apps::Stream stream = apps::make_non_blocking_stream();
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const apps::Graph graph = capture_sum(stream.get(), total, 1);
      const apps::GraphExec exec = apps::instantiate(graph);
      HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
      HIP_CHECK(hipStreamSynchronize(stream.get()));
    }
  };
  std::thread one(work, 0, std::cref(first));
  std::thread two(work, 1, std::cref(second));
  one.join();
  two.join();
  CHECK(first.read() == rounds * expected_sum(1));
  CHECK(second.read() == rounds * expected_sum(1));
}

TEST_SUITE_END();

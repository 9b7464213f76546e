// Several pretended GPUs: run with SOFTAGENT_GPUS=3.
#include <array>
#include <set>

#include "selftest.h"

namespace {

constexpr int gpus = 3;

// The current device's copy of the kernels; leaks on purpose, like module().
hipFunction_t function_here(const char* name) {
  static std::array<hipModule_t, gpus> modules{};
  int device = 0;
  HIP(hipGetDevice(&device));
  hipModule_t& loaded = modules.at(static_cast<size_t>(device));
  if (!loaded) HIP(hipModuleLoadData(&loaded, device_code().data()));
  hipFunction_t result;
  HIP(hipModuleGetFunction(&result, loaded, name));
  return result;
}

struct OnDevice {
  explicit OnDevice(int device) { HIP(hipSetDevice(device)); }
  ~OnDevice() { (void)hipSetDevice(0); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
};

uint64_t bytes_of(int gpu) { return softagent_device_bytes_of(gpu); }

}  // namespace

TEST_SUITE_BEGIN("devices");

TEST_CASE("each GPU is one of its own") {
  int devices = 0;
  HIP(hipGetDeviceCount(&devices));
  REQUIRE(devices == gpus);
  std::set<std::string> uuids, buses;
  for (int device = 0; device < gpus; ++device) {
    hipUUID uuid;
    HIP(hipDeviceGetUuid(&uuid, device));
    uuids.emplace(uuid.bytes, sizeof uuid.bytes);
    char bus[32] = {};
    HIP(hipDeviceGetPCIBusId(bus, sizeof bus, device));
    buses.emplace(bus);
    int found = -1;
    HIP(hipDeviceGetByPCIBusId(&found, bus));
    CHECK(found == device);
  }
  CHECK(uuids.size() == gpus);
  CHECK(buses.size() == gpus);
}

TEST_CASE("memory belongs to one GPU") {
  for (int device = 0; device < gpus; ++device) {
    const OnDevice on(device);
    { Device<int> warm_up(1); }
    std::array<uint64_t, gpus> before{};
    for (int gpu = 0; gpu < gpus; ++gpu) before[static_cast<size_t>(gpu)] = bytes_of(gpu);
    Device<uint8_t> memory(4 << 20);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      CHECK(bytes_of(gpu) == before[static_cast<size_t>(gpu)] + (gpu == device ? 4 << 20 : 0));
    }
    hipPointerAttribute_t attributes{};
    HIP(hipPointerGetAttributes(&attributes, memory.data));
    CHECK(attributes.device == device);
  }
  CHECK(bytes_of(gpus) == 0);
  CHECK(bytes_of(-1) == 0);
}

TEST_CASE("peers are linked") {
  int access = 0;
  HIP(hipDeviceCanAccessPeer(&access, 0, 1));
  CHECK(access == 1);
  HIP(hipDeviceCanAccessPeer(&access, 1, 1));
  CHECK(access == 0);
  uint32_t link = 0;
  uint32_t hops = 0;
  HIP(hipExtGetLinkTypeAndHopCount(0, 2, &link, &hops));
  CHECK(link == 4);  // XGMI
  CHECK(hops == 1);
}

TEST_CASE("copies between GPUs") {
  std::vector<int> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(3 * i);
  Device<int> first(values.size());
  first.write(values);
  const OnDevice on(1);
  Device<int> second(values.size());
  Stream stream;
  HIP(hipMemcpyPeerAsync(second.data, 1, first.data, 0, values.size() * sizeof(int), stream));
  stream.sync();
  CHECK(second.read() == values);
  HIP(hipMemset(second.data, 0, values.size() * sizeof(int)));
  HIP(hipMemcpyPeer(second.data, 1, first.data, 0, values.size() * sizeof(int)));
  CHECK(second.read() == values);
}

TEST_CASE("a kernel uses a peer's memory") {
  Device<int> first(256);
  first.write(std::vector<int>(256, 1));
  const OnDevice on(1);
  HIP(hipDeviceEnablePeerAccess(0, 0));
  CHECK(hipDeviceEnablePeerAccess(0, 0) == hipErrorPeerAccessAlreadyEnabled);
  (void)hipGetLastError();
  Stream stream;
  launch(function_here("add"), 1, 256, stream, first.data, 5, 256);
  stream.sync();
  CHECK(first.read() == std::vector<int>(256, 6));
  HIP(hipDeviceDisablePeerAccess(0));
}

TEST_CASE("an event orders streams of two GPUs") {
  Device<int> memory(256);
  Stream first;
  hipEvent_t event;
  HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  const hipFunction_t add_first = function_here("add");
  const OnDevice on(1);
  Stream second;
  const hipFunction_t add_second = function_here("add");
  for (int round = 0; round < 20; ++round) {
    HIP(hipSetDevice(0));
    HIP(hipMemsetAsync(memory.data, 0, 256 * sizeof(int), first));
    launch(add_first, 1, 256, first, memory.data, 1, 256);
    HIP(hipEventRecord(event, first));
    HIP(hipSetDevice(1));
    HIP(hipStreamWaitEvent(second, event, 0));
    launch(add_second, 1, 256, second, memory.data, 10, 256);
    second.sync();
    REQUIRE(memory.read() == std::vector<int>(256, 11));
  }
  HIP(hipEventDestroy(event));
}

TEST_CASE("each GPU replays its own graph") {
  for (int device = 0; device < gpus; ++device) {
    const OnDevice on(device);
    Device<int> memory(256);
    Stream stream;
    const hipFunction_t add = function_here("add");
    Graph graph(capture(stream, [&] {
      HIP(hipMemsetAsync(memory.data, 0, 256 * sizeof(int), stream));
      launch(add, 1, 256, stream, memory.data, device, 256);
    }));
    graph.instantiate();
    graph.launch(stream);
    stream.sync();
    CHECK(memory.read() == std::vector<int>(256, device));
  }
}

TEST_SUITE_END();

// What the software HSA agent promises, tried on the genuine HIP runtime.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "selftest.h"

extern "C" {
// What a compiler's generated code calls for <<<>>> programs.
void** __hipRegisterFatBinary(const void* wrapper);
void __hipRegisterFunction(void** modules, const void* host_function, char* device_function,
                           const char* device_name, unsigned thread_limit, void* thread_id,
                           void* block_id, void* block_dim, void* grid_dim, int* warp_size);
void __hipRegisterVar(void** modules, void* variable, char* host_name, char* device_name,
                      int is_extern, size_t size, int is_constant, int is_global);
}

namespace {

std::vector<uint8_t> pattern(size_t size, unsigned seed = 1) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + seed);
  return bytes;
}

uint64_t count(const char* name) { return softagent_count(name); }

}  // namespace

extern "C" {

void twin_add(void* kernarg, const uint32_t grid[3], const uint16_t*) {
  struct Arguments {
    int* to;
    int amount;
    int n;
  };
  const auto* arguments = static_cast<const Arguments*>(kernarg);
  for (int i = 0; i < static_cast<int>(grid[0]) && i < arguments->n; ++i) {
    arguments->to[i] += arguments->amount;
  }
}

void twin_mix(void* kernarg, const uint32_t grid[3], const uint16_t*) {
  struct Arguments {
    int* to;
    const int* from;
    int n;
  };
  const auto* arguments = static_cast<const Arguments*>(kernarg);
  for (int i = 0; i < static_cast<int>(grid[0]) && i < arguments->n; ++i) {
    arguments->to[i] = 3 * arguments->to[i] + arguments->from[i];
  }
}

// Returns early only when all parties are inside at the same time.
void twin_meet(void* kernarg, const uint32_t*, const uint16_t*) {
  struct Arguments {
    int* arrived;
    int* ok;
    int parties;
  };
  const auto* arguments = static_cast<const Arguments*>(kernarg);
  std::atomic_ref arrived(*arguments->arrived);
  arrived.fetch_add(1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (arrived.load() < arguments->parties) {
    if (std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::yield();
  }
  *arguments->ok = 1;
}

void twin_read_symbols(void* kernarg, const uint32_t*, const uint16_t*) {
  // Device pointers are host pointers here, so the host can follow the module's own variables.
  void* pointer_variable = nullptr;
  void* table = nullptr;
  size_t bytes = 0;
  (void)hipModuleGetGlobal(&pointer_variable, &bytes, module(), "answer_pointer");
  (void)hipModuleGetGlobal(&table, &bytes, module(), "table");
  **static_cast<int**>(kernarg) =
      **static_cast<int**>(pointer_variable) + static_cast<int*>(table)[2];
}

}  // extern "C"

TEST_CASE("device and properties") {
  int devices = 0;
  HIP(hipGetDeviceCount(&devices));
  CHECK(devices >= 1);
  hipDeviceProp_t properties;
  HIP(hipGetDeviceProperties(&properties, 0));
  CHECK(std::string(properties.gcnArchName) == "gfx90a:sramecc+:xnack-");
  CHECK(properties.totalGlobalMem == size_t{64} << 30);
  CHECK(properties.warpSize == 64);
  CHECK(properties.maxThreadsPerBlock == 1024);
}

TEST_CASE("virtual memory answers with the genuine library's errors") {
  struct Found {
    hsa_agent_t gpu{};
    hsa_amd_memory_pool_t pool{};
  } found;
  hsa_iterate_agents(
      [](hsa_agent_t agent, void* data) {
        hsa_device_type_t type;
        hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
        if (type == HSA_DEVICE_TYPE_GPU) static_cast<Found*>(data)->gpu = agent;
        return HSA_STATUS_SUCCESS;
      },
      &found);
  hsa_amd_agent_iterate_memory_pools(
      found.gpu,
      [](hsa_amd_memory_pool_t pool, void* data) {
        static_cast<Found*>(data)->pool = pool;
        return HSA_STATUS_INFO_BREAK;
      },
      &found);
  constexpr size_t size = 2 << 20;
  const hsa_amd_memory_access_desc_t access{HSA_ACCESS_PERMISSION_RW, found.gpu};
  const uint64_t before = softagent_device_bytes();
  void* address = nullptr;
  REQUIRE(hsa_amd_vmem_address_reserve(&address, size, 0, 0) == HSA_STATUS_SUCCESS);
  CHECK(hsa_amd_vmem_set_access(address, size, &access, 1) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
  CHECK(hsa_amd_vmem_unmap(address, size) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
  hsa_amd_vmem_alloc_handle_t handle{};
  CHECK(hsa_amd_vmem_handle_create(found.pool, size + 1, MEMORY_TYPE_NONE, 0, &handle) ==
        HSA_STATUS_ERROR_INVALID_ARGUMENT);
  REQUIRE(hsa_amd_vmem_handle_create(found.pool, size, MEMORY_TYPE_NONE, 0, &handle) ==
          HSA_STATUS_SUCCESS);
  CHECK(softagent_device_bytes() == before + size);
  REQUIRE(hsa_amd_vmem_map(address, size, 0, handle, 0) == HSA_STATUS_SUCCESS);
  CHECK(hsa_amd_vmem_map(address, size, 0, handle, 0) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
  CHECK(hsa_amd_vmem_set_access(address, size, &access, 1) == HSA_STATUS_SUCCESS);
  std::memset(address, 1, size);
  CHECK(hsa_amd_vmem_address_free(address, size) == HSA_STATUS_ERROR_RESOURCE_FREE);
  CHECK(hsa_amd_vmem_address_free(address, size / 2) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
  CHECK(hsa_amd_vmem_handle_release(handle) == HSA_STATUS_SUCCESS);
  CHECK(softagent_device_bytes() == before + size);
  CHECK(hsa_amd_vmem_unmap(address, size) == HSA_STATUS_SUCCESS);
  CHECK(softagent_device_bytes() == before);
  CHECK(hsa_amd_vmem_handle_release(handle) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
  CHECK(hsa_amd_vmem_handle_release({0}) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
  CHECK(hsa_amd_vmem_address_free(address, size) == HSA_STATUS_SUCCESS);
  CHECK(hsa_amd_vmem_address_free(address, size) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_CASE("malloc, free and the account of device memory") {
  Device<uint8_t> warm_up(1);
  const uint64_t before = softagent_device_bytes();
  void* memory = nullptr;
  HIP(hipMalloc(&memory, 10 << 20));
  CHECK(softagent_device_bytes() == before + (10 << 20));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  HIP(hipMemGetInfo(&free_bytes, &total_bytes));
  CHECK(total_bytes == size_t{64} << 30);
  CHECK(free_bytes < total_bytes);
  HIP(hipFree(memory));
  CHECK(softagent_device_bytes() == before);
  CHECK(hipMalloc(&memory, size_t{65} << 30) == hipErrorOutOfMemory);
  (void)hipGetLastError();
}

TEST_CASE("copies of many sizes, every direction") {
  for (const size_t size : {size_t{1}, size_t{3}, size_t{4096}, size_t{70001}, size_t{5} << 20}) {
    CAPTURE(size);
    const auto bytes = pattern(size);
    Device<uint8_t> first(size), second(size);
    first.write(bytes);
    HIP(hipMemcpy(second.data, first.data, size, hipMemcpyDeviceToDevice));
    CHECK(second.read() == bytes);

    Stream stream;
    void* pinned = nullptr;
    HIP(hipHostMalloc(&pinned, size, hipHostMallocDefault));
    HIP(hipMemsetAsync(second.data, 0, size, stream));
    HIP(hipMemcpyAsync(pinned, first.data, size, hipMemcpyDeviceToHost, stream));
    HIP(hipMemcpyAsync(second.data, pinned, size, hipMemcpyHostToDevice, stream));
    stream.sync();
    CHECK(std::memcmp(pinned, bytes.data(), size) == 0);
    CHECK(second.read() == bytes);
    HIP(hipHostFree(pinned));
  }
}

TEST_CASE("copies between odd offsets") {
  const auto bytes = pattern(10000);
  Device<uint8_t> first(10000), second(10000);
  first.write(bytes);
  HIP(hipMemset(second.data, 0xee, 10000));
  HIP(hipMemcpy(second.data + 7, first.data + 13, 5001, hipMemcpyDeviceToDevice));
  auto expected = std::vector<uint8_t>(10000, 0xee);
  std::copy_n(bytes.begin() + 13, 5001, expected.begin() + 7);
  CHECK(second.read() == expected);
}

TEST_CASE("memset of every element size, odd ends included") {
  Device<uint8_t> memory(4099);
  auto expected = std::vector<uint8_t>(4099, 0x11);
  HIP(hipMemset(memory.data, 0x11, 4099));
  CHECK(memory.read() == expected);
  HIP(hipMemset(memory.data + 3, 0x22, 1001));
  std::fill_n(expected.begin() + 3, 1001, uint8_t{0x22});
  CHECK(memory.read() == expected);
  HIP(hipMemsetD16(memory.data + 2, 0x3344, 777));
  for (size_t i = 0; i < 777; ++i) {
    expected[2 + 2 * i] = 0x44;
    expected[3 + 2 * i] = 0x33;
  }
  CHECK(memory.read() == expected);
  HIP(hipMemsetD32(memory.data + 64, 0x01020304, 501));
  for (size_t i = 0; i < 4 * 501; ++i) expected[64 + i] = static_cast<uint8_t>(4 - i % 4);
  CHECK(memory.read() == expected);
}

TEST_CASE("two dimensional memset and copies") {
  uint8_t* pitched = nullptr;
  size_t pitch = 0;
  HIP(hipMallocPitch(reinterpret_cast<void**>(&pitched), &pitch, 100, 20));
  REQUIRE(pitch >= 100);
  HIP(hipMemset(pitched, 0, pitch * 20));
  HIP(hipMemset2D(pitched, pitch, 0x5a, 97, 20));
  std::vector<uint8_t> raw(pitch * 20);
  HIP(hipMemcpy(raw.data(), pitched, raw.size(), hipMemcpyDeviceToHost));
  for (size_t y = 0; y < 20; ++y) {
    for (size_t x = 0; x < pitch; ++x) REQUIRE(raw[y * pitch + x] == (x < 97 ? 0x5a : 0));
  }

  const auto bytes = pattern(100 * 20);
  HIP(hipMemcpy2D(pitched, pitch, bytes.data(), 100, 100, 20, hipMemcpyHostToDevice));
  Device<uint8_t> dense(100 * 20);
  HIP(hipMemcpy2D(dense.data, 100, pitched, pitch, 100, 20, hipMemcpyDeviceToDevice));
  CHECK(dense.read() == bytes);
  // Odd width and start, so that whole words are no way to copy it.
  HIP(hipMemset(dense.data, 0, 100 * 20));
  HIP(hipMemcpy2D(dense.data + 1, 100, pitched + 3, pitch, 33, 20, hipMemcpyDeviceToDevice));
  const auto partial = dense.read();
  for (size_t y = 0; y < 20; ++y) {
    for (size_t x = 0; x < 33; ++x) REQUIRE(partial[y * 100 + 1 + x] == bytes[y * 100 + 3 + x]);
  }
  std::vector<uint8_t> back(100 * 20);
  HIP(hipMemcpy2D(back.data(), 100, pitched, pitch, 100, 20, hipMemcpyDeviceToHost));
  CHECK(back == bytes);
  HIP(hipFree(pitched));
}

TEST_CASE("modules, kernels, symbols and relocations") {
  Device<int> memory(1000);
  memory.write(std::vector<int>(1000, 5));
  Stream stream;
  softagent_reset_counts();
  launch(function("add"), 4, 256, stream, memory.data, 3, 999);
  stream.sync();
  CHECK(count("kernels.twin") == 1);
  auto expected = std::vector<int>(1000, 8);
  expected[999] = 5;
  CHECK(memory.read() == expected);

  void* variable = nullptr;
  size_t size = 0;
  HIP(hipModuleGetGlobal(&variable, &size, module(), "answer"));
  CHECK(size == sizeof(int));
  int value = 0;
  HIP(hipMemcpy(&value, variable, sizeof value, hipMemcpyDeviceToHost));
  CHECK(value == 42);
  launch(function("read_symbols"), 1, 1, stream, memory.data);
  stream.sync();
  CHECK(memory.read()[0] == 45);

  launch(function("without_twin"), 1, 1, stream, memory.data);
  stream.sync();
  CHECK(count("kernels.missing") == 1);
  CHECK(hipModuleGetGlobal(&variable, &size, module(), "no_such") == hipErrorNotFound);
  (void)hipGetLastError();
}

TEST_CASE("registered fat binary, as of a <<<>>> program") {
  static const char handle_of_add = 0;
  static int shadow_of_answer = 0;
  static std::vector<char> bundle;
  static struct {
    uint32_t magic = 0x48495046;
    uint32_t version = 1;
    const void* data = nullptr;
    void* unused = nullptr;
  } wrapper;

  hipDeviceProp_t properties;
  HIP(hipGetDeviceProperties(&properties, 0));
  const std::string host = "host-x86_64-unknown-linux-gnu-";
  const std::string target = std::string("hipv4-amdgcn-amd-amdhsa--") + properties.gcnArchName;
  const std::vector<char>& code = device_code();
  const uint64_t code_offset = 4096;
  auto append = [&](const auto& value) {
    const char* bytes = reinterpret_cast<const char*>(&value);
    bundle.insert(bundle.end(), bytes, bytes + sizeof value);
  };
  auto append_entry = [&](uint64_t size, const std::string& id) {
    append(code_offset);
    append(size);
    append(uint64_t{id.size()});
    bundle.insert(bundle.end(), id.begin(), id.end());
  };
  const std::string magic = "__CLANG_OFFLOAD_BUNDLE__";
  bundle.assign(magic.begin(), magic.end());
  append(uint64_t{2});
  append_entry(0, host);
  append_entry(code.size(), target);
  bundle.resize(code_offset);
  bundle.insert(bundle.end(), code.begin(), code.end());
  wrapper.data = bundle.data();

  void** modules = __hipRegisterFatBinary(&wrapper);
  REQUIRE(modules);
  char add_name[] = "add";
  char answer_name[] = "answer";
  __hipRegisterFunction(modules, &handle_of_add, add_name, add_name, ~0u, nullptr, nullptr, nullptr,
                        nullptr, nullptr);
  __hipRegisterVar(modules, &shadow_of_answer, answer_name, answer_name, 0, sizeof(int), 0, 0);

  Device<int> memory(64);
  memory.write(std::vector<int>(64, 1));
  int amount = 6;
  int n = 64;
  void* arguments[] = {&memory.data, &amount, &n};
  HIP(hipLaunchKernel(&handle_of_add, dim3(1), dim3(64), arguments, 0, nullptr));
  HIP(hipDeviceSynchronize());
  CHECK(memory.read() == std::vector<int>(64, 7));

  const int written = 77;
  HIP(hipMemcpyToSymbol(shadow_of_answer, &written, sizeof written, 0, hipMemcpyHostToDevice));
  int read = 0;
  HIP(hipMemcpyFromSymbol(&read, shadow_of_answer, sizeof read, 0, hipMemcpyDeviceToHost));
  CHECK(read == 77);
}

TEST_CASE("two streams run at the same time") {
  Device<int> arrived(1), ok(2);
  arrived.write({0});
  ok.write({0, 0});
  Stream first, second;
  const hipFunction_t meet = function("meet");
  launch(meet, 1, 1, first, arrived.data, ok.data, 2);
  launch(meet, 1, 1, second, arrived.data, ok.data + 1, 2);
  first.sync();
  second.sync();
  CHECK(ok.read() == std::vector<int>{1, 1});
}

TEST_CASE("events order streams and take time") {
  Device<int> memory(256);
  Stream first, second;
  hipEvent_t begin, end;
  HIP(hipEventCreate(&begin));
  HIP(hipEventCreate(&end));
  const hipFunction_t add = function("add");
  for (int round = 0; round < 50; ++round) {
    HIP(hipMemsetAsync(memory.data, 0, 256 * sizeof(int), first));
    HIP(hipEventRecord(begin, first));
    launch(add, 1, 256, first, memory.data, 1, 256);
    HIP(hipEventRecord(end, first));
    HIP(hipStreamWaitEvent(second, end, 0));
    launch(add, 1, 256, second, memory.data, 10, 256);
    second.sync();
    REQUIRE(memory.read() == std::vector<int>(256, 11));
    REQUIRE(hipEventQuery(end) == hipSuccess);
    float milliseconds = -1;
    HIP(hipEventElapsedTime(&milliseconds, begin, end));
    REQUIRE(milliseconds >= 0);
  }
  HIP(hipEventDestroy(begin));
  HIP(hipEventDestroy(end));
}

TEST_CASE("host functions and callbacks keep their place") {
  Device<int> memory(1);
  memory.write({0});
  Stream stream;
  struct Seen {
    int* memory;
    std::vector<int> values;
  } seen{memory.data, {}};
  const auto look = [](void* data) {
    auto* s = static_cast<Seen*>(data);
    s->values.push_back(*s->memory);
  };
  const hipFunction_t add = function("add");
  launch(add, 1, 1, stream, memory.data, 1, 1);
  HIP(hipLaunchHostFunc(stream, look, &seen));
  launch(add, 1, 1, stream, memory.data, 1, 1);
  HIP(hipStreamAddCallback(
      stream,
      [](hipStream_t, hipError_t, void* data) {
        auto* s = static_cast<Seen*>(data);
        s->values.push_back(*s->memory);
      },
      &seen, 0));
  launch(add, 1, 1, stream, memory.data, 1, 1);
  stream.sync();
  CHECK(seen.values == std::vector<int>{1, 2});
  CHECK(memory.read()[0] == 3);
}

TEST_CASE("stream ordered allocation and pools") {
  Stream stream;
  int* memory = nullptr;
  HIP(hipMallocAsync(reinterpret_cast<void**>(&memory), 1 << 20, stream));
  HIP(hipMemsetAsync(memory, 0, 1 << 20, stream));
  launch(function("add"), 1, 256, stream, memory, 4, 256);
  int value = 0;
  HIP(hipMemcpyAsync(&value, memory + 255, sizeof value, hipMemcpyDeviceToHost, stream));
  HIP(hipFreeAsync(memory, stream));
  stream.sync();
  CHECK(value == 4);

  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  hipMemPool_t pool;
  HIP(hipMemPoolCreate(&pool, &properties));
  HIP(hipMallocFromPoolAsync(reinterpret_cast<void**>(&memory), 4096, pool, stream));
  HIP(hipMemsetAsync(memory, 9, 4096, stream));
  HIP(hipFreeAsync(memory, stream));
  stream.sync();
  HIP(hipMemPoolTrimTo(pool, 0));
  HIP(hipMemPoolDestroy(pool));
}

TEST_CASE("write value and wait value") {
  Stream waiting, writing;
  uint32_t* word = nullptr;
  HIP(hipExtMallocWithFlags(reinterpret_cast<void**>(&word), 8, hipMallocSignalMemory));
  *word = 0;
  Device<int> memory(1);
  memory.write({0});
  HIP(hipStreamWaitValue32(waiting, word, 5, hipStreamWaitValueEq, 0xffffffff));
  launch(function("add"), 1, 1, waiting, memory.data, 1, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(hipStreamQuery(waiting) == hipErrorNotReady);
  HIP(hipStreamWriteValue32(writing, word, 5, 0));
  waiting.sync();
  CHECK(*word == 5);
  CHECK(memory.read()[0] == 1);
  (void)hipGetLastError();
  HIP(hipFree(word));
}

TEST_CASE("a captured graph computes what its work computes") {
  Device<int> memory(512);
  Stream stream, fork;
  hipEvent_t forked, joined;
  HIP(hipEventCreate(&forked));
  HIP(hipEventCreate(&joined));
  const hipFunction_t add = function("add");
  Graph graph(capture(stream, [&] {
    HIP(hipMemsetAsync(memory.data, 0, 512 * sizeof(int), stream));
    HIP(hipEventRecord(forked, stream));
    HIP(hipStreamWaitEvent(fork, forked, 0));
    launch(add, 1, 256, stream, memory.data, 1, 256);
    launch(add, 1, 256, fork, memory.data + 256, 2, 256);
    HIP(hipEventRecord(joined, fork));
    HIP(hipStreamWaitEvent(stream, joined, 0));
    launch(add, 2, 256, stream, memory.data, 10, 512);
  }));
  CHECK(graph.nodes() == 4);
  CHECK(graph.edges() == 4);
  graph.instantiate();
  auto expected = std::vector<int>(512, 11);
  std::fill_n(expected.begin() + 256, 256, 12);
  for (int round = 0; round < 20; ++round) {
    graph.launch(stream);
    stream.sync();
    REQUIRE(memory.read() == expected);
  }
  HIP(hipEventDestroy(forked));
  HIP(hipEventDestroy(joined));
}

TEST_CASE("graph with copies and a host function") {
  Device<int> memory(128);
  Stream stream;
  int* pinned = nullptr;
  HIP(hipHostMalloc(reinterpret_cast<void**>(&pinned), 128 * sizeof(int), 0));
  std::fill_n(pinned, 128, 3);
  int calls = 0;
  Graph graph(capture(stream, [&] {
    HIP(hipMemcpyAsync(memory.data, pinned, 128 * sizeof(int), hipMemcpyHostToDevice, stream));
    launch(function("add"), 1, 128, stream, memory.data, 1, 128);
    HIP(hipMemcpyAsync(pinned, memory.data, 128 * sizeof(int), hipMemcpyDeviceToHost, stream));
    HIP(hipLaunchHostFunc(
        stream, [](void* data) { ++*static_cast<int*>(data); }, &calls));
  }));
  graph.instantiate();
  for (int round = 1; round <= 5; ++round) {
    graph.launch(stream);
    stream.sync();
    REQUIRE(pinned[127] == 3 + round);
    REQUIRE(calls == round);
  }
  HIP(hipHostFree(pinned));
}

TEST_CASE("child graphs and graphs made by hand") {
  Device<int> memory(64);
  Stream stream;
  const hipFunction_t add = function("add");
  Graph child(capture(stream, [&] { launch(add, 1, 64, stream, memory.data, 5, 64); }));
  Graph parent;
  HIP(hipGraphCreate(&parent.graph, 0));
  hipGraphNode_t fill, first, second;
  hipMemsetParams fill_parameters{};
  fill_parameters.dst = memory.data;
  fill_parameters.elementSize = 4;
  fill_parameters.width = 64;
  fill_parameters.height = 1;
  HIP(hipGraphAddMemsetNode(&fill, parent.graph, nullptr, 0, &fill_parameters));
  HIP(hipGraphAddChildGraphNode(&first, parent.graph, &fill, 1, child.graph));
  HIP(hipGraphAddChildGraphNode(&second, parent.graph, &first, 1, child.graph));
  parent.instantiate();
  parent.launch(stream);
  stream.sync();
  CHECK(memory.read() == std::vector<int>(64, 10));
}

TEST_CASE("graph whose nodes allocate and free") {
  Device<int> result(256);
  Stream stream;
  const hipFunction_t add = function("add");
  Graph graph(capture(stream, [&] {
    int* memory = nullptr;
    HIP(hipMallocAsync(reinterpret_cast<void**>(&memory), 256 * sizeof(int), stream));
    HIP(hipMemsetAsync(memory, 0, 256 * sizeof(int), stream));
    launch(add, 1, 256, stream, memory, 7, 256);
    HIP(hipMemcpyAsync(result.data, memory, 256 * sizeof(int), hipMemcpyDeviceToDevice, stream));
    HIP(hipFreeAsync(memory, stream));
  }));
  CHECK(graph.nodes() == 5);
  graph.instantiate();
  for (int round = 0; round < 5; ++round) {
    HIP(hipMemsetAsync(result.data, 0, 256 * sizeof(int), stream));
    graph.launch(stream);
    stream.sync();
    REQUIRE(result.read() == std::vector<int>(256, 7));
  }
}

TEST_CASE("allocating in a step costs map and unmap at every replay, pre-allocating nothing") {
  constexpr int allocations = 24;
  constexpr int kernels = 234;
  Device<int> own(256);
  Stream stream;
  const hipFunction_t add = function("add");
  auto launches_of = [](int i) { return kernels / allocations + (i < kernels % allocations); };

  Graph allocating(capture(stream, [&] {
    for (int i = 0; i < allocations; ++i) {
      int* memory = nullptr;
      HIP(hipMallocAsync(reinterpret_cast<void**>(&memory), 1024 * (i + 1), stream));
      for (int k = 0; k < launches_of(i); ++k) launch(add, 1, 256, stream, memory, 1, 256);
      HIP(hipFreeAsync(memory, stream));
    }
  }));
  CHECK(allocating.nodes() == 282);
  CHECK(allocating.edges() == 281);
  allocating.instantiate();

  Graph plain(capture(stream, [&] {
    for (int k = 0; k < kernels; ++k) launch(add, 1, 256, stream, own.data, 1, 256);
  }));
  CHECK(plain.nodes() == 234);
  plain.instantiate();

  auto replay = [&](const Graph& graph) {
    graph.launch(stream);
    stream.sync();
    softagent_reset_counts();
    graph.launch(stream);
    stream.sync();
    CHECK(count("kernels.twin") == kernels);
  };
  int runtime_version = 0;
  HIP(hipRuntimeGetVersion(&runtime_version));
  const bool maps = runtime_version >= 60000000;
  replay(allocating);
  CHECK(count("hsa_amd_vmem_map") == (maps ? allocations : 0));
  CHECK(count("hsa_amd_vmem_unmap") == (maps ? allocations : 0));
  CHECK(count("hsa_amd_vmem_set_access") == (maps ? allocations : 0));
  CHECK(count("packets.dispatch") == kernels);
  replay(plain);
  CHECK(count("hsa_amd_vmem_map") == 0);
  CHECK(count("hsa_amd_vmem_unmap") == 0);
  CHECK(count("packets.dispatch") == kernels);
  CHECK(count("host_waits") <= 2);
}

// Each with its own module too: runtime 5.7 mixes the arguments of graphs that share a function.
TEST_CASE("eight threads, each with its stream") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&wrong, t] {
      hipModule_t own_module;
      hipFunction_t add;
      HIP(hipModuleLoadData(&own_module, device_code().data()));
      HIP(hipModuleGetFunction(&add, own_module, "add"));
      Stream stream;
      Device<int> memory(256);
      for (int round = 0; round < 30; ++round) {
        HIP(hipMemsetAsync(memory.data, 0, 256 * sizeof(int), stream));
        Graph graph(capture(
            stream, [&] { launch(add, 1, 256, stream, memory.data, t, 256); },
            hipStreamCaptureModeRelaxed));
        graph.instantiate();
        graph.launch(stream);
        int value = -1;
        HIP(hipMemcpyAsync(&value, memory.data + 200, sizeof value, hipMemcpyDeviceToHost, stream));
        stream.sync();
        if (value != t) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
}

namespace {

// Roles of a child process.
int allocate_two_mebibytes() {
  void* memory = nullptr;
  return hipMalloc(&memory, 2 << 20) == hipErrorOutOfMemory ? 3 : 0;
}

int launch_slow_kernel() {
  Device<int> memory(1);
  Stream stream;
  launch(function("add"), 1, 1, stream, memory.data, 1, 1);
  stream.sync();
  const auto start = std::chrono::steady_clock::now();
  launch(function("add"), 1, 1, stream, memory.data, 1, 1);
  launch(function("without_twin"), 1, 1, stream, memory.data);
  stream.sync();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count() >= 20 && took.count() < 2000 ? 3 : 0;
}

int answer_without_virtual_memory() {
  int supported = 1;
  const auto attribute = hipDeviceAttributeVirtualMemoryManagementSupported;
  if (hipDeviceGetAttribute(&supported, attribute, 0) != hipSuccess) return 1;
  return supported ? 0 : 3;
}

}  // namespace

TEST_CASE("options") {
  CHECK(WEXITSTATUS(run_child("allocate", {"SOFTAGENT_VRAM=1M"})) == 3);
  CHECK(WEXITSTATUS(run_child("allocate", {"SOFTAGENT_VRAM=1X"})) == 0);
  CHECK(WEXITSTATUS(run_child("slow", {"SOFTAGENT_KERNEL_US=add=15000,5000"})) == 3);
  CHECK(WEXITSTATUS(run_child("vmem", {"SOFTAGENT_VMEM=off"})) == 3);
}

int main(int argc, char** argv) {
  const std::string role = argc == 2 ? argv[1] : "";
  if (role.starts_with("fault-")) return fault(role);
  if (role.starts_with("ipc-")) return export_or_import_memory(role);
  if (role == "allocate") return allocate_two_mebibytes();
  if (role == "slow") return launch_slow_kernel();
  if (role == "vmem") return answer_without_virtual_memory();
  return doctest::Context(argc, argv).run();
}

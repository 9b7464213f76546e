// What a program is told about arena memory: each block is an allocation of its own.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "scenario.h"

using namespace scenario;

namespace {

struct Range {
  void* base = nullptr;
  std::size_t bytes = 0;
  bool operator==(const Range&) const = default;
};

template <class T>
T attribute_of(void* pointer, hipPointer_attribute attribute) {
  T value{};
  HIP_CHECK(hipPointerGetAttribute(&value, attribute, pointer));
  return value;
}

unsigned buffer_id(void* pointer) {
  return attribute_of<unsigned>(pointer, HIP_POINTER_ATTRIBUTE_BUFFER_ID);
}

// By every call that tells it; all must tell the same.
Range range_around(void* pointer) {
  Range range;
  HIP_CHECK(hipMemGetAddressRange(&range.base, &range.bytes, pointer));

  std::size_t bytes = 0;
  CHECK(hipMemPtrGetInfo(pointer, &bytes) == hipSuccess);
  CHECK(bytes == range.bytes);

  CHECK(attribute_of<void*>(pointer, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR) == range.base);
  CHECK(attribute_of<std::size_t>(pointer, HIP_POINTER_ATTRIBUTE_RANGE_SIZE) == range.bytes);

  std::array attributes{HIP_POINTER_ATTRIBUTE_RANGE_SIZE, HIP_POINTER_ATTRIBUTE_DEVICE_POINTER,
                        HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, HIP_POINTER_ATTRIBUTE_BUFFER_ID};
  void* device_pointer = nullptr;
  unsigned id = 0;
  bytes = 0;
  void* base = nullptr;
  std::array<void*, 4> values{&bytes, &device_pointer, &base, &id};
  CHECK(hipDrvPointerGetAttributes(4, attributes.data(), values.data(), pointer) == hipSuccess);
  CHECK(bytes == range.bytes);
  CHECK(device_pointer == pointer);
  CHECK(base == range.base);
  CHECK(id == buffer_id(pointer));
  return range;
}

// That the first, the last and another byte belong to a block of its own.
void check_block(char* block, std::size_t bytes) {
  const Range expected{block, bytes};
  CHECK(range_around(block) == expected);
  CHECK(range_around(block + bytes / 2) == expected);
  CHECK(range_around(block + bytes - 1) == expected);
}

std::uint64_t graph_memory(hipGraphMemAttributeType attribute, int device = 0) {
  std::uint64_t bytes = 0;
  HIP_CHECK(hipDeviceGetGraphMemAttribute(device, attribute, &bytes));
  return bytes;
}

bool capturing(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  HIP_CHECK(hipStreamIsCapturing(stream, &status));
  return status == hipStreamCaptureStatusActive;
}

// How often `text` occurs in what `work` prints on stderr.
template <class Work>
int printed(const std::string& text, Work work) {
  const int saved = dup(STDERR_FILENO);
  const int file = memfd_create("stderr", 0);
  dup2(file, STDERR_FILENO);
  work();
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::ifstream lines("/proc/self/fd/" + std::to_string(file));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += line.find(text) != std::string::npos;
  }
  close(file);
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("pointers");

TEST_CASE("blocks are told apart while they are captured, and as long as they live") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  char* one = nullptr;
  char* other = nullptr;
  const auto check_both = [&] {
    check_block(one, 5000);
    check_block(other, 7000);
    CHECK(buffer_id(one) == buffer_id(one + 4999));
    CHECK(buffer_id(one) != buffer_id(other));
  };
  {
    const apps::Graph graph = capture(stream.get(), [&] {
      one = allocate_async<char>(5000, stream.get());
      other = allocate_async<char>(7000, stream.get());
      CHECK(other == one + 5120);  // in one chunk
      check_both();
      HIP_CHECK(hipMemsetAsync(one, 1, 5000, stream.get()));
      HIP_CHECK(hipMemsetAsync(other, 2, 7000, stream.get()));
    });
    check_both();
    const apps::GraphExec exec = apps::instantiate(graph);
    HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
    HIP_CHECK(hipStreamSynchronize(stream.get()));
    check_both();
  }
  check_both();
  HIP_CHECK(hipFree(one));
  check_block(other, 7000);
  HIP_CHECK(hipFreeAsync(other, stream.get()));
}

TEST_CASE("a block that the capture has freed can be asked about while the graph lives") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  constexpr int kGraphs = 4;
  std::vector<char*> blocks;
  std::vector<apps::Graph> graphs;
  for (int i = 0; i < kGraphs; ++i) {
    graphs.push_back(capture(stream.get(), [&] {
      auto* block = allocate_async<char>(5000, stream.get());
      HIP_CHECK(hipMemsetAsync(block, 1, 5000, stream.get()));
      HIP_CHECK(hipFreeAsync(block, stream.get()));
      check_block(block, 5000);
      blocks.push_back(block);
    }));
  }
  for (char* block : blocks) check_block(block, 5000);
  // The last graph keeps no other's memory: the block of the first is nobody's now.
  while (graphs.size() > 1) graphs.erase(graphs.begin());
  check_block(blocks.back(), 5000);
  std::size_t bytes = 0;
  if (hipMemPtrGetInfo(blocks.front(), &bytes) == hipSuccess) CHECK(bytes != 5000);
}

TEST_CASE("bytes belong to the block that got them last") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  capture(stream.get(), [&] {
    auto* old = allocate_async<char>(8192, stream.get());
    HIP_CHECK(hipMemsetAsync(old, 1, 8192, stream.get()));
    HIP_CHECK(hipFreeAsync(old, stream.get()));
    auto* young = allocate_async<char>(1000, stream.get());
    CHECK(young == old);
    check_block(young, 1000);
    const Range expected{old, 8192};
    CHECK(range_around(old + 1024) == expected);
    CHECK(range_around(old + 8191) == expected);
    CHECK(buffer_id(old + 1024) != buffer_id(young));
    HIP_CHECK(hipFreeAsync(young, stream.get()));
  });
}

TEST_CASE("all else is told as for any memory of the device") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::DeviceMemory plain = apps::allocate_device_memory(5000);
  const auto told_of = [](void* pointer) {
    hipPointerAttribute_t attributes{};
    HIP_CHECK(hipPointerGetAttributes(&attributes, pointer));
    return attributes;
  };
  const hipPointerAttribute_t expected = told_of(plain.get());
  const apps::Graph graph = capture(stream.get(), [&] {
    allocate_async<char>(5000, stream.get());
    auto* block = allocate_async<char>(5000, stream.get());
    const hipPointerAttribute_t told = told_of(block + 1000);
    CHECK(told.devicePointer == block + 1000);
    CHECK(told.type == expected.type);
    CHECK(told.device == expected.device);
    CHECK(told.hostPointer == nullptr);
    CHECK(told.isManaged == 0);
    CHECK(told.allocationFlags == expected.allocationFlags);
    for (const auto attribute :
         {HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
          HIP_POINTER_ATTRIBUTE_IS_MANAGED, HIP_POINTER_ATTRIBUTE_MAPPED}) {
      CHECK(attribute_of<unsigned>(block + 1000, attribute) ==
            attribute_of<unsigned>(plain.get(), attribute));
    }
  });
}

TEST_CASE("memory of others is told as ever") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::DeviceMemory plain = apps::allocate_device_memory(5000);
  auto* pooled = allocate_async<char>(6000, stream.get());
  const apps::Graph graph = capture(stream.get(), [&] {
    allocate_async<char>(100, stream.get());
    check_block(static_cast<char*>(plain.get()), 5000);
    check_block(pooled, 6000);
  });
  hipIpcMemHandle_t handle;
  CHECK(hipIpcGetMemHandle(&handle, plain.get()) == hipSuccess);
  int on_the_stack = 0;
  void* base = nullptr;
  std::size_t bytes = 0;
  CHECK(hipMemGetAddressRange(&base, &bytes, &on_the_stack) != hipSuccess);
  static_cast<void>(hipGetLastError());
  HIP_CHECK(hipFreeAsync(pooled, stream.get()));
}

TEST_CASE("answers leave no error behind") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::Graph graph = capture(stream.get(), [&] {
    auto* block = allocate_async<char>(5000, stream.get());
    static_cast<void>(hipGetLastError());
    range_around(block + 17);
    graph_memory(hipGraphMemAttrUsedMemCurrent);
    CHECK(hipPeekAtLastError() == hipSuccess);
    CHECK(hipGetLastError() == hipSuccess);
  });
}

TEST_CASE("a block is not exported: its whole chunk would be") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const DeviceValue total;
  hipIpcMemHandle_t handle;
  hipMemPoolPtrExportData data;
  hipMemGenericAllocationHandle_t retained = nullptr;
  const auto check_refused = [](hipError_t result, hipError_t expected) {
    CHECK(result == expected);
    CHECK(hipPeekAtLastError() == expected);
    CHECK(hipGetLastError() == expected);
    CHECK(hipGetLastError() == hipSuccess);
  };
  const apps::Graph graph = capture(stream.get(), [&] {
    auto* cells = allocate_async<std::uint32_t>(kCells, stream.get());
    launch_fill(cells, kCells, 3, stream.get());
    CHECK(printed("hipIpcGetMemHandle is refused", [&] {
            check_refused(hipIpcGetMemHandle(&handle, cells), hipErrorInvalidValue);
            check_refused(hipIpcGetMemHandle(&handle, cells + 1), hipErrorInvalidValue);
          }) == 1);
    CHECK(printed("HIPGRAFT_ARENA=off", [&] {
            check_refused(hipMemPoolExportPointer(&data, cells), hipErrorOutOfMemory);
          }) == 1);
    check_refused(hipMemRetainAllocationHandle(&retained, cells), hipErrorInvalidValue);
#if HIP_VERSION >= 60500000
    int file = -1;
    check_refused(hipMemGetHandleForAddressRange(&file, cells, kCells * sizeof *cells,
                                                 hipMemRangeHandleTypeDmaBufFd, 0),
                  hipErrorInvalidValue);
    CHECK(file == -1);
    CHECK(attribute_of<int>(cells, HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE) == 0);
#endif
    CHECK(capturing(stream.get()));
    launch_sum(total.get(), cells, kCells, stream.get());
    HIP_CHECK(hipFreeAsync(cells, stream.get()));
    check_refused(hipIpcGetMemHandle(&handle, cells), hipErrorInvalidValue);
  });
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
  CHECK(total.read() == expected_sum(3));
}

TEST_CASE("arena memory counts as memory of graphs") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const std::uint64_t used = graph_memory(hipGraphMemAttrUsedMemCurrent);
  {
    const apps::Graph graph = capture(stream.get(), [&] {
      auto* one = allocate_async<char>(5000, stream.get());
      CHECK(graph_memory(hipGraphMemAttrUsedMemCurrent) == used + 5120);
      HIP_CHECK(hipFreeAsync(one, stream.get()));
      allocate_async<char>(5000, stream.get());  // in the same bytes
      auto* large = allocate_async<char>(3 << 20, stream.get());
      HIP_CHECK(hipFreeAsync(large, stream.get()));
    });
    const std::uint64_t now = graph_memory(hipGraphMemAttrUsedMemCurrent);
    CHECK(now == used + 5120 + (3 << 20));
    CHECK(graph_memory(hipGraphMemAttrUsedMemHigh) >= now);
    CHECK(graph_memory(hipGraphMemAttrReservedMemCurrent) >= now);
    CHECK(graph_memory(hipGraphMemAttrReservedMemHigh) >=
          graph_memory(hipGraphMemAttrReservedMemCurrent));
  }
  CHECK(graph_memory(hipGraphMemAttrUsedMemCurrent) == used);
  CHECK(graph_memory(hipGraphMemAttrUsedMemHigh) >= used + (3 << 20));
  HIP_CHECK(hipDeviceGraphMemTrim(0));
  CHECK(graph_memory(hipGraphMemAttrReservedMemCurrent) < 3 << 20);

  std::uint64_t zero = 0;
  HIP_CHECK(hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemHigh, &zero));
  CHECK(graph_memory(hipGraphMemAttrUsedMemHigh) == 0);
  CHECK(hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemCurrent, &zero) != hipSuccess);
  const apps::Graph graph =
      capture(stream.get(), [&] { allocate_async<char>(5000, stream.get()); });
  CHECK(graph_memory(hipGraphMemAttrUsedMemHigh) == graph_memory(hipGraphMemAttrUsedMemCurrent));
}

TEST_SUITE_END();

// Calls that allocate and free in and beside captures, other than hipMallocAsync and hipFreeAsync
// on the capturing stream.
#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "scenario.h"

using namespace scenario;

namespace {

apps::Stream make_blocking_stream() {
  hipStream_t stream = nullptr;
  HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamDefault));
  return apps::Stream(stream);
}

bool captures(hipStream_t stream) {
  hipStreamCaptureStatus status{};
  HIP_CHECK(hipStreamIsCapturing(stream, &status));
  return status == hipStreamCaptureStatusActive;
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  HIP_CHECK(hipMemGetInfo(&free, &total));
  return free;
}

std::uint32_t read_first(const std::uint32_t* memory) {
  std::uint32_t value = 0;
  HIP_CHECK(hipMemcpy(&value, memory, sizeof value, hipMemcpyDeviceToHost));
  return value;
}

void replay(const apps::Graph& graph, hipStream_t stream) {
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipGraphLaunch(exec.get(), stream));
  HIP_CHECK(hipStreamSynchronize(stream));
}

constexpr std::size_t kBytes = kCells * sizeof(std::uint32_t);

}  // namespace

TEST_SUITE_BEGIN("allocation calls");

// --- beside a capture ------------------------------------------------------------------------

TEST_CASE("streams that do not capture allocate and free while a blocking stream does") {
  const apps::Stream capturing = make_blocking_stream();
  const apps::Stream blocking = make_blocking_stream();
  const apps::Stream non_blocking = apps::make_non_blocking_stream();
  for (const hipStream_t other :
       {blocking.get(), non_blocking.get(), hipStream_t{nullptr}, hipStreamPerThread}) {
    auto* before = allocate_async<std::uint32_t>(kCells, other);
    std::uint32_t* during = nullptr;
    const apps::Graph graph = capture(capturing.get(), [&] {
      during = allocate_async<std::uint32_t>(kCells, other);
      HIP_CHECK(hipMemsetAsync(during, 1, kBytes, non_blocking.get()));
      CHECK(hipFreeAsync(before, other) == hipSuccess);
      // Elsewhere the runtime has done it already, and answers as its version does.
      if (other == nullptr) CHECK(hipFree(before) == hipErrorInvalidValue);
      CHECK(captures(capturing.get()));
    });
    CHECK(node_types(graph.get()).empty());
    HIP_CHECK(hipStreamSynchronize(non_blocking.get()));
    CHECK(read_first(during) == 0x01010101);
    CHECK(hipFreeAsync(during, other) == hipSuccess);
  }
}

TEST_CASE("captures that begin and end meanwhile are in nobody's way") {
  const apps::Stream busy = make_blocking_stream();
  std::atomic<bool> over{false};
  std::thread capturing([&] {
    for (int i = 0; i < 3000; ++i) {
      capture(
          busy.get(), [] {}, hipStreamCaptureModeRelaxed);
    }
    over = true;
  });
  const apps::Stream other = make_blocking_stream();
  int refused = 0;
  while (!over) {
    void* block = nullptr;
    refused += hipMallocAsync(&block, kBytes, other.get()) != hipSuccess;
    refused += block != nullptr && hipFreeAsync(block, other.get()) != hipSuccess;
  }
  capturing.join();
  CHECK(refused == 0);
}

TEST_CASE("what is freed beside a capture returns to its pool") {
  const apps::Stream capturing = make_blocking_stream();
  const auto round = [&] {
    constexpr std::size_t kMegabyte = 1 << 20;
    void* before = allocate_async<char>(64 * kMegabyte, nullptr);
    capture(capturing.get(), [&] { HIP_CHECK(hipFreeAsync(before, nullptr)); });
    HIP_CHECK(hipDeviceSynchronize());
  };
  for (int i = 0; i < 5; ++i) round();
  const std::uint64_t bytes = agent_device_bytes();
  for (int i = 0; i < 20; ++i) round();
  CHECK(agent_device_bytes() <= bytes);
}

TEST_CASE("a null free beside a capture answers as it does elsewhere") {
  const apps::Stream capturing = make_blocking_stream();
  const apps::Stream other = apps::make_non_blocking_stream();
  const hipError_t elsewhere = hipFreeAsync(nullptr, other.get());
  static_cast<void>(hipGetLastError());
  capture(capturing.get(), [&] {
    CHECK(hipFreeAsync(nullptr, other.get()) == elsewhere);
    CHECK(hipFreeAsync(nullptr, nullptr) == elsewhere);
  });
  static_cast<void>(hipGetLastError());
}

// --- zero sizes and pools --------------------------------------------------------------------

TEST_CASE("zero bytes are what they are eagerly") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  int something = 0;
  const apps::Graph graph = capture(stream.get(), [&] {
    void* block = &something;
    CHECK(hipMallocAsync(&block, 0, stream.get()) == hipSuccess);
    CHECK(block == nullptr);
    block = &something;
    CHECK(hipMalloc(&block, 0) == hipSuccess);
    CHECK(block == nullptr);
  });
  CHECK(node_types(graph.get()).empty());
}

TEST_CASE("pools are left as the program has set them") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, 0};
  hipMemPool_t pool = nullptr;
  HIP_CHECK(hipMemPoolCreate(&pool, &properties));
  hipMemPool_t own = nullptr;
  HIP_CHECK(hipDeviceGetMemPool(&own, 0));
  HIP_CHECK(hipDeviceSetMemPool(0, pool));
  std::uint64_t threshold = 12345678;
  HIP_CHECK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));

  const auto check = [&] {
    hipMemPool_t current = nullptr;
    HIP_CHECK(hipDeviceGetMemPool(&current, 0));
    CHECK(current == pool);
    std::uint64_t now = 0;
    HIP_CHECK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReleaseThreshold, &now));
    CHECK(now == threshold);
    HIP_CHECK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &now));
    CHECK(now == 0);
  };
  const auto work = [&] {
    void* block = nullptr;
    HIP_CHECK(hipMallocFromPoolAsync(&block, 1000, pool, stream.get()));
    check();
    HIP_CHECK(hipFreeAsync(block, stream.get()));
    allocate_async<char>(1000, stream.get());
  };
  const apps::Graph graph = capture(stream.get(), work);
  check();
  CHECK(memory_nodes(graph.get()) == 0);
#ifdef SCENARIO_CAPTURES_CAN_BE_KILLED
  HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal));
  work();
  kill_captures();
  hipGraph_t none = nullptr;
  CHECK(hipStreamEndCapture(stream.get(), &none) == hipErrorStreamCaptureInvalidated);
  static_cast<void>(hipGetLastError());
  check();
#endif
  HIP_CHECK(hipDeviceSetMemPool(0, own));
  HIP_CHECK(hipMemPoolDestroy(pool));
}

TEST_CASE("memory of a pool that other processes may share stays the runtime's") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.handleTypes = hipMemHandleTypePosixFileDescriptor;
  properties.location = {hipMemLocationTypeDevice, 0};
  hipMemPool_t pool = nullptr;
  HIP_CHECK(hipMemPoolCreate(&pool, &properties));
  {
    const apps::Graph graph = capture(stream.get(), [&] {
      void* block = nullptr;
      HIP_CHECK(hipMallocFromPoolAsync(&block, 1000, pool, stream.get()));
      HIP_CHECK(hipFreeAsync(block, stream.get()));
    });
    CHECK(memory_nodes(graph.get()) == 2);
  }
  HIP_CHECK(hipMemPoolDestroy(pool));
}

// --- hipMalloc and its kin in a capture --------------------------------------------------------

TEST_CASE("each kind of hipMalloc in a capture needs no node and outlives it") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  std::array<void*, 5> blocks{};
  const apps::Graph graph = capture(stream.get(), [&] {
    std::size_t pitch = 0;
    HIP_CHECK(hipMalloc(&blocks.at(0), kBytes));
    HIP_CHECK(hipMallocPitch(&blocks.at(1), &pitch, kBytes, 3));
    HIP_CHECK(hipMemAllocPitch(&blocks.at(2), &pitch, kBytes, 3, 4));
    hipPitchedPtr volume{};
    HIP_CHECK(hipMalloc3D(&volume, make_hipExtent(kBytes, 2, 2)));
    blocks.at(3) = volume.ptr;
    HIP_CHECK(hipExtMallocWithFlags(&blocks.at(4), kBytes, hipDeviceMallocDefault));
    for (void* block : blocks) {
      launch_fill(static_cast<std::uint32_t*>(block), kCells, 9, stream.get());
    }
  });
  CHECK(node_types(graph.get()).size() == blocks.size());
  replay(graph, stream.get());
  for (void* block : blocks) {
    CHECK(read_first(static_cast<std::uint32_t*>(block)) == 9);
    CHECK(hipFree(block) == hipSuccess);
    CHECK(hipFree(block) == hipErrorInvalidValue);
  }
}

TEST_CASE("what the capture frees is there as long as its graph") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  return_idle_memory();
  const std::uint64_t before = settled_device_bytes(0);
  {
    const DeviceValue total;
    const apps::Graph graph = capture(stream.get(), [&] {
      for (const bool in_stream_order : {false, true}) {
        void* memory = nullptr;
        HIP_CHECK(hipMalloc(&memory, kBytes));
        auto* cells = static_cast<std::uint32_t*>(memory);
        launch_fill(cells, kCells, 1, stream.get());
        launch_sum(total.get(), cells, kCells, stream.get());
        HIP_CHECK(in_stream_order ? hipFreeAsync(memory, stream.get()) : hipFree(memory));
        CHECK(hipFree(memory) == hipErrorInvalidValue);
      }
    });
    static_cast<void>(hipGetLastError());
    CHECK(memory_nodes(graph.get()) == 0);
    // Whatever gets the freed bytes now would notice the replay.
    const apps::DeviceMemory other = [] {
      void* memory = nullptr;
      HIP_CHECK(hipMalloc(&memory, kBytes));
      HIP_CHECK(hipMemset(memory, 7, kBytes));
      return apps::DeviceMemory(memory);
    }();
    replay(graph, stream.get());
    CHECK(total.read() == 2 * expected_sum(1));
    CHECK(read_first(static_cast<std::uint32_t*>(other.get())) == 0x07070707);
  }
  return_idle_memory();
  CHECK(settled_device_bytes(before) == before);
}

TEST_CASE("hipFree in a capture waits for the streams that do not capture") {
  const apps::Stream capturing = apps::make_non_blocking_stream();
  const apps::Stream other = apps::make_non_blocking_stream();
  const apps::Event done = apps::make_ordering_event();
  capture(
      capturing.get(),
      [&] {
        void* memory = nullptr;
        HIP_CHECK(hipMalloc(&memory, kBytes));
        launch_fill(static_cast<std::uint32_t*>(memory), kCells, 1, other.get());
        HIP_CHECK(hipEventRecord(done.get(), other.get()));
        CHECK(hipFree(memory) == hipSuccess);
        CHECK(hipEventQuery(done.get()) == hipSuccess);
      },
      hipStreamCaptureModeRelaxed);
}

TEST_CASE("a block freed by the host serves only requests that all of the capture precedes") {
  const apps::Stream origin = apps::make_non_blocking_stream();
  const apps::Stream fork = apps::make_non_blocking_stream();
  const apps::Event forked = apps::make_ordering_event();
  const apps::Event joined = apps::make_ordering_event();
  std::set<void*> freed;
  capture(origin.get(), [&] {
    HIP_CHECK(hipEventRecord(forked.get(), origin.get()));
    HIP_CHECK(hipStreamWaitEvent(fork.get(), forked.get(), 0));
    void* real = nullptr;
    HIP_CHECK(hipMalloc(&real, kBytes));
    auto* block = allocate_async<std::uint32_t>(kCells, fork.get());
    launch_fill(block, kCells, 1, fork.get());
    launch_fill(static_cast<std::uint32_t*>(real), kCells, 1, fork.get());
    HIP_CHECK(hipFree(block));
    HIP_CHECK(hipFree(real));
    freed = {block, real};
    void* unordered = allocate_async<std::uint32_t>(kCells, origin.get());
    CHECK_FALSE(freed.contains(unordered));
    HIP_CHECK(hipEventRecord(joined.get(), fork.get()));
    HIP_CHECK(hipStreamWaitEvent(origin.get(), joined.get(), 0));
    void* first = allocate_async<std::uint32_t>(kCells, origin.get());
    void* second = allocate_async<std::uint32_t>(kCells, origin.get());
    CHECK(freed == std::set<void*>{first, second});
  });
}

#ifdef SCENARIO_CAPTURES_CAN_BE_KILLED
TEST_CASE("hipMalloc's memory survives a capture that fails") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  void* kept = nullptr;
  HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal));
  HIP_CHECK(hipMalloc(&kept, kBytes));
  kill_captures();
  hipGraph_t none = nullptr;
  CHECK(hipStreamEndCapture(stream.get(), &none) == hipErrorStreamCaptureInvalidated);
  static_cast<void>(hipGetLastError());
  HIP_CHECK(hipMemset(kept, 3, kBytes));
  CHECK(read_first(static_cast<std::uint32_t*>(kept)) == 0x03030303);
  CHECK(hipFree(kept) == hipSuccess);
}
#endif

TEST_CASE("a free on a stream that runs is no free of the capture") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::Stream running = apps::make_non_blocking_stream();
  const DeviceValue faults;
  void* memory = nullptr;
  const apps::Graph graph = capture(
      stream.get(),
      [&] {
        HIP_CHECK(hipMalloc(&memory, kBytes));
        auto* cells = static_cast<std::uint32_t*>(memory);
        HIP_CHECK(hipMemsetAsync(cells, 0, kBytes, running.get()));
        for (int i = 0; i < 20; ++i) {
          launch_enter(cells, kCells, faults.get(), running.get());
          launch_leave(cells, kCells, faults.get(), running.get());
        }
        HIP_CHECK(hipFreeAsync(memory, running.get()));
        auto* next = allocate_async<std::uint32_t>(kCells, stream.get());
        CHECK(next != memory);
        HIP_CHECK(hipMemsetAsync(next, 0xff, kBytes, stream.get()));
        HIP_CHECK(hipFreeAsync(next, stream.get()));
      },
      hipStreamCaptureModeRelaxed);
  replay(graph, stream.get());
  CHECK(faults.read() == 0);
}

TEST_CASE("memory that captures free does not pile up") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  return_idle_memory();
  const std::uint64_t before = settled_device_bytes(0);
  constexpr std::size_t kLarge = std::size_t{1} << 20;
  for (int i = 0; i < 20; ++i) {
    const apps::Graph graph = capture(stream.get(), [&] {
      void* memory = nullptr;
      HIP_CHECK(hipMalloc(&memory, kLarge));
      HIP_CHECK(hipMemsetAsync(memory, 0, kLarge, stream.get()));
      HIP_CHECK(hipFree(memory));
    });
    replay(graph, stream.get());
  }
  CHECK(settled_device_bytes(before) < before + 4 * kLarge);
  return_idle_memory();
}

#ifdef SCENARIO_CAPTURES_CAN_BE_KILLED
TEST_CASE("a killed capture that nobody ends keeps no memory") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed));
  void* early = nullptr;
  HIP_CHECK(hipMalloc(&early, kBytes));
  kill_captures();
  static_cast<void>(hipGetLastError());
  const std::uint64_t before = agent_device_bytes();
  for (int i = 0; i < 10; ++i) {
    void* memory = nullptr;
    HIP_CHECK(hipMalloc(&memory, kBytes));
    HIP_CHECK(hipFree(memory));
  }
  HIP_CHECK(hipFree(early));
  CHECK(agent_device_bytes() < before);
}
#endif

// --- free nodes ----------------------------------------------------------------------------------

TEST_CASE("a free node on a captured block becomes an empty node in its place") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  void* block = nullptr;
  void* next = nullptr;
  const apps::Graph graph = capture(stream.get(), [&] {
    block = allocate_async<std::uint32_t>(kCells, stream.get());
    launch_fill(static_cast<std::uint32_t*>(block), kCells, 1, stream.get());
    hipStreamCaptureStatus status{};
    hipGraph_t captured = nullptr;
    const hipGraphNode_t* leaves = nullptr;
    std::size_t count = 0;
    HIP_CHECK(
        hipStreamGetCaptureInfo_v2(stream.get(), &status, nullptr, &captured, &leaves, &count));
    hipGraphNode_t free_node = nullptr;
    REQUIRE(hipGraphAddMemFreeNode(&free_node, captured, leaves, count, block) == hipSuccess);
    REQUIRE(hipStreamUpdateCaptureDependencies(stream.get(), &free_node, 1,
                                               hipStreamSetCaptureDependencies) == hipSuccess);
    CHECK(hipFreeAsync(block, stream.get()) == hipErrorInvalidValue);
    static_cast<void>(hipGetLastError());
    next = allocate_async<std::uint32_t>(kCells, stream.get());
    launch_fill(static_cast<std::uint32_t*>(next), kCells, 2, stream.get());
  });
  CHECK(next == block);
  CHECK(memory_nodes(graph.get()) == 0);
  CHECK(node_types(graph.get()).size() == 3);
  replay(graph, stream.get());
  CHECK(read_first(static_cast<std::uint32_t*>(next)) == 2);
  HIP_CHECK(hipFree(next));
}

TEST_CASE("a free node may free the block of another graph") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  std::uint32_t* block = nullptr;
  const apps::Graph maker = capture(stream.get(), [&] {
    block = allocate_async<std::uint32_t>(kCells, stream.get());
    launch_fill(block, kCells, 1, stream.get());
  });
  hipGraph_t handle = nullptr;
  HIP_CHECK(hipGraphCreate(&handle, 0));
  const apps::Graph freer(handle);
  hipGraphNode_t node = nullptr;
  REQUIRE(hipGraphAddMemFreeNode(&node, freer.get(), nullptr, 0, block) == hipSuccess);
  for (int i = 0; i < 2; ++i) {
    replay(maker, stream.get());
    CHECK(read_first(block) == 1);
    replay(freer, stream.get());
    CHECK(hipFree(block) == hipErrorInvalidValue);
    static_cast<void>(hipGetLastError());
  }
}

// --- captures from one place again -----------------------------------------------------------

namespace {

struct Recaptured {
  apps::Graph graph;
  std::vector<void*> blocks;
  bool grown = false;  // memory was got from the runtime while it captured
};

// Always from the same place.
Recaptured recapture(hipStream_t stream) {
  Recaptured result;
  HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  const std::uint64_t held = agent_device_bytes();
  for (const int megabytes : {3, 1, 2, 5}) {
    result.blocks.push_back(
        allocate_async<char>(static_cast<std::size_t>(megabytes) << 20, stream));
    if (megabytes != 1) HIP_CHECK(hipFreeAsync(result.blocks.back(), stream));
  }
  HIP_CHECK(hipFreeAsync(result.blocks.at(1), stream));
  result.grown = agent_device_bytes() != held;
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamEndCapture(stream, &graph));
  result.graph = apps::Graph(graph);
  return result;
}

}  // namespace

TEST_CASE("the next capture of a place gets its memory before it begins") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  return_idle_memory();
  const Recaptured first = recapture(stream.get());
  CHECK(first.grown);
  const std::uint64_t held = agent_device_bytes();
  const Recaptured second = recapture(stream.get());
  CHECK_FALSE(second.grown);
  CHECK(agent_device_bytes() > held);
  CHECK(second.blocks != first.blocks);
}

TEST_CASE("the next capture of a place gets the same addresses when the former graph is dead") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  recapture(stream.get());
  const std::vector<void*> planned = recapture(stream.get()).blocks;
  const std::uint64_t held = agent_device_bytes();
  for (int i = 0; i < 3; ++i) {
    const Recaptured again = recapture(stream.get());
    CHECK(again.blocks == planned);
    CHECK_FALSE(again.grown);
    CHECK(agent_device_bytes() == held);
  }
}

// --- idle memory
// -----------------------------------------------------------------------------------

TEST_CASE("idle arena memory counts as free, and is kept for the next capture") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  return_idle_memory();
  const auto work = [&] {
    void* block = allocate_async<char>(5 << 20, stream.get());
    HIP_CHECK(hipFreeAsync(block, stream.get()));
  };
  const std::size_t before = free_bytes();
  {
    const apps::Graph graph = capture(stream.get(), work);
    CHECK(free_bytes() < before);
  }
  CHECK(free_bytes() == before);
  const std::uint64_t held = agent_device_bytes();
  for (int i = 0; i < 3; ++i) {
    capture(stream.get(), work);
    HIP_CHECK(hipDeviceSynchronize());
    CHECK(agent_device_bytes() == held);
  }
  for (int i = 0; i < 2; ++i) HIP_CHECK(hipDeviceSynchronize());
  CHECK(agent_device_bytes() < held);
}

TEST_SUITE_END();

// Begin and end of captures: every way to end one badly, and that the next one works.
#include <thread>

#include "scenario.h"

using namespace scenario;

namespace {

void check_works(hipStream_t stream) {
  const DeviceValue total;
  const apps::Graph graph = capture_sum(stream, total, 8);
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipGraphLaunch(exec.get(), stream));
  CHECK(total.read() == expected_sum(8));
}

hipStreamCaptureStatus status_of(hipStream_t stream) {
  hipStreamCaptureStatus status{};
  HIP_CHECK(hipStreamIsCapturing(stream, &status));
  return status;
}

}  // namespace

TEST_SUITE_BEGIN("captures");

#ifdef SCENARIO_CAPTURES_CAN_BE_KILLED
TEST_CASE("a capture that was killed ends once with 901, and the stream captures again") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  for (const auto mode :
       {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed}) {
    HIP_CHECK(hipStreamBeginCapture(stream.get(), mode));
    kill_captures();
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream.get(), &graph) == hipErrorStreamCaptureInvalidated);
    CHECK(status_of(stream.get()) == hipStreamCaptureStatusNone);
    CHECK(hipStreamEndCapture(stream.get(), &graph) == hipErrorIllegalState);
    check_works(stream.get());
  }
}
#endif

#ifdef SCENARIO_CAPTURES_CAN_BE_KILLED
TEST_CASE("forks of a killed capture are free again") {
  const apps::Stream origin = apps::make_non_blocking_stream();
  const apps::Stream side = apps::make_non_blocking_stream();
  const apps::Event fork = apps::make_ordering_event();
  HIP_CHECK(hipStreamBeginCapture(origin.get(), hipStreamCaptureModeGlobal));
  HIP_CHECK(hipEventRecord(fork.get(), origin.get()));
  HIP_CHECK(hipStreamWaitEvent(side.get(), fork.get(), 0));
  kill_captures();
  hipGraph_t graph = nullptr;
  CHECK(hipStreamEndCapture(origin.get(), &graph) != hipSuccess);
  CHECK(status_of(side.get()) == hipStreamCaptureStatusNone);
  check_works(side.get());
  check_works(origin.get());
}
#endif

TEST_CASE("ended twice, never begun, on a fork, by nobody") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  hipGraph_t graph = nullptr;
  CHECK(hipStreamEndCapture(stream.get(), &graph) == hipErrorIllegalState);
  {
    const DeviceValue total;
    const apps::Graph good = capture_sum(stream.get(), total, 1);
  }
  CHECK(hipStreamEndCapture(stream.get(), &graph) == hipErrorIllegalState);
  CHECK(hipStreamEndCapture(stream.get(), nullptr) != hipSuccess);

  const apps::Stream side = apps::make_non_blocking_stream();
  const apps::Event fork = apps::make_ordering_event();
  const apps::Graph forked = capture(stream.get(), [&] {
    HIP_CHECK(hipEventRecord(fork.get(), stream.get()));
    HIP_CHECK(hipStreamWaitEvent(side.get(), fork.get(), 0));
    CHECK(hipStreamEndCapture(side.get(), &graph) == hipErrorStreamCaptureUnmatched);
  });
  check_works(stream.get());
}

TEST_CASE("another thread may end only a relaxed capture") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const auto end_elsewhere = [&] {
    hipError_t result{};
    std::thread([&] {
      hipGraph_t graph = nullptr;
      result = hipStreamEndCapture(stream.get(), &graph);
      if (result == hipSuccess) HIP_CHECK(hipGraphDestroy(graph));
    }).join();
    return result;
  };
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal}) {
    HIP_CHECK(hipStreamBeginCapture(stream.get(), mode));
    CHECK(end_elsewhere() == hipErrorStreamCaptureWrongThread);
    hipGraph_t graph = nullptr;
    HIP_CHECK(hipStreamEndCapture(stream.get(), &graph));
    HIP_CHECK(hipGraphDestroy(graph));
  }
  HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed));
  CHECK(end_elsewhere() == hipSuccess);
  check_works(stream.get());
}

TEST_CASE("a wrong mode and a second begin are refused as natively") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  CHECK(hipStreamBeginCapture(stream.get(), static_cast<hipStreamCaptureMode>(7)) ==
        hipErrorInvalidValue);
  CHECK(hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal) ==
        hipErrorStreamCaptureUnsupported);
  const apps::Graph graph = capture(stream.get(), [&] {
    CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal) == hipErrorIllegalState);
  });
  check_works(stream.get());
}

TEST_CASE("allocations by anybody leave a capture of any mode alone") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  for (const auto mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal}) {
    HIP_CHECK(hipStreamBeginCapture(stream.get(), mode));
    const apps::DeviceMemory own = apps::allocate_device_memory(1000);
    std::thread([] { const apps::DeviceMemory other = apps::allocate_device_memory(1000); }).join();
    CHECK(status_of(stream.get()) == hipStreamCaptureStatusActive);
    hipGraph_t graph = nullptr;
    HIP_CHECK(hipStreamEndCapture(stream.get(), &graph));
    HIP_CHECK(hipGraphDestroy(graph));
  }
}

TEST_CASE("a fork that the program forgot to join") {
  const apps::Stream origin = apps::make_non_blocking_stream();
  const apps::Stream side = apps::make_non_blocking_stream();
  const apps::Event fork = apps::make_ordering_event();
  const DeviceValue total;
  HIP_CHECK(hipStreamBeginCapture(origin.get(), hipStreamCaptureModeGlobal));
  auto* block = allocate_async<std::uint32_t>(kCells, origin.get());
  HIP_CHECK(hipEventRecord(fork.get(), origin.get()));
  HIP_CHECK(hipStreamWaitEvent(side.get(), fork.get(), 0));
  launch_fill(block, kCells, 2, side.get());
  launch_sum(total.get(), block, kCells, side.get());
  hipGraph_t handle = nullptr;
  const hipError_t ended = hipStreamEndCapture(origin.get(), &handle);
  const char* join = std::getenv("HIPGRAFT_JOIN");
  if (join != nullptr && std::string(join) == "off") {
    CHECK(ended == hipErrorStreamCaptureUnjoined);
    CHECK(handle == nullptr);
  } else {
    REQUIRE(ended == hipSuccess);
    const apps::Graph graph(handle);
    const apps::GraphExec exec = apps::instantiate(graph);
    HIP_CHECK(hipGraphLaunch(exec.get(), origin.get()));
    CHECK(total.read() == expected_sum(2));
    HIP_CHECK(hipFree(block));
  }
  CHECK(status_of(side.get()) == hipStreamCaptureStatusNone);
  check_works(side.get());
  check_works(origin.get());
}

TEST_CASE("a leaf that the program adds by hand needs no join") {
  const apps::Stream origin = apps::make_non_blocking_stream();
  const apps::Stream side = apps::make_non_blocking_stream();
  const apps::Event fork = apps::make_ordering_event();
  const apps::Event join = apps::make_ordering_event();
  const DeviceValue value;
  const apps::Graph graph = capture(origin.get(), [&] {
    HIP_CHECK(hipEventRecord(fork.get(), origin.get()));
    HIP_CHECK(hipStreamWaitEvent(side.get(), fork.get(), 0));
    launch_fill(value.get(), 1, 1, side.get());
    HIP_CHECK(hipEventRecord(join.get(), side.get()));
    HIP_CHECK(hipStreamWaitEvent(origin.get(), join.get(), 0));
    hipStreamCaptureStatus status{};
    hipGraph_t capturing = nullptr;
    HIP_CHECK(
        hipStreamGetCaptureInfo_v2(origin.get(), &status, nullptr, &capturing, nullptr, nullptr));
    hipMemsetParams params{};
    params.dst = value.get();
    params.elementSize = 1;
    params.width = 4;
    params.height = 1;
    hipGraphNode_t node = nullptr;
    HIP_CHECK(hipGraphAddMemsetNode(&node, capturing, nullptr, 0, &params));
  });
  CHECK(node_types(graph.get()).size() == 2);
}

TEST_CASE("a fork that is destroyed in the capture keeps its nodes") {
  const apps::Stream origin = apps::make_non_blocking_stream();
  const apps::Event fork = apps::make_ordering_event();
  const DeviceValue total;
  hipStream_t side = nullptr;
  HIP_CHECK(hipStreamCreateWithFlags(&side, hipStreamNonBlocking));
  const DeviceValue value;
  HIP_CHECK(hipStreamBeginCapture(origin.get(), hipStreamCaptureModeGlobal));
  HIP_CHECK(hipEventRecord(fork.get(), origin.get()));
  HIP_CHECK(hipStreamWaitEvent(side, fork.get(), 0));
  launch_fill(value.get(), 1, 41, side);
  const apps::Event join = apps::make_ordering_event();
  HIP_CHECK(hipEventRecord(join.get(), side));
  HIP_CHECK(hipStreamWaitEvent(origin.get(), join.get(), 0));
  hipGraph_t handle = nullptr;
  HIP_CHECK(hipStreamEndCapture(origin.get(), &handle));
  HIP_CHECK(hipStreamDestroy(side));
  const apps::Graph graph(handle);
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipGraphLaunch(exec.get(), origin.get()));
  CHECK(value.read() == 41);
}

TEST_CASE("sizes that no device has take nothing from it") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  return_idle_memory();
  const std::uint64_t before = agent_device_bytes();
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - 100, ~std::size_t{0} - 5000}) {
    HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed));
    void* block = nullptr;
    static_cast<void>(hipMallocAsync(&block, bytes, stream.get()));
    void* good = allocate_async<char>(100, stream.get());
    CHECK(good != block);
    HIP_CHECK(hipFreeAsync(good, stream.get()));
    hipGraph_t graph = nullptr;
    HIP_CHECK(hipStreamEndCapture(stream.get(), &graph));
    HIP_CHECK(hipGraphDestroy(graph));
  }
  static_cast<void>(hipGetLastError());
  return_idle_memory();
  CHECK(settled_device_bytes(before) <= before);
}

TEST_CASE("the origin is destroyed while it captures") {
  hipStream_t stream = nullptr;
  HIP_CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  HIP_CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  allocate_async<char>(10'000, stream);
  HIP_CHECK(hipStreamDestroy(stream));
  const apps::Stream next = apps::make_non_blocking_stream();
  check_works(next.get());
}

#if HIP_VERSION >= 60100000  // hipStreamBeginCaptureToGraph is new in 6.1
TEST_CASE("captures into a graph that exists") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const DeviceValue total;
  hipGraph_t handle = nullptr;
  HIP_CHECK(hipGraphCreate(&handle, 0));
  const apps::Graph graph(handle);
  for (std::uint32_t value : {1U, 2U}) {
    HIP_CHECK(hipStreamBeginCaptureToGraph(stream.get(), graph.get(), nullptr, nullptr, 0,
                                           hipStreamCaptureModeGlobal));
    auto* block = allocate_async<std::uint32_t>(kCells, stream.get());
    launch_fill(block, kCells, value, stream.get());
    HIP_CHECK(hipFreeAsync(block, stream.get()));
    hipGraph_t same = nullptr;
    HIP_CHECK(hipStreamEndCapture(stream.get(), &same));
    CHECK(same == graph.get());
  }
  CHECK(node_types(graph.get()).size() == 2);
  CHECK(memory_nodes(graph.get()) == 0);
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
  HIP_CHECK(hipStreamSynchronize(stream.get()));
}
#endif

TEST_CASE("the thread's last error is left alone") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  static_cast<void>(hipGetLastError());  // of the cases before
  check_works(stream.get());
  CHECK(hipPeekAtLastError() == hipSuccess);

  // An error of the program's, then a whole capture: that hides it where success natively does.
  void* memory = nullptr;
  CHECK(hipMalloc(&memory, ~std::size_t{0} / 2) != hipSuccess);
  const hipError_t pending = hipPeekAtLastError();
  CHECK(pending != hipSuccess);
  HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal));
  void* block = allocate_async<char>(100, stream.get());
  HIP_CHECK(hipFreeAsync(block, stream.get()));
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamEndCapture(stream.get(), &graph));
  HIP_CHECK(hipGraphDestroy(graph));
  CHECK(hipGetLastError() == (HIP_VERSION_MAJOR >= 7 ? pending : hipSuccess));
  CHECK(hipGetLastError() == hipSuccess);

  // Errors that hipgraft gives itself are last errors like any other.
  HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeGlobal));
  block = allocate_async<char>(100, stream.get());
  HIP_CHECK(hipFreeAsync(block, stream.get()));
  CHECK(hipFreeAsync(block, stream.get()) == hipErrorInvalidValue);
  CHECK(hipPeekAtLastError() == hipErrorInvalidValue);
  CHECK(hipGetLastError() == hipErrorInvalidValue);
  CHECK(hipGetLastError() == hipSuccess);
  HIP_CHECK(hipStreamEndCapture(stream.get(), &graph));
  HIP_CHECK(hipGraphDestroy(graph));
}

TEST_CASE("zero bytes and no pointer are answered as natively") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::Graph graph = capture(stream.get(), [&] {
    void* block = &block;
    CHECK(hipMallocAsync(&block, 0, stream.get()) == hipSuccess);
    CHECK(block == nullptr);
    CHECK(hipMallocAsync(nullptr, 8, stream.get()) == hipErrorInvalidValue);
  });
  CHECK(node_types(graph.get()).empty());
}

TEST_CASE("what succeeds leaves the last error that it leaves natively") {
  // Before HIP 7 success is the last error of each of these; from then on errors stay.
  const hipError_t expected = HIP_VERSION_MAJOR >= 7 ? hipErrorInvalidDevice : hipSuccess;
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::Event event = apps::make_ordering_event();
  const auto last_error_of = [&](auto call) {
    CHECK(hipSetDevice(1000) == hipErrorInvalidDevice);
    CHECK(call() == hipSuccess);
    return hipGetLastError();
  };
  hipGraph_t captured = nullptr;
  CHECK(last_error_of([&] {
          return hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed);
        }) == expected);
  auto* block = allocate_async<std::uint32_t>(kCells, stream.get());
  HIP_CHECK(hipMemsetAsync(block, 0, kCells, stream.get()));
  HIP_CHECK(hipEventRecord(event.get(), stream.get()));
  hipStream_t fork = nullptr;
  HIP_CHECK(hipStreamCreateWithFlags(&fork, hipStreamNonBlocking));
  CHECK(last_error_of([&] { return hipStreamWaitEvent(fork, event.get(), 0); }) == expected);
  CHECK(last_error_of([&] { return hipStreamDestroy(fork); }) == expected);
  HIP_CHECK(hipFreeAsync(block, stream.get()));
  CHECK(last_error_of([&] { return hipStreamEndCapture(stream.get(), &captured); }) == expected);
  const apps::Graph graph(captured);
  const apps::GraphExec exec = apps::instantiate(graph);
  const apps::Stream other = apps::make_non_blocking_stream();
  for (const hipStream_t on : {stream.get(), other.get(), stream.get()}) {
    CHECK(last_error_of([&] { return hipGraphLaunch(exec.get(), on); }) == expected);
  }
}

TEST_SUITE_END();

// Run with HIPGRAFT_ARENA_LIMIT=4M.
TEST_SUITE_BEGIN("limit");

TEST_CASE("at the limit the call fails and the capture lives") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  int untouched = 0;
  const apps::Graph graph = capture(stream.get(), [&] {
    void* block = allocate_async<char>(3 << 20, stream.get());
    void* none = &untouched;
    CHECK(hipMallocAsync(&none, 2 << 20, stream.get()) == hipErrorOutOfMemory);
    CHECK(none == &untouched);
    CHECK(hipGetLastError() == hipErrorOutOfMemory);
    CHECK(status_of(stream.get()) == hipStreamCaptureStatusActive);
    launch_fill(static_cast<std::uint32_t*>(block), kCells, 0, stream.get());
    HIP_CHECK(hipFreeAsync(block, stream.get()));
  });
  CHECK(node_types(graph.get()).size() == 1);
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
  HIP_CHECK(hipStreamSynchronize(stream.get()));
}

TEST_CASE("idle memory makes room at the limit") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  for (const std::size_t bytes :
       {std::size_t{3} << 19, std::size_t{3} << 20, std::size_t{31} << 17}) {
    capture(stream.get(), [&] {
      void* block = allocate_async<char>(bytes, stream.get());
      HIP_CHECK(hipFreeAsync(block, stream.get()));
    });
  }
}

TEST_SUITE_END();

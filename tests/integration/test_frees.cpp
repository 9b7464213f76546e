// Blocks that the capture does not free are the program's, until it frees them in whatever way.
#include "scenario.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // hipFreeHost frees all the same

using namespace scenario;

namespace {

// A graph that writes value, value + 1, ... into a block that outlives it.
struct Escaped {
  explicit Escaped(hipStream_t on, std::uint32_t value) : stream(on) {
    graph = capture(stream, [&] {
      block = allocate_async<std::uint32_t>(kCells, stream);
      launch_fill(block, kCells, value, stream);
    });
    exec = apps::instantiate(graph);
  }

  std::uint32_t read_first() const {
    std::uint32_t first = 0;
    HIP_CHECK(hipMemcpyAsync(&first, block, sizeof first, hipMemcpyDeviceToHost, stream));
    HIP_CHECK(hipStreamSynchronize(stream));
    return first;
  }

  hipStream_t stream;
  std::uint32_t* block = nullptr;
  apps::Graph graph;
  apps::GraphExec exec;
};

}  // namespace

TEST_SUITE_BEGIN("frees");

TEST_CASE("an escaped block can be read after graph and exec are gone") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  std::uint32_t* block = nullptr;
  {
    Escaped escaped(stream.get(), 77);
    HIP_CHECK(hipGraphLaunch(escaped.exec.get(), stream.get()));
    block = escaped.block;
    escaped.graph = {};
    escaped.exec = {};
    const DeviceValue total;
    const apps::Graph other = capture_sum(stream.get(), total, 1);
    const apps::GraphExec exec = apps::instantiate(other);
    HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
    CHECK(escaped.read_first() == 77);
  }
  CHECK(hipFree(block) == hipSuccess);
}

TEST_CASE("every call that frees, frees the block and nothing else") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  Escaped kept(stream.get(), 11);
  HIP_CHECK(hipGraphLaunch(kept.exec.get(), stream.get()));
  hipError_t (*const by_pointer[])(void*) = {
      [](void* block) { return hipFree(block); },
      [](void* block) { return hipHostFree(block); },
      [](void* block) { return hipFreeHost(block); },
      [](void* block) { return hipFreeAsync(block, nullptr); },
      [](void* block) { return hipFreeAsync(block, hipStreamPerThread); },
  };
  for (const auto free_block : by_pointer) {
    Escaped escaped(stream.get(), 22);
    HIP_CHECK(hipGraphLaunch(escaped.exec.get(), stream.get()));
    CHECK(free_block(escaped.block) == hipSuccess);
    CHECK(free_block(escaped.block) == hipErrorInvalidValue);
    CHECK(kept.read_first() == 11);
  }
  CHECK(hipFreeAsync(kept.block, stream.get()) == hipSuccess);
}

TEST_CASE("what is not the start of a block is refused and harms nobody") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  Escaped escaped(stream.get(), 33);
  HIP_CHECK(hipGraphLaunch(escaped.exec.get(), stream.get()));
  CHECK(hipFree(escaped.block + 1) == hipErrorInvalidValue);
  CHECK(hipFreeAsync(escaped.block + 1, stream.get()) == hipErrorInvalidValue);
  CHECK(hipHostFree(escaped.block + 1) == hipErrorInvalidValue);
  CHECK(hipHostUnregister(escaped.block) == hipErrorHostMemoryNotRegistered);
  CHECK(hipIpcCloseMemHandle(escaped.block) == hipErrorInvalidValue);
  CHECK(escaped.read_first() == 33);
  HIP_CHECK(hipFree(escaped.block));
}

TEST_CASE("a graph allocates its block again at each launch") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  Escaped escaped(stream.get(), 44);
  for (int i = 0; i < 5; ++i) {
    HIP_CHECK(hipGraphLaunch(escaped.exec.get(), stream.get()));
    CHECK(escaped.read_first() == 44);
    CHECK(hipFreeAsync(escaped.block, stream.get()) == hipSuccess);
    CHECK(hipFreeAsync(escaped.block, stream.get()) == hipErrorInvalidValue);
  }
}

TEST_CASE("a later capture may free the block of an earlier one") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const DeviceValue total;
  Escaped maker(stream.get(), 6);
  const apps::Graph user = capture(stream.get(), [&] {
    launch_sum(total.get(), maker.block, kCells, stream.get());
    HIP_CHECK(hipFreeAsync(maker.block, stream.get()));
  });
  CHECK(memory_nodes(user.get()) == 0);
  const apps::GraphExec user_exec = apps::instantiate(user);
  for (int i = 0; i < 3; ++i) {
    HIP_CHECK(hipGraphLaunch(maker.exec.get(), stream.get()));
    HIP_CHECK(hipGraphLaunch(user_exec.get(), stream.get()));
  }
  CHECK(total.read() == 3 * expected_sum(6));
  CHECK(hipFree(maker.block) == hipErrorInvalidValue);
}

TEST_CASE("memory is back when the last block is freed") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  return_idle_memory();
  const std::uint64_t before = settled_device_bytes(0);
  std::uint32_t* block = nullptr;
  {
    Escaped escaped(stream.get(), 1);
    HIP_CHECK(hipGraphLaunch(escaped.exec.get(), stream.get()));
    block = escaped.block;
  }
  return_idle_memory();
  CHECK(agent_device_bytes() > before);
  HIP_CHECK(hipFree(block));
  return_idle_memory();
  CHECK(settled_device_bytes(before) == before);
}

TEST_CASE("hipFree of a block waits for the device as it always did") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream other = apps::make_non_blocking_stream();
  Escaped escaped(one.get(), 5);
  HIP_CHECK(hipGraphLaunch(escaped.exec.get(), one.get()));
  const DeviceValue faults;
  auto* cells = allocate_async<std::uint32_t>(kCells, other.get());
  HIP_CHECK(hipMemsetAsync(cells, 0, kCells * sizeof *cells, other.get()));
  for (int i = 0; i < 20; ++i) launch_enter(cells, kCells, faults.get(), other.get());
  HIP_CHECK(hipFree(escaped.block));
  CHECK(hipStreamQuery(other.get()) == hipSuccess);
  HIP_CHECK(hipFreeAsync(cells, other.get()));
}

#ifdef SCENARIO_CAPTURES_CAN_BE_KILLED
TEST_CASE("pointers of a capture that failed can be freed") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  HIP_CHECK(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeRelaxed));
  void* block = allocate_async<char>(1000, stream.get());
  kill_captures();
  hipGraph_t graph = nullptr;
  CHECK(hipStreamEndCapture(stream.get(), &graph) != hipSuccess);
  CHECK(hipFreeAsync(block, stream.get()) == hipSuccess);
  CHECK(hipFreeAsync(block, stream.get()) == hipErrorInvalidValue);
}
#endif

TEST_CASE("a free that was captured happens when the graph is launched") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  Escaped escaped(stream.get(), 7);
  HIP_CHECK(hipGraphLaunch(escaped.exec.get(), stream.get()));
  escaped.graph = {};
  escaped.exec = {};
  capture(stream.get(), [&] {
    HIP_CHECK(hipFreeAsync(escaped.block, stream.get()));
    CHECK(hipFreeAsync(escaped.block, stream.get()) == hipErrorInvalidValue);
  });
  HIP_CHECK(hipDeviceSynchronize());
  CHECK(escaped.read_first() == 7);
  CHECK(hipFree(escaped.block) == hipSuccess);
}

TEST_CASE("a block is nobody's before the first launch") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  Escaped escaped(stream.get(), 8);
  CHECK(hipFree(escaped.block) == hipErrorInvalidValue);
  HIP_CHECK(hipGraphLaunch(escaped.exec.get(), stream.get()));
  CHECK(escaped.read_first() == 8);
  CHECK(hipFree(escaped.block) == hipSuccess);
}

TEST_SUITE_END();

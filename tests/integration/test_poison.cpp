// Use of memory that is not allocated, or not written yet, shows.
//
// Run with HIPGRAFT_ARENA=poison.
#include "scenario.h"

using namespace scenario;

TEST_SUITE_BEGIN("poison");

TEST_CASE("fresh and freed blocks read as poison in the graph") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const DeviceValue fresh;
  const DeviceValue written;
  const DeviceValue freed;
  const apps::Graph graph = capture(stream.get(), [&] {
    auto* block = allocate_async<std::uint32_t>(kCells, stream.get());
    const auto copy_last = [&](const DeviceValue& to) {
      HIP_CHECK(hipMemcpyAsync(to.get(), block + kCells - 1, sizeof *block, hipMemcpyDeviceToDevice,
                               stream.get()));
    };
    copy_last(fresh);
    launch_fill(block, kCells, 1, stream.get());
    copy_last(written);
    HIP_CHECK(hipFreeAsync(block, stream.get()));
    copy_last(freed);
  });
  const apps::GraphExec exec = apps::instantiate(graph);
  for (int i = 0; i < 2; ++i) {
    HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
    HIP_CHECK(hipStreamSynchronize(stream.get()));
    CHECK(fresh.read() == 0xffffffff);
    CHECK(written.read() == kCells);
    CHECK(freed.read() == 0xdddddddd);
  }
}

TEST_SUITE_END();

// Blocks on several streams of one capture share bytes only where the captured graph orders them.
//
// Run with SOFTAGENT_KERNEL_US, so that branches that nothing orders do overlap.
#include <algorithm>
#include <array>

#include "scenario.h"

using namespace scenario;

namespace {

constexpr int kBranches = 3;

}  // namespace

TEST_SUITE_BEGIN("forks");

TEST_CASE("branches that may run at once get different bytes") {
  const apps::Stream origin = apps::make_non_blocking_stream();
  std::array<apps::Stream, kBranches> sides;
  std::array<apps::Event, kBranches> joins;
  const DeviceValue faults;
  for (int i = 0; i < kBranches; ++i) {
    sides[i] = apps::make_non_blocking_stream();
    joins[i] = apps::make_ordering_event();
  }
  const apps::Event fork = apps::make_ordering_event();
  const auto turnstile = [&](hipStream_t stream) {
    auto* cells = allocate_async<std::uint32_t>(kCells, stream);
    launch_enter(cells, kCells, faults.get(), stream);
    launch_leave(cells, kCells, faults.get(), stream);
    HIP_CHECK(hipFreeAsync(cells, stream));
    return cells;
  };
  std::vector<std::uint32_t*> blocks;
  const apps::Graph graph = capture(origin.get(), [&] {
    blocks.push_back(turnstile(origin.get()));
    HIP_CHECK(hipEventRecord(fork.get(), origin.get()));
    for (int i = 0; i < kBranches; ++i) {
      HIP_CHECK(hipStreamWaitEvent(sides[i].get(), fork.get(), 0));
      for (int repeat = 0; repeat < 4; ++repeat) blocks.push_back(turnstile(sides[i].get()));
      HIP_CHECK(hipEventRecord(joins[i].get(), sides[i].get()));
    }
    for (int i = 0; i < kBranches; ++i) {
      HIP_CHECK(hipStreamWaitEvent(origin.get(), joins[i].get(), 0));
    }
    blocks.push_back(turnstile(origin.get()));
  });
  CHECK(memory_nodes(graph.get()) == 0);
  // The branches are behind the first block and before the last: its bytes serve one of them, and
  // no more bytes are needed than there are branches.
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  CHECK(blocks.size() == kBranches);

  const apps::GraphExec exec = apps::instantiate(graph);
  for (int i = 0; i < 20; ++i) {
    HIP_CHECK(hipGraphLaunch(exec.get(), origin.get()));
    HIP_CHECK(hipStreamSynchronize(origin.get()));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("a block may be freed on another stream behind a join") {
  const apps::Stream origin = apps::make_non_blocking_stream();
  const apps::Stream side = apps::make_non_blocking_stream();
  const apps::Event fork = apps::make_ordering_event();
  const apps::Event join = apps::make_ordering_event();
  const DeviceValue faults;
  std::uint32_t* first = nullptr;
  std::uint32_t* unordered = nullptr;
  std::uint32_t* ordered = nullptr;
  const apps::Graph graph = capture(origin.get(), [&] {
    first = allocate_async<std::uint32_t>(kCells, origin.get());
    launch_enter(first, kCells, faults.get(), origin.get());
    HIP_CHECK(hipEventRecord(fork.get(), origin.get()));
    HIP_CHECK(hipStreamWaitEvent(side.get(), fork.get(), 0));
    launch_leave(first, kCells, faults.get(), side.get());
    HIP_CHECK(hipFreeAsync(first, side.get()));
    // The origin has not seen that free.
    unordered = allocate_async<std::uint32_t>(kCells, origin.get());
    launch_enter(unordered, kCells, faults.get(), origin.get());
    launch_leave(unordered, kCells, faults.get(), origin.get());
    HIP_CHECK(hipFreeAsync(unordered, origin.get()));
    HIP_CHECK(hipEventRecord(join.get(), side.get()));
    HIP_CHECK(hipStreamWaitEvent(origin.get(), join.get(), 0));
    ordered = allocate_async<std::uint32_t>(kCells, origin.get());
    launch_enter(ordered, kCells, faults.get(), origin.get());
    launch_leave(ordered, kCells, faults.get(), origin.get());
    HIP_CHECK(hipFreeAsync(ordered, origin.get()));
  });
  CHECK(unordered != first);
  CHECK(ordered == first);
  const apps::GraphExec exec = apps::instantiate(graph);
  for (int i = 0; i < 20; ++i) HIP_CHECK(hipGraphLaunch(exec.get(), origin.get()));
  CHECK(faults.read() == 0);
}

TEST_SUITE_END();

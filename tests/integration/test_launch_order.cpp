// Launches that use the same bytes do not overlap, on whatever streams they are.
//
// Run with SOFTAGENT_KERNEL_US, so that launches that nothing orders do overlap.
#include <thread>

#include "scenario.h"

using namespace scenario;

namespace {

constexpr int kRounds = 200;

}  // namespace

TEST_SUITE_BEGIN("launch order");

TEST_CASE("the turnstile notices overlap") {
  // Bytes of the program's own, which nobody orders: the other cases would see nothing otherwise.
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const apps::DeviceMemory memory = apps::allocate_device_memory(kCells * sizeof(std::uint32_t));
  auto* cells = static_cast<std::uint32_t*>(memory.get());
  const apps::Graph graph = capture(one.get(), [&] {
    launch_enter(cells, kCells, faults.get(), one.get());
    launch_leave(cells, kCells, faults.get(), one.get());
  });
  const apps::GraphExec exec = apps::instantiate(graph);
  for (int i = 0; i < kRounds; ++i) {
    HIP_CHECK(hipGraphLaunch(exec.get(), i % 2 == 0 ? one.get() : two.get()));
  }
  CHECK(faults.read() > 100);
}

TEST_CASE("one exec on two streams") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const apps::Graph graph = capture_turnstile(one.get(), faults);
  const apps::GraphExec exec = apps::instantiate(graph);
  for (int i = 0; i < kRounds; ++i) {
    HIP_CHECK(hipGraphLaunch(exec.get(), i % 2 == 0 ? one.get() : two.get()));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("two execs of one graph on two streams") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const apps::Graph graph = capture_turnstile(one.get(), faults);
  const apps::GraphExec first = apps::instantiate(graph);
  const apps::GraphExec second = apps::instantiate(graph);
  for (int i = 0; i < kRounds; ++i) {
    HIP_CHECK(hipGraphLaunch(first.get(), one.get()));
    HIP_CHECK(hipGraphLaunch(second.get(), two.get()));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("exec and clone on two streams") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const apps::Graph graph = capture_turnstile(one.get(), faults);
  hipGraph_t copy = nullptr;
  HIP_CHECK(hipGraphClone(&copy, graph.get()));
  const apps::Graph clone(copy);
  const apps::GraphExec first = apps::instantiate(graph);
  const apps::GraphExec second = apps::instantiate(clone);
  for (int i = 0; i < kRounds; ++i) {
    HIP_CHECK(hipGraphLaunch(first.get(), one.get()));
    HIP_CHECK(hipGraphLaunch(second.get(), two.get()));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("two threads launch two execs of one graph") {
  const DeviceValue faults;
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::Graph graph = capture_turnstile(stream.get(), faults);
  const auto work = [&graph] {
    const apps::Stream own = apps::make_non_blocking_stream();
    const apps::GraphExec exec = apps::instantiate(graph);
    for (int i = 0; i < kRounds; ++i) HIP_CHECK(hipGraphLaunch(exec.get(), own.get()));
    HIP_CHECK(hipStreamSynchronize(own.get()));
  };
  std::thread one(work);
  std::thread two(work);
  one.join();
  two.join();
  CHECK(faults.read() == 0);
}

TEST_CASE("threads launch on their per-thread streams") {
  const DeviceValue faults;
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::Graph graph = capture_turnstile(stream.get(), faults);
  const auto work = [&graph](bool by_spt) {
    const apps::GraphExec exec = apps::instantiate(graph);
    for (int i = 0; i < kRounds / 2; ++i) {
      HIP_CHECK(by_spt ? hipGraphLaunch_spt(exec.get(), nullptr)
                       : hipGraphLaunch(exec.get(), hipStreamPerThread));
    }
  };
  std::thread one(work, true);
  std::thread two(work, false);
  one.join();
  two.join();
  CHECK(faults.read() == 0);
}

TEST_CASE("the first stream is gone, or captures, when the second launches") {
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const apps::Graph graph = capture_turnstile(two.get(), faults);
  const apps::GraphExec exec = apps::instantiate(graph);
  SUBCASE("gone") {
    for (int i = 0; i < 40; ++i) {
      const apps::Stream one = apps::make_non_blocking_stream();
      HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
      HIP_CHECK(hipGraphLaunch(exec.get(), two.get()));
    }
  }
  SUBCASE("captures as the origin") {
    const apps::Stream one = apps::make_non_blocking_stream();
    for (int i = 0; i < 40; ++i) {
      HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
      const apps::Graph empty =
          capture(one.get(), [&] { HIP_CHECK(hipGraphLaunch(exec.get(), two.get())); });
      CHECK(node_types(empty.get()).empty());
    }
  }
  SUBCASE("captures as a fork") {
    const apps::Stream one = apps::make_non_blocking_stream();
    const apps::Stream origin = apps::make_non_blocking_stream();
    const apps::Event fork = apps::make_ordering_event();
    for (int i = 0; i < 40; ++i) {
      HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
      capture(origin.get(), [&] {
        HIP_CHECK(hipEventRecord(fork.get(), origin.get()));
        HIP_CHECK(hipStreamWaitEvent(one.get(), fork.get(), 0));
        HIP_CHECK(hipGraphLaunch(exec.get(), two.get()));
      });
    }
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("a new graph that gets a dead graph's bytes waits for its last launch") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  for (int i = 0; i < 60; ++i) {
    const hipStream_t stream = i % 2 == 0 ? one.get() : two.get();
    const apps::Graph graph = capture_turnstile(stream, faults);
    const apps::GraphExec exec = apps::instantiate(graph);
    HIP_CHECK(hipGraphLaunch(exec.get(), stream));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("an updated exec waits for launches of what it used before") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const apps::Graph first = capture_turnstile(one.get(), faults);
  const apps::GraphExec exec = apps::instantiate(first);
  const apps::GraphExec other = apps::instantiate(first);
  for (int i = 0; i < 20; ++i) {
    const apps::Graph graph = capture_turnstile(one.get(), faults);
    HIP_CHECK(hipStreamSynchronize(one.get()));
    HIP_CHECK(hipStreamSynchronize(two.get()));
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result{};
    HIP_CHECK(hipGraphExecUpdate(exec.get(), graph.get(), &node, &result));
    HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
    HIP_CHECK(hipGraphLaunch(exec.get(), two.get()));
    HIP_CHECK(hipGraphLaunch(other.get(), one.get()));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("a stream is sealed while another thread launches on it") {
  const apps::Stream shared = apps::make_non_blocking_stream();
  const apps::Stream other = apps::make_non_blocking_stream();
  const apps::Stream origin = apps::make_non_blocking_stream();
  const apps::Event event = apps::make_ordering_event();
  const DeviceValue faults;
  const apps::Graph graph = capture_turnstile(shared.get(), faults);
  const apps::GraphExec exec = apps::instantiate(graph);
  HIP_CHECK(hipEventRecord(event.get(), other.get()));
  HIP_CHECK(hipStreamBeginCapture(origin.get(), hipStreamCaptureModeRelaxed));
  std::thread launcher([&] {
    for (int i = 0; i < kRounds; ++i) {
      HIP_CHECK(hipGraphLaunch(exec.get(), shared.get()));
      HIP_CHECK(hipGraphLaunch(exec.get(), other.get()));
    }
  });
  for (int i = 0; i < kRounds; ++i) HIP_CHECK(hipStreamWaitEvent(shared.get(), event.get(), 0));
  launcher.join();
  hipGraph_t empty = nullptr;
  HIP_CHECK(hipStreamEndCapture(origin.get(), &empty));
  HIP_CHECK(hipGraphDestroy(empty));
  CHECK(faults.read() == 0);
}

TEST_CASE("a launch on a capturing stream runs at once, draws nobody in, and is waited for") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const DeviceValue total;
  const apps::Graph graph = capture_turnstile(one.get(), faults);
  const apps::GraphExec exec = apps::instantiate(graph);
  const apps::Graph summing = capture_sum(one.get(), total, 3);
  const apps::GraphExec sum_exec = apps::instantiate(summing);
  for (int i = 0; i < 20; ++i) {
    const apps::Graph empty = capture(one.get(), [&] {
      HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
      HIP_CHECK(hipGraphLaunch(sum_exec.get(), one.get()));
      HIP_CHECK(hipGraphLaunch(exec.get(), two.get()));
      hipStreamCaptureStatus status{};
      HIP_CHECK(hipStreamIsCapturing(two.get(), &status));
      CHECK(status == hipStreamCaptureStatusNone);
    });
    CHECK(node_types(empty.get()).empty());
    HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
    HIP_CHECK(hipStreamSynchronize(one.get()));
    std::uint32_t sum = 0;
    HIP_CHECK(hipMemcpyAsync(&sum, total.get(), sizeof sum, hipMemcpyDeviceToHost, one.get()));
    HIP_CHECK(hipStreamSynchronize(one.get()));
    CHECK(sum == (static_cast<std::uint32_t>(i) + 1) * expected_sum(3));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("an updated exec holds the memory of a graph that is gone") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const apps::GraphExec exec = apps::instantiate(capture_turnstile(one.get(), faults));
  {
    const apps::Graph graph = capture_turnstile(one.get(), faults);
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result{};
    HIP_CHECK(hipGraphExecUpdate(exec.get(), graph.get(), &node, &result));
  }
  std::vector<apps::GraphExec> others;  // one of them would get its bytes
  for (int i = 0; i < 3; ++i) {
    others.push_back(apps::instantiate(capture_turnstile(two.get(), faults)));
  }
  for (int i = 0; i < 20; ++i) {
    HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
    for (const apps::GraphExec& other : others) HIP_CHECK(hipGraphLaunch(other.get(), two.get()));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("a launch waits for what ran on a stream before its capture, also if no exec was left") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  {
    const apps::GraphExec exec = apps::instantiate(capture_turnstile(one.get(), faults));
    HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
  }
  const apps::Graph unrelated = capture(
      one.get(),
      [&] {
        const apps::GraphExec exec = apps::instantiate(capture_turnstile(two.get(), faults));
        HIP_CHECK(hipGraphLaunch(exec.get(), two.get()));
        hipStreamCaptureStatus status{};
        HIP_CHECK(hipStreamIsCapturing(two.get(), &status));
        CHECK(status == hipStreamCaptureStatusNone);
      },
      hipStreamCaptureModeRelaxed);
  CHECK(node_types(unrelated.get()).empty());
  CHECK(faults.read() == 0);
}

TEST_SUITE_END();

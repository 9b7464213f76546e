// Execs that are updated so often that hipgraft renews them, on the runtimes where that is needed.
#include <atomic>

#include "scenario.h"

using namespace scenario;

namespace {

constexpr std::uint32_t kSums = 16;
constexpr int kUntilWorn = 256;  // updates of a graph of so many sums
constexpr int kMany = 1000;
constexpr std::uint64_t kBound = 3U << 20;  // a quarter of what 2,000 updates take on 6.4 and 7.2

struct Updated {
  hipError_t code = hipSuccess;
  hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
  hipGraphNode_t node = nullptr;
};

Updated update(const apps::GraphExec& exec, const apps::Graph& graph) {
  Updated updated;
  updated.code = hipGraphExecUpdate(exec.get(), graph.get(), &updated.node, &updated.result);
  return updated;
}

std::vector<hipGraphNode_t> nodes_of(const apps::Graph& graph) {
  std::size_t count = 0;
  HIP_CHECK(hipGraphGetNodes(graph.get(), nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  HIP_CHECK(hipGraphGetNodes(graph.get(), nodes.data(), &count));
  return nodes;
}

// A stream, a value, and graphs that add to it: `kSums` times a fill and a sum.
struct Summing {
  apps::Stream stream = apps::make_non_blocking_stream();
  apps::DeviceMemory memory = apps::allocate_device_memory(kCells * sizeof(std::uint32_t));
  DeviceValue total;
  std::uint32_t expected = 0;

  apps::Graph capture(std::uint32_t value, std::uint32_t sums = kSums) const {
    auto* cells = static_cast<std::uint32_t*>(memory.get());
    return scenario::capture(stream.get(), [&] {
      for (std::uint32_t i = 0; i < sums; ++i) {
        launch_fill(cells, kCells, value, stream.get());
        launch_sum(total.get(), cells, kCells, stream.get());
      }
    });
  }

  void launch(const apps::GraphExec& exec, std::uint32_t added) {
    HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
    expected += added;
  }

  // Calls `set` with the parameters of a fill, which is a node of such a graph.
  template <class Set>
  void with_value(hipGraphNode_t fill, std::uint32_t value, Set set) {
    void* cells = memory.get();
    std::uint32_t count = kCells;
    void* arguments[] = {&cells, &count, &value};
    hipKernelNodeParams params{};
    HIP_CHECK(hipGraphKernelNodeGetParams(fill, &params));
    params.kernelParams = arguments;
    HIP_CHECK(set(&params));
  }

  // As a program that captures each step anew does.
  void run_steps(const apps::GraphExec& exec, int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto value = static_cast<std::uint32_t>(i);
      REQUIRE(update(exec, capture(value)).code == hipSuccess);
      launch(exec, kSums * expected_sum(value));
      HIP_CHECK(hipStreamSynchronize(stream.get()));
    }
  }
};

// Whether `steps` steps leave the memory as it was, once they have been run twice.
template <class Run>
void check_bounded(Run run) {
  run();
  run();
  HIP_CHECK(hipDeviceSynchronize());
  const std::uint64_t before = agent_device_bytes();
  [[maybe_unused]] const std::uint64_t resident = resident_bytes();
  run();
  run();
  HIP_CHECK(hipDeviceSynchronize());
#if HIP_VERSION_MAJOR != 6  // its update loses 80 bytes a node, which no call gives back
  CHECK(resident_bytes() < resident + kBound);
#endif
  CHECK(settled_device_bytes(before + kBound) < before + kBound);
}

}  // namespace

TEST_SUITE_BEGIN("exec update");

TEST_CASE("for ever, the first graph gone") {
  Summing sums;
  const apps::GraphExec exec = apps::instantiate(sums.capture(0));
  const apps::Graph other = sums.capture(0, 1);  // likely to get its handle
  check_bounded([&] { sums.run_steps(exec, kMany); });
  CHECK(sums.total.read() == sums.expected);
}

TEST_CASE("for ever, the first graph kept") {
  Summing sums;
  const apps::Graph first = sums.capture(0);
  const apps::GraphExec exec = apps::instantiate(first);
  check_bounded([&] { sums.run_steps(exec, kMany); });
  CHECK(sums.total.read() == sums.expected);
}

TEST_CASE("for ever, from one graph that changes") {
  Summing sums;
  const apps::Graph graph = sums.capture(0);
  const apps::GraphExec exec = apps::instantiate(graph);
  const hipGraphNode_t fill = nodes_of(graph)[0];
  std::uint32_t value = 0;
  check_bounded([&] {
    for (int i = 0; i < kMany; ++i) {
      ++value;
      sums.with_value(fill, value, [&](const hipKernelNodeParams* params) {
        return hipGraphKernelNodeSetParams(fill, params);
      });
      REQUIRE(update(exec, graph).code == hipSuccess);
      sums.launch(exec, expected_sum(value) + (kSums - 1) * expected_sum(0));
      HIP_CHECK(hipStreamSynchronize(sums.stream.get()));
    }
  });
  CHECK(sums.total.read() == sums.expected);
}

TEST_CASE("nodes of the first graph still name the exec's") {
  Summing sums;
  const apps::Graph first = sums.capture(0);
  const apps::GraphExec exec = apps::instantiate(first);
  const hipGraphNode_t fill = nodes_of(first)[0];
  for (int round = 0; round < 3; ++round) {
    sums.run_steps(exec, kMany);
    REQUIRE(update(exec, sums.capture(7)).code == hipSuccess);
    sums.with_value(fill, 100, [&](const hipKernelNodeParams* params) {
      return hipGraphExecKernelNodeSetParams(exec.get(), fill, params);
    });
    for (int i = 0; i < 2; ++i) {
      sums.launch(exec, expected_sum(100) + (kSums - 1) * expected_sum(7));
      HIP_CHECK(hipStreamSynchronize(sums.stream.get()));
    }
    CHECK(sums.total.read() == sums.expected);
  }
}

TEST_CASE("a disabled node stays so") {
  Summing sums;
  const apps::Graph first = sums.capture(0);
  const apps::GraphExec exec = apps::instantiate(first);
  const hipGraphNode_t last = nodes_of(first).back();
  sums.run_steps(exec, kUntilWorn - 20);
  HIP_CHECK(hipGraphNodeSetEnabled(exec.get(), last, 0));
  for (int i = 0; i < 40; ++i) {
    REQUIRE(update(exec, sums.capture(3)).code == hipSuccess);
    sums.launch(exec, (kSums - 1) * expected_sum(3));
    HIP_CHECK(hipStreamSynchronize(sums.stream.get()));
  }
  unsigned int enabled = 1;
  HIP_CHECK(hipGraphNodeGetEnabled(exec.get(), last, &enabled));
  CHECK(enabled == 0);
  CHECK(sums.total.read() == sums.expected);
}

TEST_CASE("a graph of another shape is refused as ever") {
  Summing sums;
  const apps::GraphExec exec = apps::instantiate(sums.capture(0));
  sums.run_steps(exec, kMany);
  const apps::Graph same = sums.capture(5);
  REQUIRE(update(exec, same).code == hipSuccess);
  const apps::GraphExec fresh = apps::instantiate(same);
  const apps::Graph larger = sums.capture(9, kSums + 1);
  const Updated expected = update(fresh, larger);
  const Updated refused = update(exec, larger);
  CHECK(expected.code != hipSuccess);
  CHECK(refused.code == expected.code);
  CHECK(hipGetLastError() == expected.code);
  CHECK(refused.result == expected.result);
  CHECK(refused.node == expected.node);
  sums.launch(exec, kSums * expected_sum(5));
  HIP_CHECK(hipStreamSynchronize(sums.stream.get()));
  sums.run_steps(exec, kMany);
  CHECK(sums.total.read() == sums.expected);
}

TEST_CASE("what stands behind an exec goes with it") {
  Summing sums;
  const auto many = [&] {
    for (int i = 0; i < 10; ++i) {
      const apps::GraphExec exec = apps::instantiate(sums.capture(0));
      sums.run_steps(exec, kUntilWorn + 1);
    }
    HIP_CHECK(hipDeviceSynchronize());
  };
  many();
  const std::uint64_t before = settled_device_bytes(0);
  many();
  CHECK(settled_device_bytes(before) == before);
}

#if HIP_VERSION_MAJOR >= 6  // 5.7 launches wait for the host function
TEST_CASE("launches that are under way when the exec is renewed and destroyed go on") {
  Summing sums;
  std::atomic<bool> open{false};
  {
    const apps::GraphExec exec = apps::instantiate(sums.capture(0));
    sums.run_steps(exec, 2 * kUntilWorn - 10);
    HIP_CHECK(hipLaunchHostFunc(
        sums.stream.get(), [](void* gate) { static_cast<std::atomic<bool>*>(gate)->wait(false); },
        &open));
    for (std::uint32_t i = 0; i < 20; ++i) {
      REQUIRE(update(exec, sums.capture(i)).code == hipSuccess);
      sums.launch(exec, kSums * expected_sum(i));
    }
  }
  // What would get the memory of an exec that was destroyed too early.
  std::vector<apps::GraphExec> others;
  for (int i = 0; i < 10; ++i) others.push_back(apps::instantiate(sums.capture(1000)));
  open.store(true);
  open.notify_all();
  CHECK(sums.total.read() == sums.expected);
}
#endif

TEST_CASE("temporaries on two streams by turns") {
  const apps::Stream one = apps::make_non_blocking_stream();
  const apps::Stream two = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const auto capture_many = [&] {
    return capture(one.get(), [&] {
      auto* cells = allocate_async<std::uint32_t>(kCells, one.get());
      for (std::uint32_t i = 0; i < kSums; ++i) {
        launch_enter(cells, kCells, faults.get(), one.get());
        launch_leave(cells, kCells, faults.get(), one.get());
      }
      HIP_CHECK(hipFreeAsync(cells, one.get()));
    });
  };
  const apps::GraphExec exec = apps::instantiate(capture_many());
  for (int i = 0; i < kMany; ++i) {
    const apps::Graph graph = capture_many();
    HIP_CHECK(hipDeviceSynchronize());
    REQUIRE(update(exec, graph).code == hipSuccess);
    HIP_CHECK(hipGraphLaunch(exec.get(), one.get()));
    HIP_CHECK(hipGraphLaunch(exec.get(), two.get()));
  }
  CHECK(faults.read() == 0);
}

TEST_CASE("as an exec that is updated once: every type of node, and a graph inside") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  constexpr std::size_t kBytes = kCells * sizeof(std::uint32_t);
  const apps::DeviceMemory memory = apps::allocate_device_memory(4 * kBytes);
  auto* const cells = static_cast<std::uint32_t*>(memory.get());
  std::uint32_t heard[2] = {};
  const auto around = [&](std::uint32_t variant) {
    return capture(stream.get(), [&] {
      launch_fill(cells, kCells, variant, stream.get());
      HIP_CHECK(hipMemsetAsync(cells + kCells, static_cast<int>(variant), kBytes, stream.get()));
      HIP_CHECK(hipMemcpyAsync(cells + 2 * kCells, cells + variant % 2 * kCells, kBytes,
                               hipMemcpyDeviceToDevice, stream.get()));
      HIP_CHECK(hipLaunchHostFunc(
          stream.get(), [](void* data) { ++*static_cast<std::uint32_t*>(data); },
          &heard[variant % 2]));
    });
  };
  const auto with_inner = [&](std::uint32_t variant) {
    apps::Graph parent = around(variant);
    hipGraphNode_t node = nullptr;
    const apps::Graph inner = capture(
        stream.get(), [&] { launch_fill(cells + 3 * kCells, kCells, variant, stream.get()); });
    HIP_CHECK(hipGraphAddChildGraphNode(&node, parent.get(), nullptr, 0, inner.get()));
    return parent;
  };
  const auto run = [&](const apps::GraphExec& exec) {
    HIP_CHECK(hipMemset(cells, 0, 4 * kBytes));
    HIP_CHECK(hipDeviceSynchronize());
    heard[0] = heard[1] = 0;
    HIP_CHECK(hipGraphLaunch(exec.get(), stream.get()));
    HIP_CHECK(hipStreamSynchronize(stream.get()));
    std::vector<std::uint32_t> seen(4 * kCells);
    HIP_CHECK(hipMemcpy(seen.data(), cells, 4 * kBytes, hipMemcpyDeviceToHost));
    seen.insert(seen.end(), std::begin(heard), std::end(heard));
    return seen;
  };
  const auto compare = [&](const auto& make) {
    const apps::GraphExec often = apps::instantiate(make(0));
    for (std::uint32_t i = 1; i < 2500; ++i) REQUIRE(update(often, make(i)).code == hipSuccess);
    const apps::GraphExec once = apps::instantiate(make(0));
    REQUIRE(update(often, make(7)).code == hipSuccess);
    REQUIRE(update(once, make(7)).code == hipSuccess);
    CHECK(run(often) == run(once));
  };
  compare(around);
  CHECK(heard[1] == 1);
  compare(with_inner);
}

TEST_SUITE_END();

// Of its own, because from then on no exec of the process is renewed.
TEST_SUITE_BEGIN("user objects");

TEST_CASE("an updated exec does not keep the graph's user objects") {
  Summing sums;
  const apps::GraphExec exec = apps::instantiate(sums.capture(0));
  int destroyed = 0;
  for (int i = 0; i < kMany; ++i) {
    const apps::Graph graph = sums.capture(2);
    hipUserObject_t object = nullptr;
    HIP_CHECK(hipUserObjectCreate(
        &object, &destroyed, [](void* count) { ++*static_cast<int*>(count); }, 1,
        hipUserObjectNoDestructorSync));
    HIP_CHECK(hipGraphRetainUserObject(graph.get(), object, 1, hipGraphUserObjectMove));
    REQUIRE(update(exec, graph).code == hipSuccess);
  }
  CHECK(destroyed == kMany);
}

TEST_SUITE_END();

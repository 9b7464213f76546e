// What uses a graph's memory, and when it goes: each way to an exec, each order in which its
// handles are destroyed, each fate of the block, with launches in flight and without. Memory of a
// live exec or of a launch that has not run is nobody else's, and in the end all of it is back.
#include <algorithm>
#include <array>

#include "scenario.h"

using namespace scenario;

namespace {

enum class Way { exec, second_exec, clone, child, update };
enum class Fate { freed, freed_twice, escaped };

struct Case {
  Way way;
  Fate fate;
  bool in_flight;
  std::array<int, 3> order;  // of graph, other, exec
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Way way : {Way::exec, Way::second_exec, Way::clone, Way::child, Way::update}) {
    for (const Fate fate : {Fate::freed, Fate::freed_twice, Fate::escaped}) {
      for (const bool in_flight : {false, true}) {
        std::array<int, 3> order{0, 1, 2};
        do {
          cases.push_back({way, fate, in_flight, order});
        } while (std::next_permutation(order.begin(), order.end()));
      }
    }
  }
  return cases;
}

// An exec that goes in and out of a block, and two more handles that may keep its memory. The
// kernels take a while each (SOFTAGENT_KERNEL_US): whoever else uses the bytes meanwhile is
// counted.
class Subject {
 public:
  Subject(const Case& c, hipStream_t stream, const DeviceValue& faults)
      : case_(c), stream_(stream), faults_(faults) {
    graph_ = capture_block();
    switch (case_.way) {
      case Way::exec:
      case Way::clone:
        make_clone();
        break;
      case Way::second_exec:
        other_exec_ = apps::instantiate(graph_);
        exec_ = apps::instantiate(graph_);
        break;
      case Way::child:
        make_parent();
        break;
      case Way::update:
        make_by_update();
        break;
    }
  }

  void launch() {
    if (exec_.get() == nullptr) return;
    for (int i = 0; i < 3; ++i) HIP_CHECK(hipGraphLaunch(exec_.get(), stream_));
  }

  void destroy(int handle) {
    if (handle == 0) graph_ = {};
    if (handle == 1) other_graph_ = {};
    if (handle == 1) other_exec_ = {};
    if (handle == 2) exec_ = {};
  }

  void free_block() {
    if (case_.fate != Fate::escaped) {
      CHECK(hipFree(block_) == hipErrorInvalidValue);
      return;
    }
    CHECK(hipFreeAsync(block_, stream_) == hipSuccess);
    CHECK(hipFreeAsync(block_, stream_) == hipErrorInvalidValue);
    CHECK(hipFree(block_) == hipErrorInvalidValue);
  }

 private:
  apps::Graph capture_block() {
    return capture(stream_, [&] {
      block_ = allocate_async<std::uint32_t>(kCells, stream_);
      launch_enter(block_, kCells, faults_.get(), stream_);
      launch_leave(block_, kCells, faults_.get(), stream_);
      if (case_.fate == Fate::escaped) return;
      HIP_CHECK(hipFreeAsync(block_, stream_));
      if (case_.fate != Fate::freed_twice) return;
      CHECK(hipFreeAsync(block_, stream_) == hipErrorInvalidValue);
      (void)hipGetLastError();
    });
  }

  void make_clone() {
    hipGraph_t clone = nullptr;
    HIP_CHECK(hipGraphClone(&clone, graph_.get()));
    other_graph_ = apps::Graph(clone);
    exec_ = apps::instantiate(case_.way == Way::clone ? other_graph_ : graph_);
  }

  void make_parent() {
    hipGraph_t parent = nullptr;
    HIP_CHECK(hipGraphCreate(&parent, 0));
    other_graph_ = apps::Graph(parent);
    hipGraphNode_t node = nullptr;
    HIP_CHECK(hipGraphAddChildGraphNode(&node, parent, nullptr, 0, graph_.get()));
    exec_ = apps::instantiate(other_graph_);
  }

  void make_by_update() {
    other_graph_ = std::move(graph_);
    exec_ = apps::instantiate(other_graph_);
    graph_ = capture_block();
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result{};
    HIP_CHECK(hipGraphExecUpdate(exec_.get(), graph_.get(), &node, &result));
  }

  const Case& case_;
  hipStream_t stream_;
  const DeviceValue& faults_;
  std::uint32_t* block_ = nullptr;
  apps::Graph graph_;
  apps::Graph other_graph_;
  apps::GraphExec other_exec_;
  apps::GraphExec exec_;
};

// Captures what would take the subject's bytes if it could, and runs it beside.
void compete(hipStream_t stream, const DeviceValue& faults, std::vector<apps::GraphExec>& rivals) {
  const apps::Graph graph = capture_turnstile(stream, faults);
  rivals.push_back(apps::instantiate(graph));
  for (const apps::GraphExec& rival : rivals) HIP_CHECK(hipGraphLaunch(rival.get(), stream));
}

void run(const Case& c, hipStream_t stream, hipStream_t beside, const DeviceValue& faults) {
  std::vector<apps::GraphExec> rivals;
  Subject subject(c, stream, faults);
  subject.launch();
  for (const int handle : c.order) {
    if (!c.in_flight) HIP_CHECK(hipStreamSynchronize(stream));
    subject.destroy(handle);
    compete(beside, faults, rivals);
    subject.launch();
  }
  subject.free_block();
  compete(beside, faults, rivals);
}

std::uint64_t bytes_left(std::uint64_t expected) {
  HIP_CHECK(hipDeviceSynchronize());
  HIP_CHECK(hipDeviceSynchronize());
  HIP_CHECK(hipDeviceGraphMemTrim(0));
  return settled_device_bytes(expected);
}

}  // namespace

TEST_SUITE_BEGIN("lifetime matrix");

TEST_CASE("memory lives exactly as long as something uses it") {
  const apps::Stream stream = apps::make_non_blocking_stream();
  const apps::Stream beside = apps::make_non_blocking_stream();
  const DeviceValue faults;
  const std::vector<Case> cases = all_cases();
  run(cases.front(), stream.get(), beside.get(), faults);  // what the runtime sets up once
  const std::uint64_t device_bytes = bytes_left(0);
  std::uint64_t resident = 0;
  for (int round = 0; round < 3; ++round) {
    for (const Case& c : cases) {
      CAPTURE(static_cast<int>(c.way));
      CAPTURE(static_cast<int>(c.fate));
      CAPTURE(c.in_flight);
      CAPTURE(c.order[0]);
      CAPTURE(c.order[1]);
      run(c, stream.get(), beside.get(), faults);
      REQUIRE(faults.read() == 0);
      REQUIRE(bytes_left(device_bytes) <= device_bytes);
    }
    if (round == 1) resident = resident_bytes();
  }
  CHECK(resident_bytes() < resident + (1U << 20));
}

TEST_SUITE_END();

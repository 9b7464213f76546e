// Graphs whose memory comes from the arena are right in every order that their edges allow, not
// only in the order in which the runtime happens to run them.
#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "graph_order.h"
#include "scenario.h"

// 5.7 itself refuses launches on a capturing stream that has waited twice for the same node.
#if HIP_VERSION_MAJOR >= 6

using namespace scenario;

namespace {

constexpr std::uint32_t kSeeds = 16;
constexpr std::size_t kStreams = 3;
constexpr std::uint32_t kBlocks = 24;

// What a block was filled with, and the stream that everything done with it precedes.
struct Block {
  std::uint32_t* cells;
  std::uint32_t value;
  std::size_t stream;
};

// Captures a program made up by a seed: blocks are allocated and filled on some stream, later
// summed up and freed on some stream. Each block has a total of its own, so that the blocks have
// nothing to do with each other, except for the bytes that they share.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed)
      : random_(seed), totals_(apps::allocate_device_memory(kBlocks * sizeof(std::uint32_t))) {
    for (apps::Stream& stream : streams_) stream = apps::make_non_blocking_stream();
    graph_ = capture(
        origin(), [&] { work(); }, hipStreamCaptureModeRelaxed);
  }

  [[nodiscard]] hipGraph_t graph() const { return graph_.get(); }
  [[nodiscard]] hipStream_t origin() const { return streams_[0].get(); }
  [[nodiscard]] std::size_t different_addresses() const { return addresses_.size(); }

  template <class Run>
  bool is_right(Run run) {
    HIP_CHECK(hipMemset(totals_.get(), 0, kBlocks * sizeof(std::uint32_t)));
    HIP_CHECK(hipDeviceSynchronize());
    run();
    HIP_CHECK(hipDeviceSynchronize());
    std::array<std::uint32_t, kBlocks> totals{};
    HIP_CHECK(hipMemcpy(totals.data(), totals_.get(), sizeof totals, hipMemcpyDeviceToHost));
    return totals == expected_;
  }

  bool is_right_in_order(std::uint32_t seed) {
    return is_right([&] { graph_order::run_in_random_order(graph(), seed, origin()); });
  }

 private:
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  // Back over the origin only: where two forked streams wait for each other's events, the runtimes'
  // hipStreamEndCapture recurses until the stack is full.
  void order(std::size_t from, std::size_t to) {
    if (from > to && to != 0) {
      wait(from, 0);
      wait(0, to);
    } else if (from != to) {
      wait(from, to);
    }
  }

  void wait(std::size_t from, std::size_t to) {
    events_.push_back(apps::make_ordering_event());
    HIP_CHECK(hipEventRecord(events_.back().get(), streams_[from].get()));
    HIP_CHECK(hipStreamWaitEvent(streams_[to].get(), events_.back().get(), 0));
  }

  void work() {
    for (std::size_t i = 1; i < kStreams; ++i) order(0, i);
    while (begun_ < kBlocks || !live_.empty()) {
      const bool begin = begun_ < kBlocks && (live_.empty() || below(2) == 0);
      if (begin) {
        begin_block();
      } else {
        end_block();
      }
    }
    for (std::size_t i = 1; i < kStreams; ++i) order(i, 0);
  }

  void begin_block() {
    const std::size_t stream = below(kStreams);
    auto* cells = allocate_async<std::uint32_t>(kCells, streams_[stream].get());
    addresses_.insert(cells);
    launch_fill(cells, kCells, ++begun_, streams_[stream].get());
    live_.push_back({cells, begun_, stream});
  }

  void end_block() {
    std::swap(live_[below(live_.size())], live_.back());
    const Block block = live_.back();
    live_.pop_back();
    const std::size_t stream = below(kStreams);
    order(block.stream, stream);
    auto* total = static_cast<std::uint32_t*>(totals_.get()) + block.value - 1;
    launch_sum(total, block.cells, kCells, streams_[stream].get());
    expected_[block.value - 1] = expected_sum(block.value);
    HIP_CHECK(hipFreeAsync(block.cells, streams_[stream].get()));
  }

  std::mt19937 random_;
  apps::DeviceMemory totals_;
  std::array<apps::Stream, kStreams> streams_;
  std::vector<apps::Event> events_;
  std::vector<Block> live_;
  std::uint32_t begun_ = 0;
  std::set<std::uint32_t*> addresses_;
  std::array<std::uint32_t, kBlocks> expected_{};
  apps::Graph graph_;
};

struct Edge {
  hipGraphNode_t from;
  hipGraphNode_t to;
};

std::vector<Edge> edges_of(hipGraph_t graph) {
  std::size_t count = 0;
  HIP_CHECK(hipGraphGetEdges(graph, nullptr, nullptr, &count));
  std::vector<hipGraphNode_t> from(count);
  std::vector<hipGraphNode_t> to(count);
  HIP_CHECK(hipGraphGetEdges(graph, from.data(), to.data(), &count));
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < count; ++i) edges.push_back({from[i], to[i]});
  return edges;
}

bool some_order_is_wrong(RandomProgram& program) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    if (!program.is_right_in_order(seed)) return true;
  }
  return false;
}

}  // namespace

TEST_SUITE_BEGIN("random order");

TEST_CASE("programs on three streams") {
  std::size_t reused = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    RandomProgram program(seed);
    REQUIRE(memory_nodes(program.graph()) == 0);
    reused += kBlocks - program.different_addresses();
    for (std::uint32_t order = 0; order < kSeeds; ++order) {
      CAPTURE(order);
      REQUIRE(program.is_right_in_order(order));
    }
    const apps::Graph child = [&] {
      hipGraph_t graph = nullptr;
      HIP_CHECK(hipGraphClone(&graph, program.graph()));
      return apps::Graph(graph);
    }();
    const apps::GraphExec exec = apps::instantiate(child);
    CHECK(program.is_right([&] { HIP_CHECK(hipGraphLaunch(exec.get(), program.origin())); }));
  }
  CHECK(reused > 0);  // else the order would not matter
}

TEST_CASE("an edge that is missing is noticed") {
  // Not each edge is needed, but most are.
  RandomProgram program(1);
  std::size_t noticed = 0;
  const std::vector<Edge> edges = edges_of(program.graph());
  for (const Edge& edge : edges) {
    HIP_CHECK(hipGraphRemoveDependencies(program.graph(), &edge.from, &edge.to, 1));
    noticed += some_order_is_wrong(program);
    HIP_CHECK(hipGraphAddDependencies(program.graph(), &edge.from, &edge.to, 1));
  }
  CAPTURE(edges.size());
  CHECK(noticed > edges.size() / 4);
  CHECK_FALSE(some_order_is_wrong(program));
}

TEST_SUITE_END();

#endif

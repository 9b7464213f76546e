// The harness that runs a graph's nodes in random order: finds missing edges, and only those.
#include <algorithm>
#include <stdexcept>

#include "graph_order.h"
#include "selftest.h"

namespace {

constexpr uint32_t seeds = 40;
constexpr int cells = 256;

struct Ints : Device<int> {
  Ints() : Device<int>(cells) {}
};

// memset, then +1 on one branch and +10 on the other, joined: first = 3 * first + second.
struct Diamond {
  Ints first, second;
  Stream stream, side;
  Graph graph;

  Diamond() {
    hipEvent_t forked, joined;
    HIP(hipEventCreate(&forked));
    HIP(hipEventCreate(&joined));
    graph.graph = capture(stream, [&] {
      HIP(hipMemsetAsync(first.data, 0, cells * sizeof(int), stream));
      HIP(hipMemsetAsync(second.data, 0, cells * sizeof(int), stream));
      HIP(hipEventRecord(forked, stream));
      HIP(hipStreamWaitEvent(side, forked, 0));
      launch(function("add"), 1, cells, stream, first.data, 1, cells);
      launch(function("add"), 1, cells, side, second.data, 10, cells);
      HIP(hipEventRecord(joined, side));
      HIP(hipStreamWaitEvent(stream, joined, 0));
      launch(function("mix"), 1, cells, stream, first.data, second.data, cells);
    });
    HIP(hipEventDestroy(forked));
    HIP(hipEventDestroy(joined));
  }

  bool right(uint32_t seed) {
    graph_order::run_in_random_order(graph.graph, seed, stream);
    stream.sync();
    return first.read() == std::vector<int>(cells, 13);
  }

  // Returns how many edges there were.
  size_t remove_edge(size_t index) {
    size_t count = graph.edges();
    std::vector<hipGraphNode_t> from(count), to(count);
    HIP(hipGraphGetEdges(graph.graph, from.data(), to.data(), &count));
    if (index < count) {
      HIP(hipGraphRemoveDependencies(graph.graph, &from[index], &to[index], 1));
    }
    return count;
  }
};

bool found_wrong(Diamond& diamond) {
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    if (!diamond.right(seed)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("random orders keep all edges, and differ") {
  const std::vector<graph_order::Edge> edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {4, 3}};
  std::vector<std::vector<size_t>> seen;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<size_t> order = graph_order::random_order(5, edges, seed);
    REQUIRE(order.size() == 5);
    const auto place = [&](size_t node) {
      return std::find(order.begin(), order.end(), node) - order.begin();
    };
    for (const auto& [from, to] : edges) REQUIRE(place(from) < place(to));
    CHECK(order == graph_order::random_order(5, edges, seed));
    if (std::find(seen.begin(), seen.end(), order) == seen.end()) seen.push_back(order);
  }
  CHECK(seen.size() == 8);  // all there are
  CHECK_THROWS_AS(graph_order::random_order(2, {{0, 1}, {1, 0}}, 1), std::runtime_error);
}

TEST_CASE("a whole graph is right in every order") {
  Diamond diamond;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    REQUIRE(diamond.right(seed));
  }
}

TEST_CASE("a missing edge shows within some seeds") {
  const size_t edges = Diamond().graph.edges();
  REQUIRE(edges == 5);
  for (size_t removed = 0; removed < edges; ++removed) {
    CAPTURE(removed);
    Diamond diamond;
    diamond.remove_edge(removed);
    // The two memsets need no order between them, but what follows both hangs on the first only
    // by way of the second.
    CHECK(found_wrong(diamond));
  }
}

TEST_CASE("host functions and child graphs run in their place") {
  Ints memory;
  Stream stream;
  std::vector<int> seen;
  struct Look {
    int* memory;
    std::vector<int>* seen;
  } look{memory.data, &seen};
  Graph child(capture(stream, [&] {
    launch(function("add"), 1, cells, stream, memory.data, 5, cells);
    launch(function("mix"), 1, cells, stream, memory.data, memory.data, cells);
  }));
  Graph parent;
  HIP(hipGraphCreate(&parent.graph, 0));
  hipMemsetParams fill{};
  fill.dst = memory.data;
  fill.elementSize = 4;
  fill.value = 1;
  fill.width = cells;
  fill.height = 1;
  hipHostNodeParams host{};
  host.fn = [](void* data) {
    auto* l = static_cast<Look*>(data);
    l->seen->push_back(*l->memory);
  };
  host.userData = &look;
  hipGraphNode_t filled, first, looked, second;
  HIP(hipGraphAddMemsetNode(&filled, parent.graph, nullptr, 0, &fill));
  HIP(hipGraphAddChildGraphNode(&first, parent.graph, &filled, 1, child.graph));
  HIP(hipGraphAddHostNode(&looked, parent.graph, &first, 1, &host));
  HIP(hipGraphAddChildGraphNode(&second, parent.graph, &looked, 1, child.graph));
  for (uint32_t seed = 0; seed < 10; ++seed) {
    seen.clear();
    graph_order::run_in_random_order(parent.graph, seed, stream);
    stream.sync();
    REQUIRE(seen == std::vector<int>{24});
    REQUIRE(memory.read() == std::vector<int>(cells, 116));
  }
}

TEST_CASE("memset of every element size and of rows") {
  Device<uint8_t> memory(1024);
  Stream stream;
  Graph graph;
  HIP(hipGraphCreate(&graph.graph, 0));
  hipGraphNode_t node;
  hipMemsetParams wide{};
  wide.dst = memory.data;
  wide.elementSize = 2;
  wide.value = 0x0102;
  wide.width = 8;
  wide.height = 1;
  HIP(hipGraphAddMemsetNode(&node, graph.graph, nullptr, 0, &wide));
  hipMemsetParams rows{};
  rows.dst = memory.data + 512;
  rows.elementSize = 1;
  rows.value = 7;
  rows.width = 3;
  rows.height = 4;
  rows.pitch = 64;
  HIP(hipGraphAddMemsetNode(&node, graph.graph, nullptr, 0, &rows));
  HIP(hipMemset(memory.data, 0, 1024));
  HIP(hipDeviceSynchronize());
  graph_order::run_in_random_order(graph.graph, 1, stream);
  stream.sync();
  const auto bytes = memory.read();
  for (size_t i = 0; i < 1024; ++i) {
    const bool in_row = i >= 512 && i < 512 + 4 * 64 && i % 64 < 3;
    REQUIRE(bytes[i] == (i < 16 ? 2 - i % 2 : in_row ? 7 : 0));
  }
}

TEST_CASE("captured copies run, or are refused where HIP does not tell their parameters") {
  Ints from, to;
  Stream stream;
  from.write(std::vector<int>(cells, 9));
  std::vector<int> host(cells);
  Graph graph(capture(stream, [&] {
    HIP(hipMemcpyAsync(to.data, from.data, cells * sizeof(int), hipMemcpyDeviceToDevice, stream));
    HIP(hipMemcpyAsync(host.data(), to.data, cells * sizeof(int), hipMemcpyDeviceToHost, stream));
  }));
  int version = 0;
  HIP(hipRuntimeGetVersion(&version));
  if (version < 70000000) {
    CHECK_THROWS_AS(graph_order::run_in_random_order(graph.graph, 1, stream), std::runtime_error);
    return;
  }
  for (uint32_t seed = 0; seed < 10; ++seed) {
    std::fill(host.begin(), host.end(), 0);
    graph_order::run_in_random_order(graph.graph, seed, stream);
    stream.sync();
    REQUIRE(host == std::vector<int>(cells, 9));
  }
}

TEST_CASE("graphs with memory nodes are refused") {
  Stream stream;
  Graph graph(capture(stream, [&] {
    void* memory = nullptr;
    HIP(hipMallocAsync(&memory, 4096, stream));
    HIP(hipFreeAsync(memory, stream));
  }));
  CHECK_THROWS_AS(graph_order::run_in_random_order(graph.graph, 1, stream), std::runtime_error);
}

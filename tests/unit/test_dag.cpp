#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "dag/mirror.h"
#include "dag/shape.h"

using namespace hipgraft::dag;

namespace {

void add(Mirror& mirror, NodeId node, std::vector<NodeId> dependencies) {
  mirror.add(node, dependencies);
}

// Whether `first` precedes or is `then`.
bool precedes(const Mirror& mirror, NodeId first, NodeId then) {
  const Marks marks = mirror.marks(std::array{first});
  return !marks.never && mirror.frontier(std::array{then}).covers(marks.places[0]);
}

}  // namespace

TEST_CASE("a chain is ordered") {
  Mirror mirror;
  add(mirror, 1, {});
  add(mirror, 2, {1});
  add(mirror, 3, {2});
  CHECK(precedes(mirror, 1, 3));
  CHECK(precedes(mirror, 2, 2));
  CHECK_FALSE(precedes(mirror, 3, 1));
}

TEST_CASE("a fork is not ordered until it is joined") {
  Mirror mirror;
  add(mirror, 1, {});
  add(mirror, 2, {1});
  add(mirror, 3, {1});
  CHECK_FALSE(precedes(mirror, 2, 3));
  CHECK_FALSE(precedes(mirror, 3, 2));
  add(mirror, 4, {2, 3});
  CHECK(precedes(mirror, 2, 4));
  CHECK(precedes(mirror, 3, 4));
}

TEST_CASE("a node that gets the name of a forgotten one is another node") {
  Mirror mirror;
  mirror.add(1, {});
  mirror.add(2, std::vector<NodeId>{1});
  const Frontier behind_first = mirror.frontier(std::vector<NodeId>{2});
  mirror.forget(1);
  CHECK_FALSE(mirror.knows(1));
  mirror.add(3, {});
  mirror.add(1, std::vector<NodeId>{3});
  const Place place = mirror.marks(std::vector<NodeId>{1}).places[0];
  CHECK_FALSE(behind_first.covers(place));
}

TEST_CASE("roots are not ordered") {
  Mirror mirror;
  add(mirror, 1, {});
  add(mirror, 2, {});
  CHECK_FALSE(precedes(mirror, 1, 2));
  CHECK_FALSE(precedes(mirror, 2, 1));
}

TEST_CASE("an empty frontier covers nothing, and no marks are covered by it") {
  Mirror mirror;
  add(mirror, 1, {});
  const std::vector<NodeId> none;
  CHECK_FALSE(mirror.frontier(none).covers(mirror.marks(std::array{NodeId{1}}).places[0]));
  CHECK(mirror.marks(none).places.empty());
}

TEST_CASE("side streams that come and go share chains") {
  Mirror mirror;
  NodeId main = 1;
  add(mirror, main, {});
  for (NodeId i = 0; i < 10 * Mirror::kMaxChains; ++i) {
    const NodeId side = main + 1;
    const NodeId next = main + 2;
    add(mirror, side, {main});
    add(mirror, next, {main, side});
    CHECK(precedes(mirror, side, next));
    main = next;
  }
}

TEST_CASE("beyond the most chains nodes have no place, and the others keep theirs") {
  Mirror mirror;
  for (NodeId node = 1; node <= Mirror::kMaxChains + 5; ++node) add(mirror, node, {});
  const NodeId beyond = Mirror::kMaxChains + 5;
  CHECK(mirror.marks(std::array{beyond}).never);
  add(mirror, 1000, {1});
  CHECK(precedes(mirror, 1, 1000));
}

TEST_CASE("a walk visits each unknown node once, dependencies first, and stops at known ones") {
  const std::vector<std::vector<NodeId>> parents = {{}, {}, {1}, {1}, {2, 3}, {4}};
  int visits = 0;
  const auto dependencies = [&](NodeId node, std::vector<NodeId>& out) {
    ++visits;
    out = parents[node];
    return true;
  };
  std::vector<Seen> seen;
  REQUIRE(walk_unknown(
      std::array<NodeId, 2>{5, 4}, [](NodeId node) { return node == 1; }, dependencies, seen));
  CHECK(visits == 4);
  Mirror mirror;
  add(mirror, 1, {});
  for (const Seen& entry : seen) {
    for (const NodeId parent : entry.dependencies) CHECK(mirror.knows(parent));
    mirror.add(entry.node, entry.dependencies);
  }
  CHECK(mirror.size() == 5);
}

TEST_CASE("a walk gives up on a graph that cannot be read or is none") {
  std::vector<Seen> seen;
  const auto nothing_known = [](NodeId) { return false; };
  CHECK_FALSE(walk_unknown(
      std::array<NodeId, 1>{1}, nothing_known, [](NodeId, std::vector<NodeId>&) { return false; },
      seen));
  CHECK_FALSE(walk_unknown(
      std::array<NodeId, 1>{1}, nothing_known,
      [](NodeId node, std::vector<NodeId>& out) {
        out = {node == 1 ? NodeId{2} : NodeId{1}};
        return true;
      },
      seen));
}

TEST_CASE("shape of a chain, of a diamond and of nothing") {
  const std::vector<Edge> chain = {{0, 1}, {1, 2}};
  Shape shape = measure(3, chain);
  CHECK(shape.edges == 2);
  CHECK(shape.width == 1);
  CHECK(shape.critical_path == 3);

  const std::vector<Edge> diamond = {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}};
  shape = measure(5, diamond);
  CHECK(shape.edges == 6);
  CHECK(shape.width == 3);
  CHECK(shape.critical_path == 3);

  shape = measure(0, {});
  CHECK(shape.edges == 0);
  CHECK(shape.width == 0);
  CHECK(shape.critical_path == 0);
}

TEST_CASE("a node's level is its longest way from a root") {
  const std::vector<Edge> edges = {{0, 1}, {1, 2}, {0, 2}, {2, 3}};
  const Shape shape = measure(4, edges);
  CHECK(shape.critical_path == 4);
  CHECK(shape.width == 1);
}

#include <doctest/doctest.h>

#include <vector>

#include "arena/chunks.h"
#include "arena/region.h"

using namespace hipgraft;
using namespace hipgraft::arena;

namespace {

constexpr Address kBase = 0x10000;
constexpr Bytes kUnit = kAlignment;
constexpr Bytes kRoom = 64 * kUnit;

const OrderedReuse ordered;
const NoReuse never;

// One capture on a few streams, in a chunk of its own.
class Capture {
 public:
  explicit Capture(PlanRef plan = nullptr, const ReuseRule& rule = ordered, Bytes room = kRoom)
      : region(chunks, rule, std::move(plan)) {
    chunks.add({kBase, room});
  }

  // In units from the start of the chunk.
  std::size_t allocate(Bytes units, std::size_t stream = 0) {
    const auto address = region.allocate(units * kUnit, mirror.frontier(terminals[stream]));
    REQUIRE(address);
    return (*address - kBase) / kUnit;
  }
  void free(std::size_t at, std::size_t stream = 0) {
    kernel(stream);
    REQUIRE(region.free(kBase + at * kUnit, mirror.marks(terminals[stream])));
  }
  void kernel(std::size_t stream) {
    const dag::NodeId node = mirror.size() + 1;
    mirror.add(node, terminals[stream]);
    terminals[stream].assign(1, node);
  }
  void wait(std::size_t stream, std::size_t other) {
    terminals[stream].insert(terminals[stream].end(), terminals[other].begin(),
                             terminals[other].end());
    kernel(stream);
  }

  Chunks chunks{true};
  Region region;
  dag::Mirror mirror;
  std::vector<dag::NodeId> terminals[2];
};

// Without a plan the third block does not fit where the first was: 6 units where 4 would do.
std::vector<std::size_t> wasteful(Capture& capture) {
  const auto a = capture.allocate(2);
  const auto b = capture.allocate(1);
  capture.free(a);
  const auto c = capture.allocate(3);
  return {a, b, c};
}

PlanRef wasteful_plan() {
  Capture capture;
  wasteful(capture);
  CHECK(capture.region.high_water() == 6 * kUnit);
  return capture.region.finish();
}

bool apart(std::size_t a, Bytes a_units, std::size_t b, Bytes b_units) {
  return a + a_units <= b || b + b_units <= a;
}

}  // namespace

TEST_CASE("a plan packs what the former capture asked for") {
  const PlanRef plan = wasteful_plan();
  REQUIRE(plan);
  CHECK(plan->total == 4 * kUnit);
  Capture second(plan);
  const auto blocks = wasteful(second);
  CHECK(second.region.high_water() == 4 * kUnit);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CHECK(blocks[i] * kUnit == plan->blocks[i].offset);
  }
  CHECK(second.region.finish() == plan);
}

TEST_CASE("blocks keep their places where packing them saves too little") {
  Capture first;
  const auto a = first.allocate(30);
  const auto b = first.allocate(1);
  first.free(a);
  const auto c = first.allocate(31);  // 61 units, where 32 would do
  first.free(c);
  CHECK(first.region.finish()->total == 32 * kUnit);

  Capture tight;
  const auto d = tight.allocate(1);
  const auto e = tight.allocate(40);
  tight.free(d);
  const auto f = tight.allocate(2);  // 43 units, where 42 would do
  const PlanRef plan = tight.region.finish();
  CHECK(plan->total == 43 * kUnit);
  REQUIRE(plan->blocks.size() == 3);
  CHECK(plan->blocks[0].offset == d * kUnit);
  CHECK(plan->blocks[1].offset == e * kUnit);
  CHECK(plan->blocks[2].offset == f * kUnit);
  CHECK(b == 30);
}

TEST_CASE("a planned capture takes its bytes at once and in one piece") {
  const PlanRef plan = wasteful_plan();
  Chunks chunks(true);
  chunks.add({kBase, 3 * kUnit});
  Region region(chunks, ordered, plan);
  CHECK(region.needed(2 * kUnit) == 4 * kUnit);
  CHECK(region.needed(5 * kUnit) == 5 * kUnit);
  CHECK_FALSE(chunks.has_room(plan->total));
  CHECK_FALSE(region.allocate(2 * kUnit, {}));
  chunks.add({2 * kBase, 4 * kUnit});
  CHECK(chunks.has_room(plan->total));
  const auto first = region.allocate(2 * kUnit, {});
  REQUIRE(first);
  CHECK(*first >= 2 * kBase);
  CHECK_FALSE(chunks.has_room(4 * kUnit));
  CHECK(region.needed(2 * kUnit) == 2 * kUnit);
}

TEST_CASE("a capture that cannot have its plan's bytes does without") {
  Chunks chunks(true);
  chunks.add({kBase, 3 * kUnit});
  Region region(chunks, ordered, wasteful_plan());
  CHECK_FALSE(region.allocate(2 * kUnit, {}));
  region.drop_plan();
  CHECK(region.needed(2 * kUnit) == 2 * kUnit);
  CHECK(region.allocate(2 * kUnit, {}) == kBase);
  CHECK(region.high_water() == 2 * kUnit);
}

TEST_CASE("bytes that a plan reserved and nobody used go back when the capture ends") {
  Capture first;
  first.allocate(2);
  first.allocate(10);
  Capture second(first.region.finish());
  CHECK(second.allocate(2) == 0);
  CHECK(second.region.high_water() == 2 * kUnit);
  CHECK_FALSE(second.chunks.has_room(60 * kUnit));
  const PlanRef plan = second.region.finish();
  CHECK(plan->total == 2 * kUnit);
  CHECK(second.chunks.has_room(62 * kUnit));
  second.region.release({});
  CHECK(second.chunks.has_room(64 * kUnit));
}

TEST_CASE("a plan that is wrong from the first request on reserves nothing") {
  Capture second(wasteful_plan());
  CHECK(second.allocate(1) == 0);
  CHECK(second.region.high_water() == kUnit);
  CHECK(second.chunks.has_room(63 * kUnit));
}

TEST_CASE("a block of another size than planned goes where there is room") {
  Capture second(wasteful_plan());
  const auto a = second.allocate(2);
  const auto b = second.allocate(2);
  CHECK(a != b);
  second.free(a);
  second.allocate(3);
  CHECK(second.region.live().size() == 2);
  CHECK(second.region.finish()->total >= 5 * kUnit);
}

TEST_CASE("more requests than planned are placed as without a plan") {
  Capture second(wasteful_plan());
  const auto blocks = wasteful(second);
  const auto more = second.allocate(2);
  CHECK(more >= 4);
  const PlanRef plan = second.region.finish();
  CHECK(plan->blocks.size() == blocks.size() + 1);
}

TEST_CASE(
    "planned bytes that are alive, or were freed where the stream has not come to, are left "
    "alone") {
  const PlanRef plan = wasteful_plan();
  SUBCASE("still alive") {
    Capture second(plan);
    const auto a = second.allocate(2);
    second.allocate(1);
    CHECK(apart(a, 2, second.allocate(3), 3));
  }
  SUBCASE("freed on a parallel stream") {
    Capture second(plan);
    second.kernel(0);
    second.kernel(1);
    const auto a = second.allocate(2, 1);
    second.allocate(1, 0);
    second.free(a, 1);
    CHECK(apart(a, 2, second.allocate(3, 0), 3));
  }
  SUBCASE("freed on a stream that was waited for") {
    Capture second(plan);
    second.kernel(0);
    second.kernel(1);
    const auto a = second.allocate(2, 1);
    second.allocate(1, 0);
    second.free(a, 1);
    second.wait(0, 1);
    CHECK(second.allocate(3, 0) * kUnit == plan->blocks[2].offset);
  }
}

TEST_CASE("a plan of parallel streams keeps their blocks apart") {
  Capture first;
  first.kernel(0);
  first.kernel(1);
  const auto a = first.allocate(8, 0);
  const auto b = first.allocate(2, 0);
  first.free(a, 0);
  first.free(b, 0);
  const auto c = first.allocate(8, 1);
  CHECK(c >= 10);
  CHECK(first.region.finish()->total == 18 * kUnit);
}

TEST_CASE("without reuse a plan is the sum of the blocks") {
  Capture first(nullptr, never);
  first.free(first.allocate(2));
  first.free(first.allocate(3));
  const PlanRef plan = first.region.finish();
  CHECK(plan->total == 5 * kUnit);
  Capture second(plan, never);
  second.free(second.allocate(2));
  CHECK(second.allocate(3) == 2);
}

TEST_CASE("blocks in several chunks become one piece") {
  Chunks chunks(true);
  chunks.add({kBase, 4 * kUnit});
  chunks.add({8 * kBase, 4 * kUnit});
  Region region(chunks, ordered);
  REQUIRE(region.allocate(3 * kUnit, {}) == kBase);
  REQUIRE(region.allocate(3 * kUnit, {}) == 8 * kBase);
  const PlanRef plan = region.finish();
  CHECK(plan->total == 6 * kUnit);
  CHECK(plan->blocks[1].offset == 3 * kUnit);
}

TEST_CASE("a capture that asked for nothing has no plan, and frees after the end are harmless") {
  Capture none;
  CHECK_FALSE(none.region.finish());
  Capture one;
  const auto a = one.allocate(2);
  CHECK(one.region.finish());
  one.free(a);
  CHECK(one.region.live().empty());
}

TEST_CASE("beyond the limit of packing, blocks keep their places") {
  const auto requests = [](Capture& capture) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < History::kMaxPacked + 10; ++i) {
      const auto a = capture.allocate(2);
      const auto b = capture.allocate(1);
      capture.free(a);
      const auto c = capture.allocate(3);
      places.insert(places.end(), {a, b, c});
      capture.free(b);
      capture.free(c);
    }
    return places;
  };
  Capture first;
  const auto places = requests(first);
  const PlanRef plan = first.region.finish();
  CHECK(plan->total == first.region.high_water());
  Capture second(plan);
  CHECK(requests(second) == places);
  CHECK(second.region.finish() == plan);
}

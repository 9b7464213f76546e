#include <doctest/doctest.h>

#include <array>
#include <iterator>
#include <map>
#include <random>

#include "arena/block_index.h"
#include "arena/chunks.h"
#include "arena/region.h"

using namespace hipgraft;
using namespace hipgraft::arena;

namespace {

constexpr Address kBase = 0x10000;
constexpr Bytes kUnit = kAlignment;

// One stream: each call of `kernel` captures a node behind the former one.
struct Stream {
  dag::Mirror& mirror;
  std::vector<dag::NodeId> terminals = {};

  void kernel(dag::NodeId node) {
    mirror.add(node, terminals);
    terminals.assign(1, node);
  }
  dag::Frontier frontier() const { return mirror.frontier(terminals); }
  dag::Marks marks() const { return mirror.marks(terminals); }
};

const OrderedReuse ordered;

}  // namespace

TEST_CASE("chunks hand out the lowest room and merge what comes back") {
  Chunks chunks(true);
  chunks.add({kBase, 8 * kUnit});
  Fences fences;
  const auto a = chunks.take(3 * kUnit, fences);
  const auto b = chunks.take(5 * kUnit, fences);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->address == kBase);
  CHECK(b->address == kBase + 3 * kUnit);
  CHECK_FALSE(chunks.take(kUnit, fences));
  CHECK(chunks.drop_idle(true).empty());

  chunks.give_back(*b, {});
  chunks.give_back(*a, {});
  const auto whole = chunks.take(8 * kUnit, fences);
  REQUIRE(whole);
  CHECK(whole->address == kBase);
}

TEST_CASE("bytes carry the fences of their former users") {
  Chunks chunks(true);
  chunks.add({kBase, 4 * kUnit});
  Fences none;
  const auto a = chunks.take(2 * kUnit, none);
  const auto b = chunks.take(2 * kUnit, none);
  CHECK(none.empty());
  chunks.give_back(*a, {7, 9});
  chunks.give_back(*b, {3, 7});
  Fences fences;
  REQUIRE(chunks.take(4 * kUnit, fences));
  CHECK(fences == Fences{3, 7, 9});
}

TEST_CASE("neighbouring chunks are never merged") {
  Chunks chunks(true);
  chunks.add({kBase + 4 * kUnit, 4 * kUnit});
  chunks.add({kBase, 4 * kUnit});
  Fences fences;
  CHECK_FALSE(chunks.take(5 * kUnit, fences));
  const auto a = chunks.take(4 * kUnit, fences);
  const auto b = chunks.take(4 * kUnit, fences);
  chunks.give_back(*a, {});
  chunks.give_back(*b, {});
  CHECK_FALSE(chunks.take(5 * kUnit, fences));
  CHECK_FALSE(chunks.take_behind(kBase + 4 * kUnit, kUnit, fences));
}

TEST_CASE("chunks that nobody uses are dropped, with their room") {
  Chunks chunks(true);
  chunks.add({kBase, 4 * kUnit});
  chunks.add({kBase + 100 * kUnit, 4 * kUnit});
  Fences fences;
  const auto held = chunks.take(kUnit, fences);
  const auto dropped = chunks.drop_idle(true);
  REQUIRE(dropped.size() == 1);
  CHECK(dropped[0].address == kBase + 100 * kUnit);
  CHECK_FALSE(chunks.contains(kBase + 100 * kUnit));
  CHECK_FALSE(chunks.take(4 * kUnit, fences));
  chunks.give_back(*held, {});
  CHECK(chunks.drop_idle(true).size() == 1);
  CHECK(chunks.total_bytes() == 0);
}

TEST_CASE("without reuse bytes are spent, and the chunk can still go") {
  Chunks chunks(false);
  chunks.add({kBase, 2 * kUnit});
  Fences fences;
  const auto a = chunks.take(kUnit, fences);
  chunks.give_back(*a, {});
  const auto b = chunks.take(kUnit, fences);
  REQUIRE(b);
  CHECK(b->address == kBase + kUnit);
  CHECK_FALSE(chunks.take(kUnit, fences));
  chunks.give_back(*b, {});
  CHECK(chunks.drop_idle(true).size() == 1);
}

TEST_CASE("on one stream a freed block serves the next request") {
  Chunks chunks(true);
  chunks.add({kBase, 64 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  const auto a = region.allocate(1000, stream.frontier());
  stream.kernel(1);
  REQUIRE(region.free(*a, stream.marks()));
  stream.kernel(2);
  const auto b = region.allocate(900, stream.frontier());
  CHECK(a == b);
  CHECK(region.high_water() == 1024);
  CHECK(region.peak_live() == 1024);
}

TEST_CASE("a parallel stream gets other bytes until it has joined") {
  Chunks chunks(true);
  chunks.add({kBase, 64 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream one{mirror};
  Stream two{mirror};
  one.kernel(1);
  two.kernel(2);
  const auto a = region.allocate(kUnit, one.frontier());
  one.kernel(3);
  region.free(*a, one.marks());
  const auto b = region.allocate(kUnit, two.frontier());
  CHECK(*a != *b);
  two.terminals.push_back(3);
  CHECK(region.allocate(kUnit, two.frontier()) == a);
}

TEST_CASE("neighbours freed at different points are used together by a stream behind both") {
  Chunks chunks(true);
  chunks.add({kBase, 4 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  const auto a = region.allocate(kUnit, stream.frontier());
  const auto b = region.allocate(kUnit, stream.frontier());
  stream.kernel(1);
  region.free(*a, stream.marks());
  stream.kernel(2);
  region.free(*b, stream.marks());
  CHECK(region.allocate(2 * kUnit, stream.frontier()) == a);
  CHECK(region.high_water() == 2 * kUnit);
}

TEST_CASE("a freed tail grows into unheld bytes instead of taking new ones") {
  Chunks chunks(true);
  chunks.add({kBase, 8 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  const auto a = region.allocate(2 * kUnit, stream.frontier());
  stream.kernel(1);
  region.free(*a, stream.marks());
  CHECK(region.allocate(3 * kUnit, stream.frontier()) == a);
  CHECK(region.high_water() == 3 * kUnit);
}

TEST_CASE("a block whose order is unknown is never reused") {
  Chunks chunks(true);
  chunks.add({kBase, 8 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  const auto a = region.allocate(kUnit, stream.frontier());
  stream.kernel(1);
  region.free(*a, dag::Marks{.places = {}, .never = true});
  stream.kernel(2);
  CHECK(region.allocate(kUnit, stream.frontier()) != a);
}

TEST_CASE("a small block does not break a large run if another fits well") {
  Chunks chunks(true);
  chunks.add({kBase, 64 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  const auto large = region.allocate(20 * kUnit, stream.frontier());
  const auto wall = region.allocate(kUnit, stream.frontier());
  const auto small = region.allocate(2 * kUnit, stream.frontier());
  const auto end = region.allocate(kUnit, stream.frontier());
  stream.kernel(1);
  region.free(*large, stream.marks());
  region.free(*small, stream.marks());
  CHECK(region.allocate(2 * kUnit, stream.frontier()) == small);
  CHECK(region.allocate(20 * kUnit, stream.frontier()) == large);
  CHECK(region.free(*wall, stream.marks()));
  CHECK(region.free(*end, stream.marks()));
}

TEST_CASE("frees of what is not alive are told apart") {
  Chunks chunks(true);
  chunks.add({kBase, 8 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  const auto a = region.allocate(kUnit, stream.frontier());
  CHECK_FALSE(region.free(*a + 8, stream.marks()));
  CHECK(region.free(*a, stream.marks()));
  CHECK_FALSE(region.free(*a, stream.marks()));
  CHECK(region.live().empty());
}

TEST_CASE("two captures share a chunk in disjoint extents and give all of it back") {
  Chunks chunks(true);
  chunks.add({kBase, 8 * kUnit});
  dag::Mirror mirror;
  Stream stream{mirror};
  {
    Region one(chunks, ordered);
    Region two(chunks, ordered);
    const auto a = one.allocate(kUnit, stream.frontier());
    const auto b = two.allocate(kUnit, stream.frontier());
    const auto c = one.allocate(kUnit, stream.frontier());
    CHECK(*a != *b);
    CHECK(*b != *c);
    CHECK(one.high_water() == 2 * kUnit);
    one.release({4});
    CHECK(chunks.drop_idle(true).empty());
    Region three(chunks, ordered);
    REQUIRE(three.allocate(kUnit, stream.frontier()) == a);
    CHECK(three.fences() == Fences{4});
    three.release({});
    two.release({});
  }
  CHECK(chunks.drop_idle(true).size() == 1);
}

TEST_CASE("no room is told, and a new chunk helps") {
  Chunks chunks(true);
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  CHECK_FALSE(region.allocate(kUnit, stream.frontier()));
  chunks.add({kBase, 4 * kUnit});
  CHECK(region.allocate(4 * kUnit, stream.frontier()) == kBase);
  CHECK(region.live().size() == 1);
  CHECK(region.live()[0].bytes == 4 * kUnit);
}

TEST_CASE("bytes are the last block's that got them") {
  BlockIndex index;
  const auto start_at = [&](Address address) {
    const auto block = index.around(address);
    return block ? block->address : 0;
  };
  CHECK_FALSE(index.around(kBase));
  index.add(kBase, 8 * kUnit);
  index.add(kBase + 8 * kUnit, 100);
  CHECK(start_at(kBase + 8 * kUnit - 1) == kBase);
  CHECK(start_at(kBase + 8 * kUnit + 99) == kBase + 8 * kUnit);
  CHECK_FALSE(index.around(kBase - 1));
  CHECK_FALSE(index.around(kBase + 8 * kUnit + 100));

  // A block in the middle of the first leaves both its ends, as parts of one block.
  index.add(kBase + 2 * kUnit, kUnit + 1);
  CHECK(start_at(kBase + 2 * kUnit - 1) == kBase);
  CHECK(start_at(kBase + 3 * kUnit) == kBase + 2 * kUnit);
  CHECK_FALSE(index.around(kBase + 3 * kUnit + 1));
  REQUIRE(index.around(kBase + 4 * kUnit));
  CHECK(index.around(kBase + 4 * kUnit)->address == kBase);
  CHECK(index.around(kBase + 4 * kUnit)->bytes == 8 * kUnit);
  CHECK(index.around(kBase + 4 * kUnit)->serial == index.around(kBase)->serial);
  CHECK(index.around(kBase + 2 * kUnit)->serial != index.around(kBase)->serial);

  index.erase({kBase + kUnit, 4 * kUnit});
  CHECK(start_at(kBase + kUnit - 1) == kBase);
  CHECK_FALSE(index.around(kBase + kUnit));
  CHECK_FALSE(index.around(kBase + 5 * kUnit - 1));
  CHECK(start_at(kBase + 5 * kUnit) == kBase);
  index.erase({kBase, 9 * kUnit});
  CHECK_FALSE(index.around(kBase));
  CHECK_FALSE(index.around(kBase + 8 * kUnit));
}

TEST_CASE("chunks count their bytes, those held, and the most of each") {
  Chunks chunks(true);
  Fences fences;
  chunks.add({kBase, 8 * kUnit});
  const auto a = chunks.take(3 * kUnit, fences);
  REQUIRE(a);
  CHECK(chunks.take_behind(a->end(), kUnit, fences));
  CHECK(chunks.held().now == 4 * kUnit);
  chunks.give_back({kBase, 4 * kUnit}, {});
  CHECK(chunks.held().now == 0);
  CHECK(chunks.held().high == 4 * kUnit);
  CHECK(chunks.total().now == 8 * kUnit);
  chunks.add_held({kBase + 16 * kUnit, 2 * kUnit});
  CHECK(chunks.held().now == 2 * kUnit);
  CHECK(chunks.drop_idle(true).size() == 1);
  CHECK(chunks.total().now == 2 * kUnit);
  CHECK(chunks.total().high == 10 * kUnit);
  chunks.forget();
  CHECK(chunks.total().now == 0);
  CHECK(chunks.held().now == 0);
}

TEST_CASE("a stream behind one of two freed neighbours gets that one alone") {
  Chunks chunks(true);
  chunks.add({kBase, 64 * kUnit});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  const auto a = region.allocate(kUnit, stream.frontier());
  const auto b = region.allocate(kUnit, stream.frontier());
  REQUIRE(region.allocate(kUnit, stream.frontier()));  // what is freed cannot grow
  stream.kernel(1);
  region.free(*b, stream.marks());
  Stream behind{mirror, {1}};
  stream.kernel(2);
  region.free(*a, stream.marks());
  CHECK(region.allocate(2 * kUnit, behind.frontier()) != a);
  CHECK(region.allocate(kUnit, behind.frontier()) == b);
  CHECK(region.allocate(kUnit, stream.frontier()) == a);
}

TEST_CASE("among many blocks none overlap") {
  Chunks chunks(true);
  for (Address chunk = 1; chunk <= 6; ++chunk) chunks.add({chunk << 20, 1 << 20});
  Region region(chunks, ordered);
  dag::Mirror mirror;
  Stream stream{mirror};
  std::mt19937 random(3);
  std::map<Address, Bytes> live;
  for (dag::NodeId node = 1; node <= 6000; ++node) {
    if (random() % 4 == 0) stream.kernel(node);
    if (live.size() < 100 || random() % 2 == 0) {
      const Bytes bytes = 1 + random() % 20'000;
      const auto address = region.allocate(bytes, stream.frontier());
      if (!address) continue;
      const auto next = live.lower_bound(*address);
      REQUIRE((next == live.end() || *address + round_up(bytes, kUnit) <= next->first));
      REQUIRE((next == live.begin() ||
               std::prev(next)->first + round_up(std::prev(next)->second, kUnit) <= *address));
      REQUIRE(chunks.chunk_at(*address).end() >= *address + bytes);
      live.emplace(*address, bytes);
    } else {
      auto victim = live.lower_bound((1 << 20) + random() % (6 << 20));
      if (victim == live.end()) victim = live.begin();
      REQUIRE(region.free(victim->first, stream.marks()));
      live.erase(victim);
    }
  }
  REQUIRE(region.live().size() == live.size());
  auto expected = live.begin();
  for (const Region::Live& block : region.live()) {
    CHECK(block.address == expected->first);
    CHECK(block.bytes == expected->second);
    ++expected;
  }
  region.release({});
  CHECK(chunks.drop_idle(true).size() == 6);
}

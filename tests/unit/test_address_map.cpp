#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <random>

#include "arena/address_map.h"

using namespace hipgraft;
using arena::Address;
using arena::AddressMap;

namespace {

bool same(const AddressMap& map, const std::map<Address, std::uint32_t>& expected) {
  auto next = expected.begin();
  bool equal = true;
  map.visit([&](const AddressMap::Entry& entry) {
    equal = next != expected.end() && next->first == entry.address && next->second == entry.number;
    if (equal) ++next;
    return equal;
  });
  return equal && next == expected.end();
}

}  // namespace

TEST_CASE("an address map does what an ordered map does") {
  std::mt19937 random(5);
  AddressMap map;
  std::map<Address, std::uint32_t> expected;
  CHECK(map.at_or_before(100) == nullptr);
  // Grows to a thousand entries, and shrinks to none, a few times.
  for (std::uint32_t step = 0; step < 20'000; ++step) {
    const bool grows = step / 2500 % 2 == 0;
    const Address address = 10 * (1 + random() % 5000);
    const bool known = expected.contains(address);
    if (!known && (grows || random() % 8 == 0)) {
      map.insert(address, step);
      expected.emplace(address, step);
    } else if (!expected.empty() && !grows) {
      auto victim = expected.lower_bound(address);
      if (victim == expected.end()) victim = expected.begin();
      map.erase(victim->first);
      expected.erase(victim);
    }
    if (known && grows && !expected.contains(address + 3)) {
      auto node = expected.extract(address);
      map.move(address, address + 3);
      node.key() = address + 3;
      expected.insert(std::move(node));
    }
    const Address asked = random() % 60'000;
    const auto after = expected.upper_bound(asked);
    const AddressMap::Entry* found = map.at_or_before(asked);
    REQUIRE((found == nullptr) == (after == expected.begin()));
    if (found != nullptr) REQUIRE(found->address == std::prev(after)->first);
    REQUIRE(map.empty() == expected.empty());
    if (step % 500 == 0) REQUIRE(same(map, expected));
  }
  map.clear();
  CHECK(map.empty());
}

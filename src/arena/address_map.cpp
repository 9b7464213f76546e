#include "arena/address_map.h"

#include <algorithm>

namespace hipgraft::arena {
namespace {

// How many of the sorted `items` are at or before `address`. Without branches that nobody can
// predict: these look-ups are most of what an allocation costs.
template <class Item, class AddressOf>
std::size_t count_up_to(const std::vector<Item>& items, Address address, AddressOf address_of) {
  const Item* first = items.data();
  std::size_t count = items.size();
  if (count == 0) return 0;
  while (count > 1) {
    const std::size_t half = count / 2;
    first = address_of(first[half]) <= address ? first + half : first;
    count -= half;
  }
  const auto before = static_cast<std::size_t>(first - items.data());
  return before + (address_of(*first) <= address ? 1 : 0);
}

std::size_t entries_up_to(const std::vector<AddressMap::Entry>& piece, Address address) {
  return count_up_to(piece, address, [](const AddressMap::Entry& entry) { return entry.address; });
}

template <class Item>
auto at(std::vector<Item>& items, std::size_t index) {
  return items.begin() + static_cast<std::ptrdiff_t>(index);
}

}  // namespace

std::size_t AddressMap::piece_of(Address address) const {
  const std::size_t count = count_up_to(lowest_, address, [](Address lowest) { return lowest; });
  return count == 0 ? 0 : count - 1;
}

const AddressMap::Entry* AddressMap::at_or_before(Address address) const {
  if (pieces_.empty()) return nullptr;
  const Piece& piece = pieces_[piece_of(address)];
  const std::size_t count = entries_up_to(piece, address);
  return count == 0 ? nullptr : &piece[count - 1];
}

void AddressMap::insert(Address address, std::uint32_t number) {
  if (pieces_.empty()) {
    pieces_.emplace_back().reserve(kFirstEntries);
    lowest_.push_back(address);
  }
  std::size_t index = piece_of(address);
  if (pieces_[index].size() == kPieceEntries) {
    const auto middle = at(pieces_[index], kPieceEntries / 2);
    Piece upper(middle, pieces_[index].end());
    pieces_[index].erase(middle, pieces_[index].end());
    lowest_.insert(at(lowest_, index + 1), upper.front().address);
    pieces_.insert(at(pieces_, index + 1), std::move(upper));
    if (address >= lowest_[index + 1]) ++index;
  }
  Piece& piece = pieces_[index];
  piece.insert(at(piece, entries_up_to(piece, address)), {address, number});
  lowest_[index] = piece.front().address;
}

void AddressMap::erase(Address address) {
  const std::size_t index = piece_of(address);
  Piece& piece = pieces_[index];
  piece.erase(at(piece, entries_up_to(piece, address) - 1));
  if (!piece.empty()) {
    lowest_[index] = piece.front().address;
  } else if (pieces_.size() > 1) {
    pieces_.erase(at(pieces_, index));
    lowest_.erase(at(lowest_, index));
  }
}

void AddressMap::move(Address from, Address to) {
  const std::size_t index = piece_of(from);
  Piece& piece = pieces_[index];
  piece[entries_up_to(piece, from) - 1].address = to;
  lowest_[index] = piece.front().address;
}

void AddressMap::clear() {
  lowest_.clear();
  pieces_.clear();
}

}  // namespace hipgraft::arena

#include "arena/block_index.h"

#include <iterator>

namespace hipgraft::arena {

// Afterwards no piece goes across `at`.
void BlockIndex::cut(Address at) {
  const auto after = pieces_.upper_bound(at);
  if (after == pieces_.begin()) return;
  const auto before = std::prev(after);
  if (before->first == at || before->second.end <= at) return;
  pieces_.emplace_hint(after, at, before->second);
  before->second.end = at;
}

void BlockIndex::erase(Extent extent) {
  cut(extent.address);
  cut(extent.end());
  pieces_.erase(pieces_.lower_bound(extent.address), pieces_.lower_bound(extent.end()));
}

void BlockIndex::add(Address address, Bytes bytes) {
  erase({address, round_up(bytes, kAlignment)});
  pieces_[address] = Piece{address + bytes, Block{address, bytes, ++serial_}};
}

std::optional<BlockIndex::Block> BlockIndex::around(Address address) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return std::nullopt;
  const Piece& piece = std::prev(after)->second;
  if (address >= piece.end) return std::nullopt;
  return piece.block;
}

}  // namespace hipgraft::arena

// Which block each byte of an arena was handed out in last: what is told to a program that asks
// about a pointer. Unlike a region, it still knows blocks that were freed. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "arena/chunks.h"

namespace hipgraft::arena {

class BlockIndex {
 public:
  struct Block {
    Address address = 0;
    Bytes bytes = 0;           // as asked
    std::uint32_t serial = 0;  // differs from that of every other block, until it wraps
  };

  // A block of `bytes` (not 0) was placed at `address`: it takes the bytes from former blocks.
  void add(Address address, Bytes bytes);
  // The bytes are no block's any more.
  void erase(Extent extent);

  // Nothing between the end of a block and that of its last unit of kAlignment.
  std::optional<Block> around(Address address) const;

 private:
  // What is left of a block: later ones may have taken its bytes in part.
  struct Piece {
    Address end = 0;
    Block block;
  };

  void cut(Address at);

  std::map<Address, Piece> pieces_;  // by their first bytes; disjoint
  std::uint32_t serial_ = 0;
};

}  // namespace hipgraft::arena

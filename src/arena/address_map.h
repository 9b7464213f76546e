// Numbers by address, in the order of the addresses: a sorted array cut into pieces, so that
// neither a look-up nor a change touches more than a few cache lines, however many entries there
// are. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arena/chunks.h"

namespace hipgraft::arena {

class AddressMap {
 public:
  struct Entry {
    Address address = 0;
    std::uint32_t number = 0;
  };

  bool empty() const { return pieces_.empty() || pieces_[0].empty(); }
  // The last entry at or before `address`; null when there is none. Valid until the next change.
  const Entry* at_or_before(Address address) const;

  // `address` must not be there yet.
  void insert(Address address, std::uint32_t number);
  // `address` must be there.
  void erase(Address address);
  // Changes the address of the entry at `from`; no other entry may lie between the two.
  void move(Address from, Address to);

  // Calls `visit(entry)` from the lowest address on until it returns false.
  template <class Visit>
  void visit(Visit visit) const {
    for (const Piece& piece : pieces_) {
      for (const Entry& entry : piece) {
        if (!visit(entry)) return;
      }
    }
  }

  void clear();

 private:
  static constexpr std::size_t kPieceEntries = 64;
  static constexpr std::size_t kFirstEntries = 8;
  using Piece = std::vector<Entry>;

  // The piece that holds, or should hold, `address`. Expects one piece at least.
  std::size_t piece_of(Address address) const;

  std::vector<Address> lowest_;  // of each piece
  // None is empty, but for an only one: maps of few entries come and go without the heap.
  std::vector<Piece> pieces_;
};

}  // namespace hipgraft::arena

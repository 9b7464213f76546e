// The bytes of one region in the order of their addresses, cut into segments: live blocks, freed
// bytes with the marks of their free, and fresh bytes that no block has used.
//
// Freed segments are merged lazily: neighbours with different marks stay apart and are only used
// together by a stream that may use each of them. A union of marks would be needlessly strict.
// What is free between two live blocks is a span; spans are filed by size in classes an eighth
// wide, so that a search looks at few of them.
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "arena/address_map.h"
#include "arena/chunks.h"
#include "arena/reuse_rule.h"

namespace hipgraft::arena {

class Segments {
 public:
  using Id = std::uint32_t;  // of a segment, until it is taken, freed or joined
  struct Block {
    Id id = 0;
    Address address = 0;
    Bytes asked = 0;            // as the program asked
    std::uint32_t request = 0;  // the caller's number
  };
  struct Spot {
    Address address = 0;
    Id id = 0;  // of the segment there
  };

  // Adds fresh bytes. `joins_previous`, `joins_next`: they may be used together with the bytes
  // that end or begin there, which must be known.
  void add(Extent extent, bool joins_previous, bool joins_next);

  // Where bytes for a block of `bytes` may be taken: in a span of the smallest class that has room,
  // so that large spans stay whole for large blocks. Among those the one that was filed last: the
  // lowest address would save a hundredth of the bytes and take twice the time.
  std::optional<Spot> find(Bytes bytes, const Asker& asker) const;
  // The spot at the extent's address, if all its bytes may be used.
  std::optional<Spot> usable(Extent extent, const Asker& asker) const;
  // How many bytes just before `end`, where an extent ends, may be used.
  Bytes usable_before(Address end, const Asker& asker) const;

  // The spot at an address whose bytes are free.
  Spot spot_at(Address address) const { return {address, at_or_before(address)}; }
  // Makes a block of bytes that are usable.
  void take(Spot spot, Bytes bytes, Bytes asked, std::uint32_t request);
  // The block that begins at the address.
  std::optional<Block> block_at(Address address) const;
  // Frees a block. Returns where in marks() its marks are.
  std::uint32_t free(Id block, dag::Marks marks);
  const std::vector<dag::Marks>& marks() const { return marks_; }

  std::vector<Block> blocks() const;  // by address
  Bytes fresh_bytes() const { return fresh_bytes_; }
  // Forgets the fresh bytes, which the caller gives to others. By address.
  std::vector<Extent> drop_fresh();
  void clear();

 private:
  static constexpr Id kNone = ~Id{0};
  // What a segment is when it does not have marks.
  static constexpr std::uint32_t kLive = ~std::uint32_t{0};
  static constexpr std::uint32_t kFresh = kLive - 1;

  struct Segment {
    Address address = 0;
    Bytes bytes = 0;
    Id previous = kNone;  // the neighbour with which bytes may be used together
    Id next = kNone;
    std::uint32_t marks = kFresh;
    Id other_end = kNone;      // of the first and the last of a span: the last and the first
    Id previous_span = kNone;  // of the first of a span: its neighbours in the list of its class
    Id next_span = kNone;
    Bytes span = 0;             // of the first of a span: bytes of all of it
    Bytes asked = 0;            // of a live one
    std::uint32_t request = 0;  // of a live one
    Address end() const { return address + bytes; }
    bool live() const { return marks == kLive; }
  };

  static constexpr std::size_t kClasses = 448;  // for all that an address can reach
  static constexpr std::array<Id, kClasses> none() {
    std::array<Id, kClasses> ids{};
    ids.fill(kNone);
    return ids;
  }

  Id at_or_before(Address address) const;
  Id make(Segment segment);
  void remove(Id id);
  // Cuts a segment in two at `address`, which lies inside. Returns the upper one.
  Id cut(Id id, Address address);
  void join_with_next(Id id);
  bool same_marks(Id a, Id b) const;
  bool usable(const Segment& segment, const Asker& asker) const;

  bool is_free(Id id) const { return id != kNone && !segments_[id].live(); }
  Id first_of_span(Id id) const;
  void file_span(Id first, Id last);
  void unfile_span(Id first);
  // The lowest address of `bytes` usable ones in the span.
  std::optional<Spot> fit(Id first, Bytes bytes, const Asker& asker) const;
  // The same in the spans of a class.
  std::optional<Spot> find_in_class(std::size_t size_class, Bytes bytes, const Asker& asker) const;
  Bytes fresh_part(Id id) const { return segments_[id].marks == kFresh ? segments_[id].bytes : 0; }

  std::vector<Segment> segments_;
  std::vector<Id> unused_;
  AddressMap by_address_;
  std::array<Id, kClasses> spans_ = none();            // by class: the first of its list
  std::array<std::uint64_t, kClasses / 64> filled_{};  // classes that hold spans, a bit each
  std::vector<dag::Marks> marks_;
  Bytes fresh_bytes_ = 0;
};

}  // namespace hipgraft::arena

#include "arena/segments.h"

#include <algorithm>
#include <bit>

namespace hipgraft::arena {
namespace {

// Eight classes for each power of two, in units of the alignment.
std::size_t class_of(Bytes bytes) {
  const std::uint64_t units = bytes / kAlignment;
  if (units < 8) return units;
  const auto power = static_cast<std::size_t>(std::bit_width(units)) - 1;
  return 8 * (power - 2) + ((units >> (power - 3)) & 7);
}

}  // namespace

Segments::Id Segments::at_or_before(Address address) const {
  const AddressMap::Entry* entry = by_address_.at_or_before(address);
  return entry != nullptr ? entry->number : kNone;
}

Segments::Id Segments::make(Segment segment) {
  Id id = static_cast<Id>(segments_.size());
  if (unused_.empty()) {
    segments_.push_back(segment);
  } else {
    id = unused_.back();
    unused_.pop_back();
    segments_[id] = segment;
  }
  if (segment.previous != kNone) segments_[segment.previous].next = id;
  if (segment.next != kNone) segments_[segment.next].previous = id;
  by_address_.insert(segment.address, id);
  return id;
}

void Segments::remove(Id id) {
  const Segment& segment = segments_[id];
  if (segment.previous != kNone) segments_[segment.previous].next = segment.next;
  if (segment.next != kNone) segments_[segment.next].previous = segment.previous;
  by_address_.erase(segment.address);
  unused_.push_back(id);
}

Segments::Id Segments::cut(Id id, Address address) {
  Segment upper = segments_[id];
  segments_[id].bytes = address - upper.address;
  upper.bytes = upper.end() - address;
  upper.address = address;
  upper.previous = id;
  return make(upper);
}

void Segments::join_with_next(Id id) {
  const Id next = segments_[id].next;
  segments_[id].bytes += segments_[next].bytes;
  remove(next);
}

bool Segments::same_marks(Id a, Id b) const {
  const std::uint32_t one = segments_[a].marks;
  const std::uint32_t other = segments_[b].marks;
  if (one == other) return true;
  return one < kFresh && other < kFresh && marks_[one] == marks_[other];
}

bool Segments::usable(const Segment& segment, const Asker& asker) const {
  if (segment.marks >= kFresh) return segment.marks == kFresh;
  return asker.rule.usable(marks_[segment.marks], asker.frontier);
}

Segments::Id Segments::first_of_span(Id id) const {
  while (is_free(segments_[id].previous)) id = segments_[id].previous;
  return id;
}

void Segments::file_span(Id first, Id last) {
  segments_[first].other_end = last;
  segments_[last].other_end = first;
  segments_[first].span = segments_[last].end() - segments_[first].address;
  const std::size_t size_class = class_of(segments_[first].span);
  Id& head = spans_[size_class];
  segments_[first].previous_span = kNone;
  segments_[first].next_span = head;
  if (head != kNone) segments_[head].previous_span = first;
  head = first;
  filled_[size_class / 64] |= std::uint64_t{1} << (size_class % 64);
}

void Segments::unfile_span(Id first) {
  const Segment& segment = segments_[first];
  if (segment.next_span != kNone)
    segments_[segment.next_span].previous_span = segment.previous_span;
  if (segment.previous_span != kNone) {
    segments_[segment.previous_span].next_span = segment.next_span;
    return;
  }
  const std::size_t size_class = class_of(segment.span);
  spans_[size_class] = segment.next_span;
  if (segment.next_span != kNone) return;
  filled_[size_class / 64] &= ~(std::uint64_t{1} << (size_class % 64));
}

void Segments::add(Extent extent, bool joins_previous, bool joins_next) {
  Segment segment;
  segment.address = extent.address;
  segment.bytes = extent.bytes;
  if (joins_previous) segment.previous = at_or_before(extent.address);
  if (joins_next) segment.next = at_or_before(extent.end());
  fresh_bytes_ += extent.bytes;
  Id first = make(segment);
  Id last = first;
  if (is_free(segment.next)) {
    last = segments_[segment.next].other_end;
    unfile_span(segment.next);
  }
  if (is_free(segment.previous)) {
    first = segments_[segment.previous].other_end;
    unfile_span(first);
  }
  file_span(first, last);
}

std::optional<Segments::Spot> Segments::fit(Id first, Bytes bytes, const Asker& asker) const {
  Bytes left = segments_[first].span;  // from `spot` on
  Spot spot{segments_[first].address, first};
  for (Id id = first; left >= bytes; id = segments_[id].next) {
    const Segment& segment = segments_[id];
    if (!usable(segment, asker)) {
      left -= segment.end() - spot.address;
      spot = {segment.end(), segment.next};
    } else if (segment.end() - spot.address >= bytes) {
      return spot;
    }
  }
  return std::nullopt;
}

std::optional<Segments::Spot> Segments::find_in_class(std::size_t size_class, Bytes bytes,
                                                      const Asker& asker) const {
  for (Id first = spans_[size_class]; first != kNone; first = segments_[first].next_span) {
    if (segments_[first].span < bytes) continue;
    const std::optional<Spot> spot = fit(first, bytes, asker);
    if (spot) return spot;
  }
  return std::nullopt;
}

std::optional<Segments::Spot> Segments::find(Bytes bytes, const Asker& asker) const {
  const std::size_t first = class_of(bytes);
  for (std::size_t word = first / 64; word < filled_.size(); ++word) {
    std::uint64_t filled = filled_[word];
    if (word == first / 64) filled &= ~std::uint64_t{0} << (first % 64);
    for (; filled != 0; filled &= filled - 1) {
      const std::size_t c = word * 64 + static_cast<std::size_t>(std::countr_zero(filled));
      const std::optional<Spot> spot = find_in_class(c, bytes, asker);
      if (spot) return spot;
    }
  }
  return std::nullopt;
}

std::optional<Segments::Spot> Segments::usable(Extent extent, const Asker& asker) const {
  const Spot spot = spot_at(extent.address);
  Id id = spot.id;
  while (id != kNone && usable(segments_[id], asker)) {
    if (segments_[id].end() >= extent.end()) return spot;
    id = segments_[id].next;
  }
  return std::nullopt;
}

Bytes Segments::usable_before(Address end, const Asker& asker) const {
  Bytes bytes = 0;
  Id id = at_or_before(end - 1);
  while (id != kNone && usable(segments_[id], asker)) {
    bytes += segments_[id].bytes;
    id = segments_[id].previous;
  }
  return bytes;
}

void Segments::take(Spot spot, Bytes bytes, Bytes asked, std::uint32_t request) {
  const Extent extent{spot.address, bytes};
  Id id = spot.id;
  Id first = first_of_span(id);
  Id last = segments_[first].other_end;
  unfile_span(first);
  if (segments_[id].address < extent.address) {
    const Id below = id;
    id = cut(id, extent.address);
    if (last == below) last = id;
  }
  fresh_bytes_ -= fresh_part(id);
  while (segments_[id].end() < extent.end()) {
    const Id next = segments_[id].next;
    const Bytes missing = extent.end() - segments_[id].end();
    if (segments_[next].bytes <= missing) {
      fresh_bytes_ -= fresh_part(next);
      if (last == next) last = id;
      join_with_next(id);
      continue;
    }
    if (segments_[next].marks == kFresh) fresh_bytes_ -= missing;
    by_address_.move(segments_[next].address, segments_[next].address + missing);
    segments_[next].address += missing;
    segments_[next].bytes -= missing;
    segments_[id].bytes += missing;
  }
  if (segments_[id].end() > extent.end()) {
    const Id above = cut(id, extent.end());
    fresh_bytes_ += fresh_part(above);
    if (last == id) last = above;
  }
  if (first != id) file_span(first, segments_[id].previous);
  if (last != id) file_span(segments_[id].next, last);
  Segment& block = segments_[id];
  block.marks = kLive;
  block.asked = asked;
  block.request = request;
}

std::optional<Segments::Block> Segments::block_at(Address address) const {
  const Id id = at_or_before(address);
  if (id == kNone) return std::nullopt;
  const Segment& segment = segments_[id];
  if (!segment.live() || segment.address != address) return std::nullopt;
  return Block{id, segment.address, segment.asked, segment.request};
}

std::uint32_t Segments::free(Id id, dag::Marks marks) {
  if (marks_.empty() || !(marks_.back() == marks)) marks_.push_back(std::move(marks));
  const auto number = static_cast<std::uint32_t>(marks_.size() - 1);

  segments_[id].marks = number;
  const Id previous = segments_[id].previous;
  const Id next = segments_[id].next;
  Id first = id;
  Id last = id;
  if (is_free(previous)) {
    first = segments_[previous].other_end;
    unfile_span(first);
  }
  if (is_free(next)) {
    last = segments_[next].other_end;
    unfile_span(next);
    if (same_marks(id, next)) {
      if (last == next) last = id;
      join_with_next(id);
    }
  }
  if (is_free(previous) && same_marks(previous, id)) {
    if (last == id) last = previous;
    join_with_next(previous);
  }
  file_span(first, last);
  return number;
}

std::vector<Segments::Block> Segments::blocks() const {
  std::vector<Block> blocks;
  by_address_.visit([&](const AddressMap::Entry& entry) {
    const Segment& segment = segments_[entry.number];
    if (segment.live())
      blocks.push_back({entry.number, segment.address, segment.asked, segment.request});
    return true;
  });
  return blocks;
}

std::vector<Extent> Segments::drop_fresh() {
  std::vector<Id> fresh;
  by_address_.visit([&](const AddressMap::Entry& entry) {
    if (segments_[entry.number].marks == kFresh) fresh.push_back(entry.number);
    return true;
  });
  std::vector<Extent> dropped;
  for (const Id id : fresh) {
    const Segment segment = segments_[id];
    const Id first = first_of_span(id);
    const Id last = segments_[first].other_end;
    unfile_span(first);
    remove(id);
    if (segment.previous != kNone) segments_[segment.previous].next = kNone;
    if (segment.next != kNone) segments_[segment.next].previous = kNone;
    if (first != id) file_span(first, segment.previous);
    if (last != id) file_span(segment.next, last);
    dropped.push_back({segment.address, segment.bytes});
  }
  fresh_bytes_ = 0;
  return dropped;
}

void Segments::clear() {
  segments_.clear();
  unused_.clear();
  by_address_.clear();
  spans_ = none();
  filled_.fill(0);
  marks_.clear();
  fresh_bytes_ = 0;
}

}  // namespace hipgraft::arena

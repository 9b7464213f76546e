#include "arena/region.h"

#include <algorithm>

namespace hipgraft::arena {

bool OrderedReuse::usable(const dag::Marks& freed_at, const dag::Frontier& frontier) const {
  if (freed_at.never) return false;
  return std::all_of(freed_at.places.begin(), freed_at.places.end(),
                     [&](dag::Place place) { return frontier.covers(place); });
}

// Extents of one chunk that touch are one; none crosses into the next chunk.
void Region::own(Extent extent) {
  const Extent chunk = chunks_.chunk_at(extent.address);
  const auto next = std::lower_bound(
      extents_.begin(), extents_.end(), extent.address,
      [](const Extent& other, Address address) { return other.address < address; });
  const bool joins_previous = next != extents_.begin() && (next - 1)->end() == extent.address &&
                              (next - 1)->address >= chunk.address;
  const bool joins_next =
      next != extents_.end() && next->address == extent.end() && next->address < chunk.end();
  segments_.add(extent, joins_previous, joins_next);
  if (joins_previous) {
    (next - 1)->bytes += extent.bytes + (joins_next ? next->bytes : 0);
    if (joins_next) extents_.erase(next);
  } else if (joins_next) {
    *next = {extent.address, extent.bytes + next->bytes};
  } else {
    extents_.insert(next, extent);
  }
}

std::optional<Segments::Spot> Region::take_fresh(Bytes bytes) {
  const std::optional<Extent> fresh = chunks_.take(bytes, fences_);
  if (!fresh) return std::nullopt;
  own(*fresh);
  return segments_.spot_at(fresh->address);
}

// A plan that is wrong from the start is not worth its bytes. False when no chunk has room.
bool Region::reserve_plan(Bytes first) {
  if (plan_ == nullptr || plan_start_) return true;
  if (plan_->blocks.empty() || plan_->blocks[0].bytes != first) {
    plan_.reset();
    return true;
  }
  const std::optional<Segments::Spot> start = take_fresh(plan_->total);
  if (start) plan_start_ = start->address;
  return start.has_value();
}

std::optional<Segments::Spot> Region::planned(Bytes bytes, const Asker& asker) const {
  if (plan_ == nullptr || requests_ >= plan_->blocks.size()) return std::nullopt;
  const Plan::Block& block = plan_->blocks[requests_];
  if (block.bytes != bytes) return std::nullopt;
  return segments_.usable(Extent{*plan_start_ + block.offset, bytes}, asker);
}

// Grows the largest usable end of an extent behind which nobody holds the bytes, so that the fewest
// new bytes are used.
std::optional<Segments::Spot> Region::grow_tail(Bytes bytes, const Asker& asker) {
  std::vector<Extent> tails;
  for (const Extent& extent : extents_) {
    const Bytes usable = segments_.usable_before(extent.end(), asker);
    if (usable != 0) tails.push_back({extent.end() - usable, usable});
  }
  std::stable_sort(tails.begin(), tails.end(),
                   [](const Extent& a, const Extent& b) { return a.bytes > b.bytes; });
  for (const Extent& tail : tails) {
    const Bytes missing = bytes - tail.bytes;
    if (!chunks_.take_behind(tail.end(), missing, fences_)) continue;
    own({tail.end(), missing});
    return segments_.spot_at(tail.address);
  }
  return std::nullopt;
}

std::optional<Address> Region::allocate(Bytes asked, const dag::Frontier& frontier) {
  const Bytes bytes = round_up(asked, kAlignment);
  if (!reserve_plan(bytes)) return std::nullopt;
  const Asker asker{rule_, frontier};
  std::optional<Segments::Spot> spot = planned(bytes, asker);
  if (spot) {
    ++followed_;
  } else {
    spot = segments_.find(bytes, asker);
  }
  if (!spot) spot = grow_tail(bytes, asker);
  if (!spot) spot = take_fresh(bytes);
  if (!spot) return std::nullopt;

  segments_.take(*spot, bytes, asked, history_.allocated({spot->address, bytes}, frontier));
  ++requests_;
  live_bytes_ += bytes;
  peak_ = std::max(peak_, live_bytes_);
  return spot->address;
}

Bytes Region::needed(Bytes bytes) const {
  const Bytes rounded = round_up(bytes, kAlignment);
  const bool reserves = plan_ != nullptr && !plan_start_;
  return reserves ? std::max(rounded, plan_->total) : rounded;
}

void Region::adopt(Extent freed, dag::Marks marks) {
  constexpr std::uint32_t kNoRequest = ~std::uint32_t{0};
  own(freed);
  segments_.take(segments_.spot_at(freed.address), freed.bytes, freed.bytes, kNoRequest);
  segments_.free(segments_.block_at(freed.address)->id, std::move(marks));
}

bool Region::free(Address address, dag::Marks marks) {
  const std::optional<Segments::Block> block = segments_.block_at(address);
  if (!block) return false;
  history_.freed(block->request, segments_.free(block->id, std::move(marks)));
  live_bytes_ -= round_up(block->asked, kAlignment);
  return true;
}

PlanRef Region::finish() {
  for (const Extent& unused : segments_.drop_fresh()) {
    const auto extent = std::upper_bound(
        extents_.begin(), extents_.end(), unused.address,
        [](Address address, const Extent& other) { return address < other.address; });
    Extent& before = *(extent - 1);
    const Extent after{unused.end(), before.end() - unused.end()};
    before.bytes = unused.address - before.address;
    if (after.bytes != 0) extents_.insert(extent, after);
    chunks_.give_back(unused, fences_);
  }
  std::erase_if(extents_, [](const Extent& extent) { return extent.bytes == 0; });
  if (requests_ == 0) return nullptr;
  const bool kept = plan_ != nullptr && followed_ == plan_->blocks.size() && followed_ == requests_;
  PlanRef plan =
      kept ? plan_
           : std::make_shared<const Plan>(history_.plan(rule_, segments_.marks(), extents_, peak_));
  plan_.reset();
  history_ = {};
  return plan;
}

void Region::release(const Fences& fences) {
  for (const Extent& extent : extents_) chunks_.give_back(extent, fences);
  forget();
}

void Region::forget() {
  extents_.clear();
  segments_.clear();
}

std::vector<Region::Live> Region::live() const {
  std::vector<Live> live;
  for (const Segments::Block& block : segments_.blocks())
    live.push_back({block.address, block.asked});
  return live;
}

Bytes Region::high_water() const {
  Bytes total = 0;
  for (const Extent& extent : extents_) total += extent.bytes;
  return total - segments_.fresh_bytes();
}

}  // namespace hipgraft::arena

#include "arena/region.h"

#include <algorithm>

namespace hipgraft::arena {
namespace {

// Good fit: the lowest address that wastes at most an eighth of the run, else the lowest that fits.
// Neither best nor first fit is better on all graphs; this keeps large runs whole for large blocks.
bool fits_well(Bytes bytes, Bytes run) { return run - bytes <= run / 8; }

}  // namespace

bool OrderedReuse::usable(const dag::Marks& freed_at, const dag::Frontier& frontier) const {
  if (freed_at.never) return false;
  return std::all_of(freed_at.places.begin(), freed_at.places.end(),
                     [&](dag::Place place) { return frontier.covers(place); });
}

std::vector<Region::Run> Region::usable_runs(const dag::Frontier& frontier) const {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < freed_.size(); ++i) {
    const Freed& freed = freed_[i];
    if (!rule_.usable(freed.marks, frontier)) continue;
    Run* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->extent.end() == freed.extent.address &&
        chunks_.chunk_at(last->extent.address).address ==
            chunks_.chunk_at(freed.extent.address).address) {
      ++last->count;
      last->extent.bytes += freed.extent.bytes;
      continue;
    }
    runs.push_back(Run{i, 1, freed.extent});
  }
  return runs;
}

// Takes `bytes` from the start of the run; what is left of the last segment keeps its marks.
void Region::consume(const Run& run, Bytes bytes) {
  Bytes left = bytes;
  std::size_t whole = 0;
  while (whole < run.count && freed_[run.first + whole].extent.bytes <= left) {
    left -= freed_[run.first + whole].extent.bytes;
    ++whole;
  }
  if (left != 0) {
    Extent& partial = freed_[run.first + whole].extent;
    partial.address += left;
    partial.bytes -= left;
  }
  const auto from = freed_.begin() + static_cast<std::ptrdiff_t>(run.first);
  freed_.erase(from, from + static_cast<std::ptrdiff_t>(whole));
}

std::optional<Address> Region::place_in_run(const std::vector<Run>& runs, Bytes bytes) {
  const Run* chosen = nullptr;
  for (const Run& run : runs) {
    if (run.extent.bytes < bytes) continue;
    if (chosen == nullptr) chosen = &run;
    if (fits_well(bytes, run.extent.bytes)) {
      chosen = &run;
      break;
    }
  }
  if (chosen == nullptr) return std::nullopt;
  const Address address = chosen->extent.address;
  consume(*chosen, bytes);
  return address;
}

// Grows the largest run that ends where unheld bytes begin, so that the fewest new bytes are used.
std::optional<Address> Region::extend_run(const std::vector<Run>& runs, Bytes bytes) {
  std::vector<Run> by_size(runs);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Run& a, const Run& b) { return a.extent.bytes > b.extent.bytes; });
  for (const Run& run : by_size) {
    const Bytes missing = bytes - run.extent.bytes;
    if (!chunks_.take_behind(run.extent.end(), missing, fences_)) continue;
    own({run.extent.end(), missing});
    consume(run, run.extent.bytes);
    return run.extent.address;
  }
  return std::nullopt;
}

void Region::own(Extent extent) {
  const auto before = std::find_if(extents_.begin(), extents_.end(), [&](const Extent& other) {
    return other.end() == extent.address &&
           chunks_.chunk_at(other.address).address == chunks_.chunk_at(extent.address).address;
  });
  if (before != extents_.end()) {
    before->bytes += extent.bytes;
    return;
  }
  extents_.push_back(extent);
}

std::optional<Address> Region::allocate(Bytes asked, const dag::Frontier& frontier) {
  const Bytes bytes = round_up(asked, kAlignment);
  const std::vector<Run> runs = usable_runs(frontier);
  std::optional<Address> address = place_in_run(runs, bytes);
  if (!address) address = extend_run(runs, bytes);
  if (!address) {
    const std::optional<Extent> fresh = chunks_.take(bytes, fences_);
    if (!fresh) return std::nullopt;
    own(*fresh);
    address = fresh->address;
  }
  live_.emplace(*address, asked);
  live_bytes_ += bytes;
  peak_ = std::max(peak_, live_bytes_);
  return address;
}

void Region::add_freed(Extent extent, dag::Marks marks) {
  const auto next = std::lower_bound(
      freed_.begin(), freed_.end(), extent.address,
      [](const Freed& other, Address value) { return other.extent.address < value; });
  freed_.insert(next, Freed{extent, std::move(marks)});
}

void Region::adopt(Extent freed, dag::Marks marks) {
  own(freed);
  add_freed(freed, std::move(marks));
}

bool Region::free(Address address, dag::Marks marks) {
  const auto block = live_.find(address);
  if (block == live_.end()) return false;
  const Extent extent{address, round_up(block->second, kAlignment)};
  live_.erase(block);
  live_bytes_ -= extent.bytes;
  add_freed(extent, std::move(marks));
  return true;
}

void Region::release(const Fences& fences) {
  for (const Extent& extent : extents_) chunks_.give_back(extent, fences);
  forget();
}

void Region::forget() {
  extents_.clear();
  freed_.clear();
  live_.clear();
}

std::vector<Region::Live> Region::live() const {
  std::vector<Live> blocks;
  blocks.reserve(live_.size());
  for (const auto& [address, bytes] : live_) blocks.push_back({address, bytes});
  std::sort(blocks.begin(), blocks.end(),
            [](const Live& a, const Live& b) { return a.address < b.address; });
  return blocks;
}

Bytes Region::high_water() const {
  Bytes total = 0;
  for (const Extent& extent : extents_) total += extent.bytes;
  return total;
}

}  // namespace hipgraft::arena

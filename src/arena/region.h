// The blocks of one capture: bytes taken from the chunks, and which of them a block may use
// (reuse_rule.h) where (segments.h, plan.h). Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "arena/chunks.h"
#include "arena/plan.h"
#include "arena/reuse_rule.h"
#include "arena/segments.h"

namespace hipgraft::arena {

class Region {
 public:
  // `plan`: what finish() of a region for the same program returned; may be null.
  Region(Chunks& chunks, const ReuseRule& rule, PlanRef plan = nullptr)
      : chunks_(chunks), rule_(rule), plan_(std::move(plan)) {}

  // Places a block of `bytes` (not 0) for the stream with this frontier. Nothing when no chunk has
  // room: add one of at least needed(bytes) and call again.
  std::optional<Address> allocate(Bytes bytes, const dag::Frontier& frontier);
  // The room that must be in one piece for allocate(bytes) to succeed for certain: that of the
  // whole plan if none of it has been used yet.
  Bytes needed(Bytes bytes) const;
  // For callers that cannot get as much as the plan needs: further requests do without.
  void drop_plan() { plan_.reset(); }

  // Takes over bytes that nobody else holds, as if a block had been allocated there and freed.
  void adopt(Extent freed, dag::Marks marks);

  // Frees the block at `address`; false when none is alive there.
  bool free(Address address, dag::Marks marks);

  // All requests have been made: allocate must not be called again. Gives bytes that no block has
  // used back to the chunks, and returns the plan for the next capture of the same program: the
  // same one if it was followed to the end; null when nothing was asked for. Call once.
  PlanRef finish();

  // Gives everything back to the chunks.
  void release(const Fences& fences);
  // The chunks are gone: there is nothing to give back.
  void forget();

  // What must be waited for before the bytes are used: cleared by whoever has waited.
  Fences& fences() { return fences_; }

  struct Live {
    Address address = 0;
    Bytes bytes = 0;  // as asked
  };
  std::vector<Live> live() const;  // by address

  Bytes high_water() const;                  // bytes of distinct addresses handed out
  Bytes peak_live() const { return peak_; }  // most bytes alive at once, in the order of the calls
  const std::vector<Extent>& extents() const { return extents_; }  // by address

 private:
  bool reserve_plan(Bytes first);
  std::optional<Segments::Spot> planned(Bytes bytes, const Asker& asker) const;
  std::optional<Segments::Spot> grow_tail(Bytes bytes, const Asker& asker);
  std::optional<Segments::Spot> take_fresh(Bytes bytes);
  void own(Extent extent);

  Chunks& chunks_;  // these two outlive the region
  const ReuseRule& rule_;
  PlanRef plan_;
  std::optional<Address> plan_start_;  // once its bytes are reserved
  std::size_t requests_ = 0;
  std::size_t followed_ = 0;  // requests that were placed as planned
  History history_;
  Segments segments_;
  std::vector<Extent> extents_;  // all bytes taken from the chunks; by address
  Fences fences_;
  Bytes live_bytes_ = 0;
  Bytes peak_ = 0;
};

}  // namespace hipgraft::arena

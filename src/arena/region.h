// The blocks of one capture.
//
// A stream-ordered free promises that every use of the block precedes the free on its stream, that
// is: precedes or is one of that stream's terminals at that moment (the marks). A block may take
// over freed bytes only if the frontier of its stream covers all their marks: then every use of the
// old block precedes every use of the new one in each order in which the graph may run.
//
// Freed segments are merged lazily: neighbours with different marks stay apart and are only used
// together by a stream that may use each of them. A union of marks would be needlessly strict.
// Not thread-safe.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "arena/chunks.h"
#include "dag/mirror.h"

namespace hipgraft::arena {

// The one rule that makes reuse safe, apart from where blocks are placed.
class ReuseRule {
 public:
  virtual bool usable(const dag::Marks& freed_at, const dag::Frontier& frontier) const = 0;

 protected:
  ~ReuseRule() = default;
};

// Bytes are reused where the captured graph orders the old uses before the new ones.
class OrderedReuse final : public ReuseRule {
 public:
  bool usable(const dag::Marks& freed_at, const dag::Frontier& frontier) const override;
};

// No byte is handed out twice.
class NoReuse final : public ReuseRule {
 public:
  bool usable(const dag::Marks&, const dag::Frontier&) const override { return false; }
};

class Region {
 public:
  Region(Chunks& chunks, const ReuseRule& rule) : chunks_(chunks), rule_(rule) {}

  // Places a block of `bytes` (not 0) for the stream with this frontier. Nothing when no chunk has
  // room: add one of at least round_up(bytes, kAlignment) and call again.
  std::optional<Address> allocate(Bytes bytes, const dag::Frontier& frontier);

  // Takes over bytes that nobody else holds, as if a block had been allocated there and freed.
  void adopt(Extent freed, dag::Marks marks);

  // Frees the block at `address`; false when none is alive there.
  bool free(Address address, dag::Marks marks);

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
  std::vector<Live> live() const;

  Bytes high_water() const;                  // bytes of distinct addresses handed out
  Bytes peak_live() const { return peak_; }  // most bytes alive at once, in the order of the calls
  const std::vector<Extent>& extents() const { return extents_; }

 private:
  struct Freed {
    Extent extent;
    dag::Marks marks;
  };
  // A run of adjacent freed segments that the asking stream may use together.
  struct Run {
    std::size_t first = 0;
    std::size_t count = 0;
    Extent extent;
  };

  std::vector<Run> usable_runs(const dag::Frontier& frontier) const;
  std::optional<Address> place_in_run(const std::vector<Run>& runs, Bytes bytes);
  std::optional<Address> extend_run(const std::vector<Run>& runs, Bytes bytes);
  void consume(const Run& run, Bytes bytes);
  void own(Extent extent);
  void add_freed(Extent extent, dag::Marks marks);

  Chunks& chunks_;  // outlives the region
  const ReuseRule& rule_;
  std::vector<Freed> freed_;     // by address
  std::vector<Extent> extents_;  // all bytes taken from the chunks
  std::unordered_map<Address, Bytes> live_;
  Fences fences_;
  Bytes live_bytes_ = 0;
  Bytes peak_ = 0;
};

}  // namespace hipgraft::arena

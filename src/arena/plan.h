// Where the blocks of a capture go, worked out from the former capture of the same program.
//
// Each block placed when it is asked for, knowing nothing of later ones, leaves gaps. A program
// that captures again mostly asks for the same blocks, and packing blocks whose lifetimes are known
// leaves few. A plan promises nothing: whoever follows it checks each block as any other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arena/chunks.h"
#include "arena/reuse_rule.h"

namespace hipgraft::arena {

// Never changed once made: captures on any thread may share one.
struct Plan {
  struct Block {
    Bytes bytes = 0;
    Bytes offset = 0;
  };
  std::vector<Block> blocks;  // by request
  Bytes total = 0;            // bytes that all blocks fit into
};
using PlanRef = std::shared_ptr<const Plan>;

// The requests of one capture, as far as they matter for the plan of the next. Not thread-safe.
class History {
 public:
  // Beyond this many requests packing takes too long: they keep the places that they had.
  static constexpr std::size_t kMaxPacked = 1024;

  // Returns the number of the request: 0, 1, 2, ...
  std::uint32_t allocated(Extent block, const dag::Frontier& frontier);
  // `marks`: where the free's marks will be found by plan(). A request of an earlier history is
  // ignored.
  void freed(std::uint32_t request, std::uint32_t marks);

  // `extents`: where all blocks are, by address; they become one. `peak`: most bytes alive at once.
  // The blocks keep their places, so that equal captures get equal addresses, unless packing them
  // saves at least a sixteenth.
  Plan plan(const ReuseRule& rule, const std::vector<dag::Marks>& marks,
            const std::vector<Extent>& extents, Bytes peak) const;

 private:
  static constexpr std::uint32_t kNever = ~std::uint32_t{0};
  struct Request {
    Extent block;
    std::uint32_t frontier = 0;      // into frontiers_
    std::uint32_t marks = 0;         // of its free
    std::uint32_t allocated_at = 0;  // counting allocations and frees
    std::uint32_t freed_at = kNever;
  };
  class Packing;

  Plan recorded(const std::vector<Extent>& extents) const;

  std::vector<Request> requests_;
  std::vector<dag::Frontier> frontiers_;
  std::uint32_t events_ = 0;
};

}  // namespace hipgraft::arena

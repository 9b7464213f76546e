// Which kernel of a captured program uses which block, and the two oracles that follow from it:
// does the graph order all that happens in shared bytes, and does each block keep its tag?
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph_order.h"
#include "scenario.h"
#include "scenario_kernels.h"

namespace scenario {

// A block of a captured program, by its index in the ledger: blocks are numbered in the order of
// their allocation.
struct LedgerBlock {
  unsigned char* bytes = nullptr;
  std::uint64_t size = 0;
  std::uint32_t capture = 0;      // number of the capture that allocated it
  std::uint32_t freed_after = 0;  // blocks allocated when its capture freed it; 0: it did not
  std::uint32_t uses = 0;
  bool gone = false;  // neither a graph nor the program holds it any more
};

class Ledger {
 public:
  explicit Ledger(std::size_t most_uses);

  // Forgets everything, for the next program.
  void clear();

  std::uint32_t add_block(void* bytes, std::uint64_t size, std::uint32_t capture);
  LedgerBlock& block(std::uint32_t index) { return blocks_[index]; }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(blocks_.size()); }
  // The first use of a block writes its tag, the others check it.
  bool has_room(std::size_t uses) const { return uses_.size() + uses <= most_; }

  // What a `touch` of these blocks gets as arguments.
  struct Touch {
    const Use* uses;
    std::uint32_t* found;
    std::uint32_t count;
  };
  Touch record(std::span<const std::uint32_t> blocks);
  // The same for a touch that is issued outside of any capture, to look at the tags.
  Touch record_look(std::span<const std::uint32_t> blocks);

  // Whether the node is a touch that uses blocks.
  bool is_touch(hipGraphNode_t node) const;

  // Races and overlaps of the blocks of all graphs that live; empty if there are none. `plans`: the
  // graphs to look at, as the runtime reports them. Where a capture that is in one of them has
  // recorded a touch that the graph lacks, that is a fault too.
  std::string find_race(std::span<const graph_order::Plan* const> plans) const;
  // Blocks placed in bytes that an earlier block of the same capture had.
  std::uint32_t reused() const;

  // Runs something on the device and says which use found another block's tag; empty if none did.
  template <class Run>
  std::string find_wrong_tag(Run run) {
    prepare();
    run();
    return wrong_tag();
  }

 private:
  Touch add_uses(std::span<const std::uint32_t> blocks, bool first);
  void prepare();
  std::string wrong_tag() const;
  std::string describe(std::uint32_t block) const;

  std::size_t most_;
  apps::DeviceMemory table_;
  apps::DeviceMemory found_;
  std::vector<Use> uses_;
  std::vector<std::uint32_t> block_of_use_;
  std::unordered_map<const Use*, std::uint32_t> touches_;  // by arguments: number of uses
  std::vector<LedgerBlock> blocks_;
};

}  // namespace scenario

// A random program that captures work on several streams, allocates and frees between, and keeps
// the contract of stream-ordered memory: a block is used only where its allocation is ordered
// before, and freed only where all its uses are. It drives a Mirror and a Region as the shim does.
//
// What it records afterwards tells, without any clock, whether bytes were shared wrongly.
#pragma once

#include <bitset>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "arena/region.h"
#include "dag/mirror.h"

namespace hipgraft::test {

// Errors that the caller of the arena could make, for mutants.
enum class Marking { of_freeing_stream, of_allocating_stream };

// A rule that a wrong implementation of plans amounts to is told what the plan says.
class PlanWatcher {
 public:
  virtual void next_request(bool as_planned) = 0;

 protected:
  ~PlanWatcher() = default;
};

struct Settings {
  int streams = 3;
  int steps = 120;
  Marking marking = Marking::of_freeing_stream;
  arena::PlanRef plan = nullptr;
  PlanWatcher* watcher = nullptr;  // told before each request
  // Every so many steps the work goes to the next stream: the same requests in another order of
  // the graph. 0: never.
  int move_every = 0;
};

class CaptureModel {
 public:
  static constexpr std::size_t kMaxNodes = 512;
  using NodeSet = std::bitset<kMaxNodes>;

  CaptureModel(std::uint32_t seed, const Settings& settings, const arena::ReuseRule& rule);

  // Pairs of blocks that share bytes although some use of one is not ordered before all uses of the
  // other. By transitive closure.
  int unordered_sharing() const;

  // Runs the graph in a random order that its edges allow, each byte tagged with the block that was
  // written last, and counts uses that find another block's tag.
  int wrong_tags(std::uint32_t order_seed) const;

  // Times that bytes were handed out again.
  int reuses() const;
  // Requests that were placed where the plan of the settings says, from its lowest address on.
  int followed() const;
  // The plan for the next program; ends this one.
  arena::PlanRef finish() { return region_.finish(); }
  std::vector<arena::Address> addresses() const;  // by request
  // The closure: what precedes each node.
  const std::vector<NodeSet>& ancestors() const { return ancestors_; }
  const dag::Mirror& mirror() const { return mirror_; }
  static dag::NodeId id_of(std::size_t node) { return 1000 + node; }
  const arena::Region& region() const { return region_; }

 private:
  struct Stream {
    std::vector<std::size_t> terminals;
  };
  struct Block {
    arena::Extent extent;
    std::size_t stream = 0;  // that allocated it
    bool alive = true;
    std::vector<std::size_t> users;
    NodeSet known_by;  // what preceded the allocation
  };

  void step(int number);
  void capture_kernel(std::size_t stream);
  void join(std::size_t into, std::size_t from);
  void allocate(std::size_t stream);
  void free(std::size_t stream);
  void use(std::size_t node, std::size_t stream);

  std::size_t pick(std::size_t count) { return count == 0 ? 0 : random_() % count; }
  std::vector<dag::NodeId> terminal_ids(std::size_t stream) const;
  NodeSet reached(std::size_t stream) const;
  void learn(std::size_t stream);

  std::mt19937 random_;
  Settings settings_;
  arena::Chunks chunks_{true};
  arena::Region region_;
  dag::Mirror mirror_;
  std::vector<Stream> streams_;
  std::vector<std::vector<std::size_t>> dependencies_;
  std::vector<NodeSet> ancestors_;
  std::vector<std::vector<std::size_t>> uses_;  // by node: blocks
  std::vector<Block> blocks_;
};

}  // namespace hipgraft::test

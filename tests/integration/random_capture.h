// A capture made up by a seed, on the runtime itself: streams fork and join by events, the program
// adds nodes and child graphs by hand and moves streams to other nodes, allocates and frees
// between. It keeps the contract of stream-ordered memory: a block is used only behind its
// allocation, and freed, on whatever stream, only behind its uses. All uses are in the ledger.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <random>

#include "ledger.h"

namespace scenario {

enum class Sizes { same, log_uniform, powers_of_two, pages, few_large };
constexpr std::uint32_t kSizeLaws = 5;

struct CaptureSettings {
  std::uint32_t seed = 0;
  // Allocations that another seed decides about, after so many by the first one.
  std::uint32_t diverge_after = ~0U;
  std::uint32_t divergent_seed = 0;

  std::uint32_t allocations = 20;
  std::size_t streams = 3;
  Sizes sizes = Sizes::log_uniform;
  int depth = 0;              // of child graphs
  bool is_nested = false;     // captured while another one is
  hipGraph_t into = nullptr;  // captures into a graph that is there; not on 5.7
};

// The nodes of a capture that precede something, by numbers of our own.
class Reached {
 public:
  void set(std::size_t node);
  bool test(std::size_t node) const;
  bool contains(const Reached& other) const;
  bool meets_beyond(const Reached& other, const Reached& beyond) const;  // this & other & ~beyond
  Reached& operator|=(const Reached& other);

 private:
  std::vector<std::uint64_t> words_;
};

class RandomCapture {
 public:
  static constexpr std::size_t kMostStreams = 8;

  RandomCapture(Ledger& ledger, std::uint32_t& captures, const CaptureSettings& settings);

  hipGraph_t graph() const { return graph_.get(); }
  apps::Graph take_graph() { return std::move(graph_); }
  bool has_child() const { return has_child_; }
  // Blocks that the capture and the child graphs in it allocate, and those never freed there.
  const std::vector<std::uint32_t>& all_blocks() const { return all_; }
  const std::vector<std::uint32_t>& escaped() const { return escaped_; }

 private:
  struct Stream {
    hipStream_t handle = nullptr;
    bool joined = false;
    Reached reached;
  };
  // Where a stream stood.
  struct Point {
    std::size_t stream;
    std::vector<hipGraphNode_t> terminals;
    Reached reached;
    hipEvent_t event = nullptr;  // null: none was recorded
  };
  struct LiveBlock {
    std::uint32_t index;
    std::size_t fill;  // node that wrote it first
    Reached users;
    bool by_host;  // allocated by hipMalloc
  };

  void begin();
  void work();
  void end();
  void step();

  void allocate_some();
  void free_some();
  void free_block(std::size_t live, std::size_t stream);
  void add_free_by_hand(void* bytes, std::size_t stream);
  void free_by_host();
  void free_again();
  void use();
  void wait_for_old_event();
  void rewind();
  void add_kernel_by_hand();
  void add_empty_by_hand();
  void add_edge_by_hand();
  void add_child();

  std::uint32_t allocate_block(std::size_t stream, bool by_host);
  std::uint64_t pick_size();
  std::vector<std::uint32_t> usable_blocks(std::size_t stream, std::size_t most);
  // A touch of these live blocks; by hand: as a node added to the graph.
  void touch(std::size_t stream, const std::vector<std::uint32_t>& blocks, bool by_hand);
  void node_issued(std::size_t stream, const std::vector<std::uint32_t>& blocks);
  void stop_tracking(std::size_t live);

  std::size_t below(std::size_t bound);
  bool chance(std::size_t one_in) { return below(one_in) == 0; }
  std::size_t pick_stream();
  void join(std::size_t stream);
  void order(std::size_t from, std::size_t to);
  void wait(std::size_t from, std::size_t to);
  void wait_for(const Point& point, std::size_t to);
  void add_terminals(const Point& point, std::size_t to);
  void set_terminals(std::size_t stream, std::vector<hipGraphNode_t> nodes);
  void bring_behind(const Reached& nodes, std::size_t stream);
  Point point_of(std::size_t stream);
  hipEvent_t record(std::size_t stream);
  hipGraph_t capturing_graph() const;
  std::vector<hipGraphNode_t> terminals_of(std::size_t stream) const;

  Ledger& ledger_;
  std::uint32_t& captures_;
  const std::uint32_t number_;
  CaptureSettings settings_;
  std::mt19937 random_;
  bool diverged_ = false;
  bool has_child_ = false;
  std::array<unsigned, 10> weights_{};
  std::size_t frees_by_host_in_ = 0;
  std::size_t escapes_in_ = 0;
  std::vector<Stream> streams_;
  std::vector<apps::Event> events_;
  std::deque<Point> history_;  // some points where streams have been
  std::vector<Point> loose_;   // ends that streams have left behind
  std::vector<LiveBlock> live_;
  std::uint64_t live_bytes_ = 0;
  std::uint32_t begun_ = 0;
  std::size_t nodes_ = 0;
  std::vector<std::uint32_t> all_;
  std::vector<std::uint32_t> escaped_;
  std::vector<void*> freed_;
  apps::Graph graph_;
};

}  // namespace scenario

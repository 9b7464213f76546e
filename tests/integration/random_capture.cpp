#include "random_capture.h"

#include <algorithm>
#include <array>
#include <bit>

namespace scenario {
namespace {

constexpr std::uint64_t kMostLiveBytes = 24U << 20;
constexpr std::size_t kHistory = 12;

// 5.7 refuses launches on a stream that has waited twice for the same node.
constexpr bool kWaitsMustDiffer = HIP_VERSION_MAJOR < 6;

// Streams for captures at this depth, made once: child graphs are captured while their parent is.
std::vector<hipStream_t> streams_at(int depth) {
  static std::vector<std::vector<apps::Stream>> levels;
  while (levels.size() <= static_cast<std::size_t>(depth)) {
    levels.emplace_back();
    for (std::size_t i = 0; i < RandomCapture::kMostStreams; ++i) {
      levels.back().push_back(apps::make_non_blocking_stream());
    }
  }
  std::vector<hipStream_t> handles;
  for (const apps::Stream& stream : levels[static_cast<std::size_t>(depth)]) {
    handles.push_back(stream.get());
  }
  return handles;
}

hipMemPool_t default_pool() {
  hipMemPool_t pool = nullptr;
  HIP_CHECK(hipDeviceGetDefaultMemPool(&pool, 0));
  return pool;
}

}  // namespace

void Reached::set(std::size_t node) {
  if (words_.size() <= node / 64) words_.resize(node / 64 + 1);
  words_[node / 64] |= std::uint64_t{1} << node % 64;
}
bool Reached::test(std::size_t node) const {
  return node / 64 < words_.size() && (words_[node / 64] >> node % 64 & 1) != 0;
}
bool Reached::contains(const Reached& other) const {
  for (std::size_t i = 0; i < other.words_.size(); ++i) {
    if ((other.words_[i] & ~(i < words_.size() ? words_[i] : 0)) != 0) return false;
  }
  return true;
}
bool Reached::meets_beyond(const Reached& other, const Reached& beyond) const {
  for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
    const std::uint64_t known = i < beyond.words_.size() ? beyond.words_[i] : 0;
    if ((words_[i] & other.words_[i] & ~known) != 0) return true;
  }
  return false;
}
Reached& Reached::operator|=(const Reached& other) {
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

RandomCapture::RandomCapture(Ledger& ledger, std::uint32_t& captures,
                             const CaptureSettings& settings)
    : ledger_(ledger),
      captures_(captures),
      number_(captures++),
      settings_(settings),
      random_(settings.seed) {
  const std::vector<hipStream_t> handles = streams_at(settings.depth);
  for (std::size_t i = 0; i < settings.streams; ++i) streams_.push_back({handles[i], false, {}});
  // Each capture has habits of its own.
  for (unsigned& weight : weights_) weight = static_cast<unsigned>(below(4));
  weights_[0] += 2;
  weights_[1] += 2;
  frees_by_host_in_ = chance(3) ? 8 : 0;
  escapes_in_ = chance(2) ? 6 : 0;
  begin();
  work();
  end();
}

std::size_t RandomCapture::below(std::size_t bound) { return random_() % bound; }

void RandomCapture::begin() {
  const hipStream_t origin = streams_[0].handle;
  streams_[0].joined = true;
#if HIP_VERSION >= 60100000
  if (settings_.into != nullptr) {
    HIP_CHECK(hipStreamBeginCaptureToGraph(origin, settings_.into, nullptr, nullptr, 0,
                                           hipStreamCaptureModeRelaxed));
    return;
  }
#endif
  HIP_CHECK(hipStreamBeginCapture(origin, hipStreamCaptureModeRelaxed));
}

void RandomCapture::work() {
  while (begun_ < settings_.allocations || !live_.empty()) step();
}

void RandomCapture::end() {
  for (const Point& point : loose_) add_terminals(point, 0);
  for (std::size_t i = 1; i < streams_.size(); ++i) {
    if (streams_[i].joined) order(i, 0);
  }
  hipGraph_t graph = nullptr;
  HIP_CHECK(hipStreamEndCapture(streams_[0].handle, &graph));
  graph_ = apps::Graph(graph);
}

void RandomCapture::step() {
  if (begun_ >= settings_.allocations || live_bytes_ > kMostLiveBytes) {
    if (!live_.empty()) free_some();
    return;
  }
  std::discrete_distribution<int> pick(weights_.begin(), weights_.end());
  switch (pick(random_)) {
    case 0:
      return allocate_some();
    case 1:
    case 2:
      return free_some();
    case 3:
      return use();
    case 4:
      return wait_for_old_event();
    case 5:
      return rewind();
    case 6:
      return add_kernel_by_hand();
    case 7:
      return add_empty_by_hand();
    case 8:
      return add_edge_by_hand();
    default:
      return chance(8) ? add_child() : free_again();
  }
}

std::uint64_t RandomCapture::pick_size() {
  switch (settings_.sizes) {
    case Sizes::same:
      return 1000;
    case Sizes::log_uniform: {
      const std::uint64_t limit = std::uint64_t{2} << below(16);
      return 1 + below(limit);
    }
    case Sizes::powers_of_two:
      return std::uint64_t{1} << below(17);
    case Sizes::pages:
      return (1 + below(8)) * 16384;
    case Sizes::few_large:
      return chance(16) ? (1 + below(3)) * 1'000'000 : 1 + below(2048);
  }
  return 1;
}

std::uint32_t RandomCapture::allocate_block(std::size_t stream, bool by_host) {
  const std::uint64_t size = pick_size();
  void* bytes = nullptr;
  if (by_host) {
    HIP_CHECK(hipMalloc(&bytes, size));
  } else if (chance(8)) {
    HIP_CHECK(hipMallocFromPoolAsync(&bytes, size, default_pool(), streams_[stream].handle));
  } else {
    HIP_CHECK(hipMallocAsync(&bytes, size, streams_[stream].handle));
  }
  const std::uint32_t index = ledger_.add_block(bytes, size, number_);
  all_.push_back(index);
  ++begun_;
  if (begun_ >= settings_.diverge_after && !diverged_) {
    random_.seed(settings_.divergent_seed);
    diverged_ = true;
  }
  return index;
}

void RandomCapture::allocate_some() {
  const std::size_t stream = pick_stream();
  // hipgraft cannot tell for which of two captures of a thread a hipMalloc is.
  const bool by_host = !settings_.is_nested && chance(16);
  std::vector<std::uint32_t> blocks;
  for (std::size_t count = 1 + below(3); count != 0; --count) {
    blocks.push_back(allocate_block(stream, by_host));
  }
  if (chance(16) || !ledger_.has_room(64)) {  // allocated for nothing
    for (const std::uint32_t index : blocks) {
      HIP_CHECK(hipFreeAsync(ledger_.block(index).bytes, streams_[stream].handle));
      ledger_.block(index).freed_after = ledger_.blocks();
    }
    return;
  }
  std::size_t user = stream;
  if (by_host) {  // no stream comes before another
    user = pick_stream();
  } else if (chance(4)) {
    user = pick_stream();
    order(stream, user);
  }
  std::vector<std::uint32_t> used = usable_blocks(user, below(3));
  for (const std::uint32_t index : blocks) {
    live_.push_back({index, nodes_, {}, by_host});
    live_bytes_ += ledger_.block(index).size;
    used.push_back(index);
  }
  touch(user, used, false);
}

std::vector<std::uint32_t> RandomCapture::usable_blocks(std::size_t stream, std::size_t most) {
  std::vector<std::uint32_t> usable;
  for (std::size_t tries = 0; tries < 2 * most && usable.size() < most && !live_.empty(); ++tries) {
    const LiveBlock& block = live_[below(live_.size())];
    const bool again = std::find(usable.begin(), usable.end(), block.index) != usable.end();
    if (!again && streams_[stream].reached.test(block.fill)) usable.push_back(block.index);
  }
  return usable;
}

void RandomCapture::touch(std::size_t stream, const std::vector<std::uint32_t>& blocks,
                          bool by_hand) {
  const Ledger::Touch t = ledger_.record(blocks);
  const hipStream_t handle = streams_[stream].handle;
  if (by_hand) {
    set_terminals(stream, {add_touch_node(capturing_graph(), terminals_of(stream), t.uses, t.found,
                                          t.count)});
  } else {
    launch_touch(t.uses, t.found, t.count, handle);
  }
  node_issued(stream, blocks);
}

void RandomCapture::node_issued(std::size_t stream, const std::vector<std::uint32_t>& blocks) {
  for (LiveBlock& block : live_) {
    if (std::find(blocks.begin(), blocks.end(), block.index) != blocks.end()) {
      block.users.set(nodes_);
    }
  }
  streams_[stream].reached.set(nodes_++);
  if (!chance(4)) return;
  history_.push_back(point_of(stream));
  if (history_.size() > kHistory) history_.pop_front();
}

void RandomCapture::use() {
  const std::size_t stream = pick_stream();
  if (ledger_.has_room(8)) touch(stream, usable_blocks(stream, 1 + below(3)), false);
}

void RandomCapture::add_kernel_by_hand() {
  const std::size_t stream = pick_stream();
  if (ledger_.has_room(8)) touch(stream, usable_blocks(stream, 1 + below(3)), true);
}

void RandomCapture::free_some() {
  if (live_.empty()) return;
  if (frees_by_host_in_ != 0 && chance(frees_by_host_in_)) return free_by_host();
  const std::size_t live = below(live_.size());
  if (escapes_in_ != 0 && !live_[live].by_host && chance(escapes_in_)) {
    escaped_.push_back(live_[live].index);
    return stop_tracking(live);
  }
  free_block(live, pick_stream());
}

void RandomCapture::free_block(std::size_t live, std::size_t stream) {
  bring_behind(live_[live].users, stream);
  LedgerBlock& block = ledger_.block(live_[live].index);
  if (!live_[live].by_host && chance(8)) {
    add_free_by_hand(block.bytes, stream);
  } else {
    HIP_CHECK(hipFreeAsync(block.bytes, streams_[stream].handle));
  }
  block.freed_after = ledger_.blocks();
  if (!live_[live].by_host) freed_.push_back(block.bytes);
  stop_tracking(live);
}

void RandomCapture::add_free_by_hand(void* bytes, std::size_t stream) {
  const std::vector<hipGraphNode_t> dependencies = terminals_of(stream);
  hipGraphNode_t node = nullptr;
  HIP_CHECK(hipGraphAddMemFreeNode(&node, capturing_graph(), dependencies.data(),
                                   dependencies.size(), bytes));
  // What the stream does next need not follow the free.
  if (chance(2)) return;
  set_terminals(stream, {node});
  node_issued(stream, {});
}

// hipFree waits for all that was issued, so no order between streams is needed.
void RandomCapture::free_by_host() {
  const std::size_t live = below(live_.size());
  LedgerBlock& block = ledger_.block(live_[live].index);
  HIP_CHECK(hipFree(block.bytes));
  block.freed_after = ledger_.blocks();
  stop_tracking(live);
}

void RandomCapture::free_again() {
  if (freed_.empty()) return;
  void* const bytes = freed_[below(freed_.size())];
  for (const std::uint32_t index : all_) {
    const LedgerBlock& block = ledger_.block(index);
    if (block.bytes == bytes && block.freed_after == 0) return;
  }
  CHECK(hipFreeAsync(bytes, streams_[pick_stream()].handle) == hipErrorInvalidValue);
  (void)hipGetLastError();
}

void RandomCapture::stop_tracking(std::size_t live) {
  live_bytes_ -= ledger_.block(live_[live].index).size;
  std::swap(live_[live], live_.back());
  live_.pop_back();
}

std::size_t RandomCapture::pick_stream() {
  const std::size_t stream = below(streams_.size());
  join(stream);
  return stream;
}

void RandomCapture::join(std::size_t stream) {
  if (streams_[stream].joined) return;
  std::size_t from = below(stream);
  if (!streams_[from].joined) from = 0;
  wait(from, stream);
}

// Back over the origin only: where two forked streams wait for each other's events, the runtimes'
// hipStreamEndCapture recurses until the stack is full. By hand every way is good.
void RandomCapture::order(std::size_t from, std::size_t to) {
  if (from == to) return;
  if (chance(4)) {
    add_terminals(point_of(from), to);
  } else if (from > to && to != 0) {
    wait(from, 0);
    wait(0, to);
  } else {
    wait(from, to);
  }
}

hipEvent_t RandomCapture::record(std::size_t stream) {
  events_.push_back(apps::make_ordering_event());
  HIP_CHECK(hipEventRecord(events_.back().get(), streams_[stream].handle));
  return events_.back().get();
}

RandomCapture::Point RandomCapture::point_of(std::size_t stream) {
  return {stream, terminals_of(stream), streams_[stream].reached, nullptr};
}

void RandomCapture::wait(std::size_t from, std::size_t to) {
  Point point = point_of(from);
  point.event = record(from);
  wait_for(point, to);
  if (chance(4)) history_.push_back(point);
}

void RandomCapture::wait_for(const Point& point, std::size_t to) {
  Stream& waiter = streams_[to];
  if (kWaitsMustDiffer && waiter.joined) {
    const std::vector<hipGraphNode_t> own = terminals_of(to);
    const auto is_own = [&](hipGraphNode_t node) {
      return std::find(own.begin(), own.end(), node) != own.end();
    };
    if (std::any_of(point.terminals.begin(), point.terminals.end(), is_own)) touch(to, {}, false);
  }
  HIP_CHECK(hipStreamWaitEvent(waiter.handle, point.event, 0));
  waiter.joined = true;
  waiter.reached |= point.reached;
}

void RandomCapture::wait_for_old_event() {
  if (history_.empty()) return;
  const Point point = history_[below(history_.size())];
  const std::size_t to = pick_stream();
  const bool may_wait = to != point.stream && (to == 0 || point.stream < to);
  if (point.event != nullptr && may_wait) {
    wait_for(point, to);
  } else {
    add_terminals(point, to);
  }
}

void RandomCapture::add_terminals(const Point& point, std::size_t to) {
  std::vector<hipGraphNode_t> nodes = terminals_of(to);
  const std::size_t before = nodes.size();
  for (const hipGraphNode_t node : point.terminals) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  if (nodes.size() != before) set_terminals(to, std::move(nodes));
  streams_[to].reached |= point.reached;
}

void RandomCapture::set_terminals(std::size_t stream, std::vector<hipGraphNode_t> nodes) {
  HIP_CHECK(hipStreamUpdateCaptureDependencies(streams_[stream].handle, nodes.data(), nodes.size(),
                                               hipStreamSetCaptureDependencies));
}

// The stream goes on from where some stream was earlier; what it has done since stays behind.
void RandomCapture::rewind() {
  if (history_.empty()) return;
  const Point back = history_[below(history_.size())];
  if (back.terminals.empty()) return;
  const std::size_t stream = pick_stream();
  loose_.push_back(point_of(stream));
  set_terminals(stream, back.terminals);
  streams_[stream].reached = back.reached;
}

void RandomCapture::bring_behind(const Reached& nodes, std::size_t stream) {
  Reached& reached = streams_[stream].reached;
  for (std::size_t other = 0; other < streams_.size(); ++other) {
    if (other != stream && streams_[other].reached.meets_beyond(nodes, reached)) {
      order(other, stream);
    }
  }
  for (const Point& point : loose_) {
    if (point.reached.meets_beyond(nodes, reached)) add_terminals(point, stream);
  }
  REQUIRE(reached.contains(nodes));
}

hipGraph_t RandomCapture::capturing_graph() const {
  hipStreamCaptureStatus status{};
  hipGraph_t graph = nullptr;
  HIP_CHECK(
      hipStreamGetCaptureInfo_v2(streams_[0].handle, &status, nullptr, &graph, nullptr, nullptr));
  return graph;
}

std::vector<hipGraphNode_t> RandomCapture::terminals_of(std::size_t stream) const {
  hipStreamCaptureStatus status{};
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  HIP_CHECK(hipStreamGetCaptureInfo_v2(streams_[stream].handle, &status, nullptr, nullptr, &nodes,
                                       &count));
  return {nodes, nodes + count};
}

void RandomCapture::add_empty_by_hand() {
  const std::size_t stream = pick_stream();
  const std::vector<hipGraphNode_t> dependencies = terminals_of(stream);
  hipGraphNode_t node = nullptr;
  HIP_CHECK(
      hipGraphAddEmptyNode(&node, capturing_graph(), dependencies.data(), dependencies.size()));
  set_terminals(stream, {node});
  node_issued(stream, {});
}

// More order than the program needs: from an old node to a new one.
void RandomCapture::add_edge_by_hand() {
  if (history_.empty()) return;
  const Point from = history_[below(history_.size())];
  const std::size_t stream = pick_stream();
  touch(stream, usable_blocks(stream, 1), chance(2));
  const std::vector<hipGraphNode_t> to = terminals_of(stream);
  if (from.terminals.empty() || chance(2)) return;
  // Refused where the edge is there.
  (void)hipGraphAddDependencies(capturing_graph(), from.terminals.data(), to.data(), 1);
  (void)hipGetLastError();
}

void RandomCapture::add_child() {
  if (settings_.depth == 0) return;
  CaptureSettings settings;
  settings.seed = static_cast<std::uint32_t>(random_());
  settings.allocations = 1 + static_cast<std::uint32_t>(below(30));
  settings.streams = 1 + below(3);
  settings.sizes = settings_.sizes;
  settings.depth = settings_.depth - 1;
  settings.is_nested = true;
  RandomCapture child(ledger_, captures_, settings);
  const std::size_t stream = pick_stream();
  const std::vector<hipGraphNode_t> dependencies = terminals_of(stream);
  hipGraphNode_t node = nullptr;
  HIP_CHECK(hipGraphAddChildGraphNode(&node, capturing_graph(), dependencies.data(),
                                      dependencies.size(), child.graph()));
  set_terminals(stream, {node});
  node_issued(stream, {});
  has_child_ = true;
  all_.insert(all_.end(), child.all_.begin(), child.all_.end());
  escaped_.insert(escaped_.end(), child.escaped_.begin(), child.escaped_.end());
}

}  // namespace scenario

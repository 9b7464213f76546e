#include "capture_model.h"

#include <algorithm>
#include <map>

namespace hipgraft::test {
namespace {

constexpr arena::Address kChunk = 1 << 20;

bool overlap(const arena::Extent& a, const arena::Extent& b) {
  return a.address < b.end() && b.address < a.end();
}

}  // namespace

CaptureModel::CaptureModel(std::uint32_t seed, const Settings& settings,
                           const arena::ReuseRule& rule)
    : random_(seed), settings_(settings), region_(chunks_, rule, settings.plan) {
  streams_.resize(static_cast<std::size_t>(settings.streams));
  // Two neighbouring chunks: a block must not lie across their border.
  chunks_.add({kChunk, 40 * arena::kAlignment});
  chunks_.add({kChunk + 40 * arena::kAlignment, 4000 * arena::kAlignment});
  for (int i = 0; i < settings.steps; ++i) step(i);
}

void CaptureModel::step(int number) {
  std::size_t stream = pick(streams_.size());
  if (settings_.move_every != 0 && number % settings_.move_every == 0) {
    stream = (stream + 1) % streams_.size();
  }
  switch (pick(8)) {
    case 0:
    case 1:
      return allocate(stream);
    case 2:
    case 3:
      return free(stream);
    case 4:
      return join(stream, pick(streams_.size()));
    default:
      return capture_kernel(stream);
  }
}

std::vector<dag::NodeId> CaptureModel::terminal_ids(std::size_t stream) const {
  std::vector<dag::NodeId> ids;
  for (const std::size_t node : streams_[stream].terminals) ids.push_back(id_of(node));
  return ids;
}

CaptureModel::NodeSet CaptureModel::reached(std::size_t stream) const {
  NodeSet set;
  for (const std::size_t node : streams_[stream].terminals) {
    set |= ancestors_[node];
    set.set(node);
  }
  return set;
}

void CaptureModel::learn(std::size_t stream) {
  std::vector<dag::Seen> seen;
  const auto ids = terminal_ids(stream);
  dag::walk_unknown(
      ids, [&](dag::NodeId id) { return mirror_.knows(id); },
      [&](dag::NodeId id, std::vector<dag::NodeId>& out) {
        for (const std::size_t parent : dependencies_[id - id_of(0)]) out.push_back(id_of(parent));
        return true;
      },
      seen);
  for (const dag::Seen& entry : seen) mirror_.add(entry.node, entry.dependencies);
}

void CaptureModel::capture_kernel(std::size_t stream) {
  if (dependencies_.size() == kMaxNodes) return;
  const std::size_t node = dependencies_.size();
  ancestors_.push_back(reached(stream));
  dependencies_.push_back(streams_[stream].terminals);
  uses_.emplace_back();
  streams_[stream].terminals.assign(1, node);
  use(node, stream);
}

void CaptureModel::use(std::size_t node, std::size_t stream) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    if (!block.alive || pick(3) != 0) continue;
    // The program may use a block where it is allocated, or behind a join from there.
    const NodeSet before = reached(stream);
    const bool ordered = block.stream == stream || (block.known_by & ~before).none();
    if (!ordered) continue;
    block.users.push_back(node);
    uses_[node].push_back(b);
  }
}

void CaptureModel::join(std::size_t into, std::size_t from) {
  auto& terminals = streams_[into].terminals;
  for (const std::size_t node : streams_[from].terminals) {
    if (std::find(terminals.begin(), terminals.end(), node) == terminals.end()) {
      terminals.push_back(node);
    }
  }
}

void CaptureModel::allocate(std::size_t stream) {
  learn(stream);
  const arena::Bytes bytes = 1 + pick(6) * 200;
  if (settings_.watcher != nullptr) {
    const std::size_t request = blocks_.size();
    settings_.watcher->next_request(request < settings_.plan->blocks.size() &&
                                    settings_.plan->blocks[request].bytes ==
                                        arena::round_up(bytes, arena::kAlignment));
  }
  const auto address = region_.allocate(bytes, mirror_.frontier(terminal_ids(stream)));
  if (!address) return;
  Block block;
  block.extent = {*address, arena::round_up(bytes, arena::kAlignment)};
  block.stream = stream;
  block.known_by = reached(stream);
  blocks_.push_back(block);
}

void CaptureModel::free(std::size_t stream) {
  std::vector<std::size_t> alive;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].alive) alive.push_back(b);
  }
  if (alive.empty()) return;
  Block& block = blocks_[alive[pick(alive.size())]];
  // Keep the contract: join every stream that has used the block, and the one that allocated it.
  for (const std::size_t user : block.users) {
    for (std::size_t other = 0; other < streams_.size(); ++other) {
      if (reached(stream).test(user)) break;
      if (reached(other).test(user)) join(stream, other);
    }
  }
  if ((block.known_by & ~reached(stream)).any()) join(stream, block.stream);
  const std::size_t marked =
      settings_.marking == Marking::of_freeing_stream ? stream : block.stream;
  learn(marked);
  region_.free(block.extent.address, mirror_.marks(terminal_ids(marked)));
  block.alive = false;
}

int CaptureModel::unordered_sharing() const {
  const auto all_before = [&](const Block& first, const Block& second) {
    for (const std::size_t a : first.users) {
      for (const std::size_t b : second.users) {
        if (!ancestors_[b].test(a)) return false;
      }
    }
    return true;
  };
  int wrong = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (std::size_t j = i + 1; j < blocks_.size(); ++j) {
      if (!overlap(blocks_[i].extent, blocks_[j].extent)) continue;
      if (blocks_[i].alive || !all_before(blocks_[i], blocks_[j])) ++wrong;
    }
  }
  return wrong;
}

int CaptureModel::wrong_tags(std::uint32_t order_seed) const {
  std::mt19937 random(order_seed);
  std::vector<std::size_t> waiting(dependencies_.size());
  std::vector<std::vector<std::size_t>> successors(dependencies_.size());
  std::vector<std::size_t> ready;
  for (std::size_t node = 0; node < dependencies_.size(); ++node) {
    waiting[node] = dependencies_[node].size();
    for (const std::size_t parent : dependencies_[node]) successors[parent].push_back(node);
    if (waiting[node] == 0) ready.push_back(node);
  }
  std::map<arena::Address, std::size_t> tags;  // by unit of kAlignment
  std::vector<bool> touched(blocks_.size(), false);
  int wrong = 0;
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const std::size_t node = ready.back();
    ready.pop_back();
    for (const std::size_t b : uses_[node]) {
      const arena::Extent& extent = blocks_[b].extent;
      for (arena::Address at = extent.address; at < extent.end(); at += arena::kAlignment) {
        if (touched[b] && tags[at] != b) ++wrong;
        tags[at] = b;
      }
      touched[b] = true;
    }
    for (const std::size_t next : successors[node]) {
      if (--waiting[next] == 0) ready.push_back(next);
    }
  }
  return wrong;
}

int CaptureModel::reuses() const {
  int count = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (std::size_t j = i + 1; j < blocks_.size(); ++j) {
      count += overlap(blocks_[i].extent, blocks_[j].extent);
    }
  }
  return count;
}

int CaptureModel::followed() const {
  if (settings_.plan == nullptr || blocks_.empty()) return 0;
  const std::vector<arena::Extent>& extents = region_.extents();
  const auto& planned = settings_.plan->blocks;
  int count = 0;
  for (const arena::Extent& extent : extents) {
    if (extent.bytes < settings_.plan->total) continue;
    for (std::size_t i = 0; i < std::min(blocks_.size(), planned.size()); ++i) {
      count += planned[i].bytes == blocks_[i].extent.bytes &&
               blocks_[i].extent.address == extent.address + planned[i].offset;
    }
    break;
  }
  return count;
}

std::vector<arena::Address> CaptureModel::addresses() const {
  std::vector<arena::Address> addresses;
  for (const Block& block : blocks_) addresses.push_back(block.extent.address);
  return addresses;
}

}  // namespace hipgraft::test

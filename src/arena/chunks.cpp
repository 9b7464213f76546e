#include "arena/chunks.h"

#include <algorithm>

namespace hipgraft::arena {
namespace {

constexpr unsigned kOld = 2;

}  // namespace

void Chunks::Gauge::rise(Bytes by) {
  now += by;
  high = std::max(high, now);
}

void add_fence(Fences& to, Fence fence) {
  const auto at = std::lower_bound(to.begin(), to.end(), fence);
  if (at == to.end() || *at != fence) to.insert(at, fence);
}

void add_fences(Fences& to, const Fences& from) {
  for (const Fence fence : from) add_fence(to, fence);
}

const Chunks::Chunk* Chunks::chunk_of(Address address) const {
  const auto after = std::upper_bound(
      chunks_.begin(), chunks_.end(), address,
      [](Address value, const Chunk& chunk) { return value < chunk.extent.address; });
  if (after == chunks_.begin()) return nullptr;
  const Chunk& chunk = *(after - 1);
  return address < chunk.extent.end() ? &chunk : nullptr;
}

Chunks::Chunk* Chunks::chunk_of(Address address) {
  return const_cast<Chunk*>(static_cast<const Chunks*>(this)->chunk_of(address));
}

Extent Chunks::chunk_at(Address address) const {
  const Chunk* chunk = chunk_of(address);
  return chunk != nullptr ? chunk->extent : Extent{};
}

void Chunks::insert(Chunk chunk) {
  const auto at = std::lower_bound(
      chunks_.begin(), chunks_.end(), chunk.extent.address,
      [](const Chunk& other, Address value) { return other.extent.address < value; });
  chunks_.insert(at, chunk);
  total_.rise(chunk.extent.bytes);
}

void Chunks::add_held(Extent extent) {
  insert(Chunk{extent, 0, kOld});
  held_.rise(extent.bytes);
}

void Chunks::add(Extent extent) {
  insert(Chunk{extent, extent.bytes});
  const auto idle = std::lower_bound(
      idle_.begin(), idle_.end(), extent.address,
      [](const Idle& other, Address value) { return other.extent.address < value; });
  idle_.insert(idle, Idle{extent, {}});
}

void Chunks::take_from(std::size_t index, Bytes bytes, Fences& fences) {
  Idle& idle = idle_[index];
  add_fences(fences, idle.fences);
  Chunk* chunk = chunk_of(idle.extent.address);
  chunk->unheld -= bytes;
  chunk->age = 0;
  held_.rise(bytes);
  idle.extent.address += bytes;
  idle.extent.bytes -= bytes;
  if (idle.extent.bytes == 0) idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(index));
}

std::optional<Extent> Chunks::take(Bytes bytes, Fences& fences) {
  for (std::size_t i = 0; i < idle_.size(); ++i) {
    if (idle_[i].extent.bytes < bytes) continue;
    const Extent taken{idle_[i].extent.address, bytes};
    take_from(i, bytes, fences);
    return taken;
  }
  return std::nullopt;
}

bool Chunks::has_room(Bytes bytes) const {
  return std::any_of(idle_.begin(), idle_.end(),
                     [&](const Idle& idle) { return idle.extent.bytes >= bytes; });
}

bool Chunks::take_behind(Address address, Bytes bytes, Fences& fences) {
  const auto idle = std::lower_bound(
      idle_.begin(), idle_.end(), address,
      [](const Idle& other, Address value) { return other.extent.address < value; });
  if (idle == idle_.end() || idle->extent.address != address) return false;
  if (idle->extent.bytes < bytes || chunk_of(address) != chunk_of(address - 1)) return false;
  take_from(static_cast<std::size_t>(idle - idle_.begin()), bytes, fences);
  return true;
}

void Chunks::give_back(Extent extent, const Fences& fences) {
  Chunk* chunk = chunk_of(extent.address);
  chunk->unheld += extent.bytes;
  held_.fall(extent.bytes);
  if (!reuse_) return;

  auto next = std::lower_bound(
      idle_.begin(), idle_.end(), extent.address,
      [](const Idle& other, Address value) { return other.extent.address < value; });
  const bool joins_next = next != idle_.end() && next->extent.address == extent.end() &&
                          next->extent.address < chunk->extent.end();
  const bool joins_previous = next != idle_.begin() && (next - 1)->extent.end() == extent.address &&
                              (next - 1)->extent.address >= chunk->extent.address;
  if (!joins_next && !joins_previous) {
    idle_.insert(next, Idle{extent, fences});
    return;
  }
  Idle& into = joins_previous ? *(next - 1) : *next;
  add_fences(into.fences, fences);
  into.extent.bytes += extent.bytes;
  if (!joins_previous) {
    into.extent.address = extent.address;
  } else if (joins_next) {
    add_fences(into.fences, next->fences);
    into.extent.bytes += next->extent.bytes;
    idle_.erase(next);
  }
}

std::vector<Extent> Chunks::drop_idle(bool recent) {
  const auto dropping = [&](const Chunk& chunk) {
    return chunk.idle() && (recent || chunk.age >= kOld);
  };
  std::vector<Extent> dropped;
  for (const Chunk& chunk : chunks_) {
    if (!dropping(chunk)) continue;
    dropped.push_back(chunk.extent);
    total_.fall(chunk.extent.bytes);
  }
  std::erase_if(chunks_, dropping);
  std::erase_if(idle_, [this](const Idle& idle) { return !contains(idle.extent.address); });
  return dropped;
}

void Chunks::age() {
  for (Chunk& chunk : chunks_) chunk.age = std::min(chunk.age + 1, kOld);
}

Bytes Chunks::idle_bytes() const {
  Bytes total = 0;
  for (const Chunk& chunk : chunks_) total += chunk.idle() ? chunk.extent.bytes : 0;
  return total;
}

void Chunks::forget() {
  chunks_.clear();
  total_.now = 0;
  held_.now = 0;
  idle_.clear();
}

}  // namespace hipgraft::arena

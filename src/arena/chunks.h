// The chunks of one device: big pieces of device memory that many captures share in disjoint
// extents, and which parts of them nobody holds. Addresses are plain numbers: nothing here touches
// the memory or knows HIP. Not thread-safe: whoever shares it locks around it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hipgraft::arena {

using Address = std::uint64_t;
using Bytes = std::uint64_t;

constexpr Bytes kAlignment = 256;  // what hipMallocAsync promises at least

constexpr Bytes round_up(Bytes bytes, Bytes unit) { return (bytes + unit - 1) / unit * unit; }

// A queue of device work that may still touch some bytes: whoever uses them next on another queue
// must wait for it. The numbers are given by the caller.
using Fence = std::uint32_t;
using Fences = std::vector<Fence>;  // sorted, unique

void add_fences(Fences& to, const Fences& from);
void add_fence(Fences& to, Fence fence);

struct Extent {
  Address address = 0;
  Bytes bytes = 0;
  Address end() const { return address + bytes; }
};

class Chunks {
 public:
  // A number of bytes, and the most that it has been.
  struct Gauge {
    Bytes now = 0;
    Bytes high = 0;  // since the caller last set it
    void rise(Bytes by);
    void fall(Bytes by) { now -= by; }
  };

  // `reuse` false: bytes that were given back are never handed out again.
  explicit Chunks(bool reuse) : reuse_(reuse) {}

  void add(Extent chunk);

  // Adds a chunk all of which the caller holds already. It is of no size that captures ask for
  // again and again: once idle it counts as old.
  void add_held(Extent chunk);

  // Takes `bytes` nobody holds, at the lowest address that fits. Adds to `fences` what must be
  // waited for before they are used. Nothing when no chunk has room.
  std::optional<Extent> take(Bytes bytes, Fences& fences);
  // Would take(bytes) succeed?
  bool has_room(Bytes bytes) const;
  // Takes exactly the bytes from `address` on, if nobody holds them and they are in the chunk that
  // holds the byte before `address`: extents never cross from one chunk into the next.
  bool take_behind(Address address, Bytes bytes, Fences& fences);
  // Returns bytes taken before. `fences`: what may still use them.
  void give_back(Extent extent, const Fences& fences);

  // Forgets the chunks of which nobody holds a byte and returns them; without `recent` only those
  // of which nothing was taken since the last but one call of age().
  std::vector<Extent> drop_idle(bool recent);
  void age();
  // Of the chunks of which nobody holds a byte.
  Bytes idle_bytes() const;
  // Forgets all chunks; the regions that hold bytes of them must forget theirs.
  void forget();

  bool contains(Address address) const { return chunk_of(address) != nullptr; }
  // The chunk around `address`; an empty extent when there is none.
  Extent chunk_at(Address address) const;
  Bytes total_bytes() const { return total_.now; }

  Gauge& total() { return total_; }  // bytes of all chunks
  Gauge& held() { return held_; }    // of these, what somebody holds

 private:
  struct Chunk {
    Extent extent;
    Bytes unheld = 0;  // idle or spent
    unsigned age = 0;  // calls of age() since something was taken, up to 2

    bool idle() const { return unheld == extent.bytes; }
  };
  struct Idle {
    Extent extent;
    Fences fences;
  };

  const Chunk* chunk_of(Address address) const;
  Chunk* chunk_of(Address address);
  void insert(Chunk chunk);
  void take_from(std::size_t idle, Bytes bytes, Fences& fences);

  bool reuse_;
  std::vector<Chunk> chunks_;  // by address
  std::vector<Idle> idle_;     // by address; neighbours of one chunk are merged
  Gauge total_;
  Gauge held_;
};

}  // namespace hipgraft::arena

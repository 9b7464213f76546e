// Everything that hipgraft knows about the program's captures, graphs and arena memory, behind one
// lock. The lock is never held across a call into HIP: such a call may wait for a lock under which
// the runtime calls back into the program, and so into us.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "abi/types.h"
#include "arena/block_index.h"
#include "arena/chunks.h"
#include "arena/plan.h"
#include "arena/region.h"
#include "config/options.h"
#include "dag/mirror.h"
#include "report/model.h"
#include "util/histogram.h"

namespace hipgraft::capture {

// A call of the program.
struct Call {
  const char* name;
  const void* caller;  // return address
};

// What hipgraft answers in place of the runtime; nothing: make the call natively.
using Answer = std::optional<abi::hipError_t>;

// A stream across calls. Handle 2 (hipStreamPerThread) means another stream in each thread, handles
// 0 and 1 (no stream, the legacy stream) another on each device.
struct StreamKey {
  std::uint64_t handle = 0;
  std::uint64_t scope = 0;
  bool operator==(const StreamKey&) const = default;
  bool operator<(const StreamKey& other) const {
    return handle != other.handle ? handle < other.handle : scope < other.scope;
  }
  bool per_thread() const;
};

constexpr std::uint64_t kPerThreadHandle = 2;
inline bool StreamKey::per_thread() const { return handle == kPerThreadHandle; }
inline abi::hipStream_t per_thread_stream() {
  return reinterpret_cast<abi::hipStream_t>(kPerThreadHandle);
}
// The stream that a `_spt` function means by `stream`: no stream and the legacy stream are the
// thread's own.
abi::hipStream_t spt(abi::hipStream_t stream);
std::uint64_t this_thread();
// May ask the runtime for the current device: hold no lock.
StreamKey key_of(abi::hipStream_t stream);

// The arena memory of one capture on one device. Lives as long as a graph, an exec or a block that
// the program has not freed; its bytes then go back to the chunks, with the fences that say which
// streams may still be running launches that use them.
struct Memory : std::enable_shared_from_this<Memory> {
  Memory(int on, arena::Chunks& chunks, const arena::ReuseRule& rule, arena::PlanRef plan)
      : device(on), region(chunks, rule, std::move(plan)) {}
  ~Memory();  // under the lock, like all of State
  // The bytes are gone with their chunks. With the lock held.
  void forget();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int device;
  arena::Region region;
  std::atomic<int> launching{0};  // launches with the lock that use it and are being issued
  std::atomic<std::atomic<int>*> settled{nullptr};  // see launch.cpp
  std::vector<arena::Address> dormant;  // blocks that the next launch of the graph allocates
};
using MemoryRef = std::shared_ptr<Memory>;

// A block that its capture has not freed. Each launch of the graph allocates it: it is then the
// program's until freed, by any free call, and keeps its memory alive.
struct Block {
  Memory* memory = nullptr;
  MemoryRef owned;          // by the program; null: not allocated now
  std::uint64_t bytes = 0;  // as asked
};

// A free that the runtime will be told of when no capture is in its way; see beside.h.
struct FreeBeside {
  void* pointer = nullptr;
  int device = 0;
  abi::hipEvent_t behind = nullptr;  // of ours, recorded where the program freed
};

// What the program has made a memory pool for.
struct Pool {
  int device = 0;
  bool exportable = false;  // to other processes
};

// Memory that hipMalloc or one of its kin has given to a thread that captures.
struct HostBlock {
  std::uint64_t bytes = 0;
  int device = 0;
};

// What an entry of the report is made from.
struct Record {
  report::Capture data;
  const void* caller = nullptr;
  std::atomic<std::uint64_t> launches{0};
  util::Histogram host_ns;  // time in hipGraphLaunch: of the first launches, then of some
};
using RecordRef = std::shared_ptr<Record>;

// What a graph or an exec keeps alive.
struct Holder {
  std::vector<MemoryRef> memories;    // allocated by each launch
  std::vector<MemoryRef> borrowed;    // of blocks that another graph allocates and this one frees
  std::vector<arena::Address> frees;  // those blocks
  std::vector<std::uint64_t> nested;  // handles that the program has of graphs inside this one
  RecordRef record;                   // of the capture it comes from
};

// A graph that execs were made from, while it exists. Its number tells it from a later one with the
// same handle.
struct Source {
  std::uint64_t number = 0;
  int in_use = 0;  // an exec is being made from it
};

// An exec of the program, on runtimes where updates pile up; see execs.h.
struct Renewable {
  abi::hipGraph_t source = nullptr;
  std::uint64_t source_number = 0;
  unsigned long long flags = 0;          // that it was made with
  int device = 0;                        // that it was made on
  std::uint64_t thread = 0;              // that made it
  std::uint64_t nodes = 0;               // 0: not counted yet
  std::uint64_t updates = 0;             // since it was made or renewed
  bool kept = false;                     // never to be renewed again
  abi::hipGraphExec_t behind = nullptr;  // null: itself
};

// A capture from begin to end.
struct Session {
  std::uint64_t id = 0;
  abi::hipStream_t stream = nullptr;  // the origin
  abi::hipGraph_t graph = nullptr;    // as the runtime calls it meanwhile
  StreamKey origin;
  int device = 0;                     // the stream's
  abi::hipStreamCaptureMode asked{};  // by the program; the runtime is always asked for Relaxed
  std::uint64_t thread = 0;           // that began it
  Call begun{};
  report::Site site;                    // of the call that began it
  std::vector<abi::hipStream_t> forks;  // streams that have joined
  std::vector<dag::NodeId> left;        // terminals of forks that were destroyed
  std::vector<std::uint64_t> foreign;   // nodes that the graph had before
  dag::Mirror mirror;
  Holder holder;
  std::vector<MemoryRef> own;                       // by device; also in holder
  std::map<arena::Address, HostBlock> host_blocks;  // see host_blocks.h
  std::uint64_t avoided_allocs = 0;
  std::uint64_t avoided_frees = 0;
  std::uint64_t poisonings = 0;   // memset nodes of HIPGRAFT_ARENA=poison
  std::uint64_t empty_frees = 0;  // empty nodes in place of free nodes
  report::ArenaUse arena;
  std::map<const void*, report::Requester> requesters;  // by return address
  std::optional<report::Cause> first_cause;
};
using SessionRef = std::shared_ptr<Session>;

// A stream on which graphs with arena memory were launched: what a fence names.
struct Timeline {
  StreamKey key;
  abi::hipStream_t stream = nullptr;
  int device = 0;
  std::uint64_t issues = 0;           // of work, by launches that take the lock
  abi::hipEvent_t event = nullptr;    // of ours, recorded on this stream only
  abi::hipEvent_t relayed = nullptr;  // the same point, recorded on a stream of ours
  bool sealed = false;                // `relayed` covers all launches so far
  bool rejoin = false;                // the stream captures; it must wait for `relayed` afterwards
  bool gone = false;                  // the stream was destroyed
  bool unused = false;                // the number may be given to another stream
};

struct Device {
  explicit Device(bool reuse) : chunks(reuse) {}
  arena::Chunks chunks;
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;  // a launch was issued, an ordering finished

  std::unordered_map<std::uint64_t, SessionRef> sessions;  // by the runtime's capture id
  std::map<int, Device> devices;
  std::unordered_map<arena::Address, Block> blocks;
  arena::BlockIndex placed;  // also blocks that were freed, while their memory lives
  std::unordered_set<arena::Address> zombies;  // of captures that came to nothing
  std::unordered_map<std::uint64_t, Holder> graphs;
  std::unordered_map<std::uint64_t, Holder> execs;
  std::unordered_map<std::uint64_t, Renewable> renewables;  // by exec
  std::unordered_map<std::uint64_t, Source> sources;        // by graph
  std::uint64_t sources_made = 0;
  std::unordered_set<std::uint64_t> inner_graphs;  // that end with another graph
  std::vector<Timeline> timelines;
  std::deque<std::atomic<int>> issuing;  // by timeline: launches that are being issued now
  std::map<StreamKey, arena::Fence> timeline_of;
  std::vector<FreeBeside> frees_beside;
  // By call site and device; see plans.h.
  std::map<std::pair<const void*, int>, std::vector<arena::PlanRef>> plans;
  std::map<abi::hipMemPool_t, Pool> pools;  // that the program has made
  bool ordering = false;                    // a thread is recording or waiting for our events
  std::vector<RecordRef> records;
  std::unordered_map<const void*, report::Site> sites;  // by return address

  // Read without the lock, as a first look.
  std::atomic<int> live_sessions{0};  // with those that the runtime is beginning or ending
  std::atomic<int> known_timelines{0};
  std::atomic<int> known_frees_beside{0};
  std::atomic<int> renewed{0};  // execs that another one stands behind
  std::atomic<bool> user_objects{false};
  std::atomic<arena::Address> lowest{~arena::Address{0}};  // around all chunks
  std::atomic<arena::Address> highest{0};

  Device& device(int number);
};

// Changes with what any launch may have remembered of an exec or a stream.
inline constinit std::atomic<std::uint64_t> generation{1};

// Never destroyed: the program may call HIP until its very end.
State& state();

// Set once, before anything else here is used.
void configure(const config::Options& options);
const config::Options& options();

const arena::ReuseRule& reuse_rule();

// Whether `pointer` lies between the lowest and the highest byte of the arena: a first look that
// takes no lock.
bool near_arena(const void* pointer);

// Whether `pointer` lies in arena memory. Any thread, no lock needed.
bool in_arena(const void* pointer);

}  // namespace hipgraft::capture

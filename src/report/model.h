// The report as plain data. Whoever knows HIP fills it in; the writers of this folder only print
// it. The JSON keys of schema "hipgraft.report/1" are these names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hipgraft::report {

// A place in the program: the code that called into HIP. `symbol` is demangled and may be empty;
// `offset` is from the module's load address.
struct Site {
  std::string symbol;
  std::string module;
  std::uint64_t offset = 0;
};

// Nodes of one graph by type, under HIP's own type names.
struct NodeCounts {
  std::uint64_t kernel = 0;
  std::uint64_t memcpy = 0;
  std::uint64_t memset = 0;
  std::uint64_t host = 0;
  std::uint64_t child_graph = 0;
  std::uint64_t empty = 0;
  std::uint64_t event_wait = 0;
  std::uint64_t event_record = 0;
  std::uint64_t mem_alloc = 0;
  std::uint64_t mem_free = 0;
  std::uint64_t other = 0;

  std::uint64_t total() const {
    return kernel + memcpy + memset + host + child_graph + empty + event_wait + event_record +
           mem_alloc + mem_free + other;
  }
  bool operator==(const NodeCounts&) const = default;
};

struct NamedCount {
  std::string name;
  std::uint64_t count = 0;
};

// A call that did not do what was asked, the reason, and where it was made.
struct Cause {
  std::string call;   // "hipMallocAsync"
  std::string error;  // "hipErrorOutOfMemory"
  Site site;
  std::string detail;  // one sentence for a person
};

struct Block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool escaped = false;
};

// Requests for memory by one place in the program.
struct Requester {
  Site site;
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
};

struct ArenaUse {
  std::uint64_t requests = 0;
  std::uint64_t bytes_requested = 0;
  std::uint64_t high_water = 0;   // bytes of distinct addresses that the capture used
  std::uint64_t lower_bound = 0;  // most bytes alive at once in capture order
  std::uint64_t chunk_bytes = 0;  // of the chunks that the capture has blocks in
  std::uint64_t chunks = 0;
  std::uint64_t grown_in_capture = 0;  // chunks got from the runtime while the capture ran
  std::uint64_t escapes = 0;           // blocks not freed in the capture
  std::uint64_t escaped_bytes = 0;
  std::vector<Requester> requesters;         // those that asked for most, most first
  std::vector<NamedCount> native_fallbacks;  // name is the reason
  std::vector<Block> blocks;                 // with HIPGRAFT_REPORT_DETAIL
};

struct Replays {
  std::uint64_t count = 0;
  std::uint64_t ordered = 0;  // launches that had to be ordered after one on another stream
  double host_us_p50 = 0;     // time inside hipGraphLaunch, microseconds
  double host_us_p99 = 0;
  double host_us_max = 0;
};

struct Node {
  std::uint64_t id = 0;
  std::string kind;
  std::string name;  // kernels only
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> edges;  // by index into nodes
};

enum class Status { ok, broken, abandoned };

struct Capture {
  std::uint64_t id = 0;
  std::uint64_t count = 0;  // captures of this site with this composition
  Site site;
  std::uint64_t stream = 0;
  std::string mode;  // as the program asked: "global", "thread_local", "relaxed"
  Status status = Status::ok;
  bool has_first_cause = false;
  Cause first_cause;
  NodeCounts native;
  NodeCounts captured;
  std::uint64_t edges = 0;
  std::uint64_t width = 0;
  std::uint64_t critical_path = 0;  // nodes
  bool linearized = false;
  std::vector<NamedCount> kernels;
  ArenaUse arena;
  bool has_graph = false;  // with HIPGRAFT_REPORT_DETAIL
  Graph graph;
  std::uint64_t execs = 0;
  Replays replays;
};

struct Report {
  std::uint64_t pid = 0;
  std::string exe;
  std::vector<std::string> args;
  std::string runtime_path;
  std::string runtime_version;
  std::string route;  // "symbol"
  std::vector<std::string> devices;
  std::vector<std::pair<std::string, std::string>> options;  // variable, value in force
  std::vector<Capture> captures;
  std::uint64_t arena_held_bytes = 0;  // got from the runtime and not given back
  std::uint64_t arena_idle_bytes = 0;  // of these, in chunks that nothing uses
};

}  // namespace hipgraft::report

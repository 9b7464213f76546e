// The arena by itself: how many bytes it needs, and what a call costs.
//
//   arena-bench bytes [CAPTURES [TRACE...]]
//   arena-bench time
//
// CAPTURES: random ones for each shape (200). Bytes are over the lower bound that no placement can
// beat, beside the ways of others: no reuse; reuse by the stream that allocated and freed; a pool
// for each allocating stream that takes a block back when the graph orders its uses first.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string_view>

#include "arena/region.h"
#include "bound.h"
#include "trace.h"

using namespace hipgraft;
using namespace hipgraft::bench;

namespace {

constexpr arena::Bytes kRoom = arena::Bytes{1} << 44;  // never all of it
const arena::OrderedReuse kOrdered;

arena::Bytes held(const arena::Region& region) {
  arena::Bytes bytes = 0;
  for (const arena::Extent& extent : region.extents()) bytes += extent.bytes;
  return bytes;
}

struct Placed {
  arena::Bytes bytes = 0;
  arena::PlanRef plan;
};

Placed one_region(const std::vector<Call>& calls, arena::PlanRef plan) {
  arena::Chunks chunks(true);
  chunks.add({kRoom, kRoom});
  arena::Region region(chunks, kOrdered, std::move(plan));
  std::vector<arena::Address> addresses;
  for (const Call& call : calls) {
    if (call.frees) {
      region.free(addresses[call.block], call.marks);
    } else {
      addresses.push_back(region.allocate(call.bytes, call.frontier).value());
    }
  }
  const arena::Bytes bytes = held(region);
  return {bytes, region.finish()};
}

// A pool for each stream that allocates. `foreign`: a block that another stream freed may return
// before the capture ends.
arena::Bytes pools(const std::vector<Call>& calls, bool foreign) {
  struct Pool {
    arena::Chunks chunks{true};
    arena::Region region{chunks, kOrdered};
    Pool() { chunks.add({kRoom, kRoom}); }
  };
  std::map<std::size_t, Pool> by_stream;
  std::vector<std::pair<Pool*, arena::Address>> blocks;
  std::vector<std::size_t> owners;
  for (const Call& call : calls) {
    if (!call.frees) {
      Pool& pool = by_stream[call.stream];
      blocks.emplace_back(&pool, pool.region.allocate(call.bytes, call.frontier).value());
      owners.push_back(call.stream);
      continue;
    }
    dag::Marks marks = call.marks;
    if (!foreign && owners[call.block] != call.stream) marks.never = true;
    blocks[call.block].first->region.free(blocks[call.block].second, std::move(marks));
  }
  arena::Bytes bytes = 0;
  for (const auto& [stream, pool] : by_stream) bytes += held(pool.region);
  return bytes;
}

// Ratios to the bound.
struct Figures {
  double none = 0;
  double same_stream = 0;
  double pools = 0;
  double arena = 0;
  double planned = 0;
};

Figures compare(const std::vector<Call>& calls) {
  arena::Bytes all = 0;
  for (const Call& call : calls) all += arena::round_up(call.bytes, arena::kAlignment);
  const auto bound = static_cast<double>(lower_bound(calls));
  const Placed first = one_region(calls, nullptr);
  const Placed second = one_region(calls, first.plan);
  const auto ratio = [&](arena::Bytes bytes) { return static_cast<double>(bytes) / bound; };
  return {ratio(all), ratio(pools(calls, false)), ratio(pools(calls, true)), ratio(first.bytes),
          ratio(second.bytes)};
}

double quantile(std::vector<double> values, double part) {
  const auto index = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<std::size_t>(index)];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void print_heading(const char* first) {
  std::printf("%-26s %8s %12s %10s %8s %8s", first, "no reuse", "same stream", "own pools", "arena",
              "planned");
}

void print_row(const char* name, const Figures& f) {
  std::printf("%-26s %8.2f %12.2f %10.2f %8.3f %8.3f", name, f.none, f.same_stream, f.pools,
              f.arena, f.planned);
}

void compare_files(std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  print_heading("bytes over the bound");
  std::printf("\n");
  for (const std::string& path : paths) {
    print_row(std::filesystem::path(path).stem().c_str(), compare(calls_of(read_trace(path))));
    std::printf("\n");
  }
  std::printf("\n");
}

void compare_random(std::uint32_t captures) {
  const RandomShape shapes[] = {
      {"1 stream, log-normal", 1, Sizes::log_normal, 0},
      {"1 stream, size classes", 1, Sizes::classes, 0},
      {"1 stream, 64 KiB multiples", 1, Sizes::multiples, 0},
      {"2 streams", 2, Sizes::log_normal, 0.1},
      {"4 streams, few waits", 4, Sizes::log_normal, 0.03},
      {"4 streams, more waits", 4, Sizes::log_normal, 0.3},
      {"8 streams", 8, Sizes::log_normal, 0.1},
  };
  print_heading("mean of random captures");
  std::printf(" %10s %12s\n", "p95 arena", "p95 planned");
  for (const RandomShape& shape : shapes) {
    std::vector<double> each[5];
    for (std::uint32_t seed = 1; seed <= captures; ++seed) {
      const Figures f = compare(calls_of(random_trace(shape, seed, 400)));
      const double values[] = {f.none, f.same_stream, f.pools, f.arena, f.planned};
      for (std::size_t i = 0; i < 5; ++i) each[i].push_back(values[i]);
    }
    print_row(shape.name,
              {mean(each[0]), mean(each[1]), mean(each[2]), mean(each[3]), mean(each[4])});
    std::printf(" %10.3f %12.3f\n", quantile(each[3], 0.95), quantile(each[4], 0.95));
  }
}

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begun).count();
}

// Allocations and frees in batches while some number of blocks are alive.
class Cost {
 public:
  Cost(std::size_t live, std::size_t streams) : live_(live), streams_(streams) {}

  // `rounds` batches after the warm-up. Returns the plan.
  arena::PlanRef measure(std::size_t rounds, arena::PlanRef plan) {
    arena::Chunks chunks(true);
    chunks.add({kRoom, kRoom});
    arena::Region region(chunks, kOrdered, std::move(plan));
    dag::Mirror mirror;
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> size(11, 2);
    std::vector<std::vector<dag::NodeId>> terminals(streams_);
    std::vector<arena::Address> alive;
    const auto kernel = [&](std::size_t stream) {
      const dag::NodeId node = mirror.size() + 1;
      if (random() % 16 == 0) {
        for (const dag::NodeId other : terminals[random() % streams_]) {
          if (other != node - 1) terminals[stream].push_back(other);
        }
      }
      mirror.add(node, terminals[stream]);
      terminals[stream].assign(1, node);
    };
    allocate_ns.clear();
    free_ns.clear();
    const std::size_t warm_up = live_ * 2 / kBatch;
    for (std::size_t round = 0; round < warm_up + rounds; ++round) {
      const std::size_t stream = random() % streams_;
      kernel(stream);
      arena::Bytes bytes[kBatch];
      for (arena::Bytes& each : bytes) {
        each = 1 + static_cast<arena::Bytes>(std::min(size(random), 1e9));
      }
      auto begun = Clock::now();
      for (const arena::Bytes each : bytes) {
        alive.push_back(region.allocate(each, mirror.frontier(terminals[stream])).value());
      }
      if (round >= warm_up) allocate_ns.push_back(ns_since(begun) / kBatch);
      kernel(stream);
      if (alive.size() < live_) continue;
      arena::Address freed[kBatch];
      for (arena::Address& each : freed) {
        std::swap(alive[random() % alive.size()], alive.back());
        each = alive.back();
        alive.pop_back();
      }
      begun = Clock::now();
      for (const arena::Address each : freed) {
        region.free(each, mirror.marks(terminals[stream]));
      }
      if (round >= warm_up) free_ns.push_back(ns_since(begun) / kBatch);
    }
    begun_finish = Clock::now();
    arena::PlanRef made = region.finish();
    finish_ms = ns_since(begun_finish) / 1e6;
    return made;
  }

  std::vector<double> allocate_ns;
  std::vector<double> free_ns;
  double finish_ms = 0;

 private:
  static constexpr std::size_t kBatch = 16;
  std::size_t live_;
  std::size_t streams_;
  Clock::time_point begun_finish;
};

void print_cost(const char* plan, std::size_t live, std::size_t streams, const Cost& cost) {
  std::printf("%6zu %8zu %-5s %10.0f %8.0f %8.0f %10.0f %8.0f %10.1f\n", live, streams, plan,
              quantile(cost.allocate_ns, 0.5), mean(cost.allocate_ns),
              quantile(cost.allocate_ns, 0.95), quantile(cost.free_ns, 0.5), mean(cost.free_ns),
              cost.finish_ms);
}

void measure_costs() {
  std::printf("%6s %8s %-5s %10s %8s %8s %10s %8s %10s\n", "live", "streams", "plan", "alloc ns",
              "mean", "p95", "free ns", "mean", "finish ms");
  for (const std::size_t live : {100, 1000, 10000}) {
    for (const std::size_t streams : {1, 4}) {
      Cost cost(live, streams);
      // Up to 1,000 live blocks there are few enough requests for a packed plan.
      const std::size_t rounds = live <= 1000 ? 120 : 1000;
      const arena::PlanRef plan = cost.measure(rounds, nullptr);
      print_cost("no", live, streams, cost);
      cost.measure(rounds, plan);
      print_cost("yes", live, streams, cost);
    }
  }
}

// A mirror that is asked every few nodes, as allocations ask it.
void measure_mirror(std::size_t nodes, std::size_t streams) {
  std::vector<std::vector<dag::NodeId>> dependencies{{}};
  std::vector<std::vector<dag::NodeId>> terminals(streams);
  dag::Mirror mirror;
  std::mt19937_64 random(1);
  std::size_t visits = 0;
  std::size_t questions = 0;
  double ns = 0;
  for (dag::NodeId node = 1; node <= nodes; ++node) {
    const std::size_t stream = random() % streams;
    if (random() % 8 == 0) {
      for (const dag::NodeId other : terminals[random() % streams]) {
        auto& mine = terminals[stream];
        if (std::find(mine.begin(), mine.end(), other) == mine.end()) mine.push_back(other);
      }
    }
    dependencies.push_back(terminals[stream]);
    terminals[stream].assign(1, node);
    if (random() % 4 != 0) continue;
    const auto begun = Clock::now();
    std::vector<dag::Seen> seen;
    dag::walk_unknown(
        terminals[stream], [&](dag::NodeId id) { return mirror.knows(id); },
        [&](dag::NodeId id, std::vector<dag::NodeId>& list) {
          ++visits;
          list = dependencies[id];
          return true;
        },
        seen);
    for (const dag::Seen& entry : seen) mirror.add(entry.node, entry.dependencies);
    const dag::Frontier frontier = mirror.frontier(terminals[stream]);
    const dag::Marks marks = mirror.marks(terminals[stream]);
    ns += ns_since(begun);
    questions += frontier.covers(marks.places[0]) ? 1 : 0;
  }
  std::printf("%8zu %8zu %10zu %8zu %8zu %10.1f %12.0f\n", nodes, streams, questions, mirror.size(),
              visits, ns / 1e6, ns / static_cast<double>(nodes));
}

void measure_mirrors() {
  std::printf("\n%8s %8s %10s %8s %8s %10s %12s\n", "nodes", "streams", "questions", "known",
              "visits", "ms", "ns a node");
  for (const std::size_t nodes : {10000, 100000}) {
    for (const std::size_t streams : {1, 8, 64}) measure_mirror(nodes, streams);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "bytes") {
    const int captures = argc > 2 ? std::atoi(argv[2]) : 200;
    if (argc > 3) compare_files({argv + 3, argv + argc});
    if (captures > 0) compare_random(static_cast<std::uint32_t>(captures));
    return 0;
  }
  if (what == "time") {
    measure_costs();
    measure_mirrors();
    return 0;
  }
  std::fprintf(stderr, "usage: arena-bench bytes [CAPTURES [TRACE...]] | time\n");
  return 2;
}

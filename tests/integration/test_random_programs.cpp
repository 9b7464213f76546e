// Programs made up by seeds: each captures some graphs, runs them in random orders and as execs,
// and lets them go. Two oracles judge each graph that the runtime reports (ledger.h).
//
// RANDOM_PROGRAMS=N runs N programs instead, RANDOM_PROGRAM_SEED=S begins with seed S: a failure
// names the seed, and RANDOM_PROGRAMS=1 RANDOM_PROGRAM_SEED=S runs its program alone.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "random_capture.h"

using namespace scenario;

namespace {

constexpr std::size_t kMostUses = 1 << 17;

// Mostly on the runtime that most programs have.
constexpr std::uint32_t kPrograms = HIP_VERSION_MAJOR >= 7   ? 1400
                                    : HIP_VERSION_MAJOR == 6 ? 1000
                                                             : 600;

// 5.7 launches forked graphs in an order that their edges forbid. 7.2 crashes in the launch of some
// graphs that have child graphs beside other branches. Both are so without hipgraft.
constexpr bool kLaunchesForks = HIP_VERSION_MAJOR >= 6;
constexpr bool kLaunchesChildGraphs = HIP_VERSION_MAJOR == 6;

// On 5.7 hipGraphDestroyNode now and then leaves a graph that crashes when it is destroyed,
// whatever hipgraft does around the call.
constexpr bool kDestroysNodes = HIP_VERSION_MAJOR >= 6;

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

// A captured graph and what it became.
struct Round {
  std::vector<std::uint32_t> blocks;
  std::vector<std::uint32_t> escaped;  // not freed yet
  apps::Graph graph;
  apps::GraphExec exec;
  bool is_launchable = true;
  bool is_owned = false;  // escaped blocks are the program's: it was launched
};

class Program {
 public:
  Program(std::uint32_t seed, Ledger& ledger, const apps::Stream& stream)
      : random_(seed), ledger_(ledger), stream_(stream.get()) {
    ledger_.clear();
    settings_.seed = static_cast<std::uint32_t>(random_());
    settings_.allocations = pick_allocations();
    settings_.streams = 1 + below(RandomCapture::kMostStreams);
    settings_.sizes = static_cast<Sizes>(below(kSizeLaws));
    settings_.depth = static_cast<int>(below(3));
  }

  // What was wrong; empty if nothing.
  std::string run() {
    const std::size_t rounds = settings_.allocations > 400 ? 1 + below(2) : 1 + below(3);
    for (std::size_t i = 0; i < rounds && fault_.empty(); ++i) run_round(i);
    for (Round& round : rounds_) {
      drop(round);
      free_escaped(round);
    }
    return fault_;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

  // Most programs are small, a few are large.
  std::uint32_t pick_allocations() {
    const double share = static_cast<double>(below(1000)) / 1000;
    return static_cast<std::uint32_t>(10 * std::pow(chance(8) ? 200.0 : 20.0, share));
  }

  void run_round(std::size_t number) {
    if (number != 0 && chance(2)) {  // not the same program to its end
      settings_.diverge_after = static_cast<std::uint32_t>(below(settings_.allocations));
      settings_.divergent_seed = static_cast<std::uint32_t>(random_());
    }
    Round round = capture_round();
    if (!fault_.empty()) return;
    check_graph(round);
    if (chance(4)) {
      destroy_nodes(round.graph.get());
      check_graph(round);
    }
    launch(round);
    rounds_.push_back(std::move(round));
    for (Round& some : rounds_) {
      if (chance(2)) some.graph = {};
      if (chance(2)) some.exec = {};
      if (chance(2)) free_escaped(some);
      settle(some);
    }
  }

  Round capture_round() {
    Round round;
    CaptureSettings settings = settings_;
#if HIP_VERSION >= 60100000
    const bool is_second = !rounds_.empty() && rounds_.back().graph.get() != nullptr && chance(4);
    if (is_second) settings.into = rounds_.back().graph.get();
#endif
    RandomCapture captured(ledger_, captures_, settings);
    round.blocks = captured.all_blocks();
    round.escaped = captured.escaped();
    round.graph = captured.take_graph();
    round.is_launchable = kLaunchesForks && (kLaunchesChildGraphs || !captured.has_child());
    if (settings.into != nullptr) take_over(rounds_.back(), round);
    if (memory_nodes(round.graph.get()) != 0) fail("captured", "memory nodes");
    return round;
  }

  // The former round's graph goes on as the new one's.
  void take_over(Round& former, Round& round) {
    round.blocks.insert(round.blocks.end(), former.blocks.begin(), former.blocks.end());
    round.escaped.insert(round.escaped.end(), former.escaped.begin(), former.escaped.end());
    if (former.is_owned) free_escaped(former);  // a launch will allocate them again
    round.is_launchable &= former.is_launchable;
    former.graph.release();
    former.exec = {};
    rounds_.pop_back();
  }

  void check_graph(const Round& round) {
    const graph_order::Plan plan(round.graph.get());
    const graph_order::Plan* const plans[] = {&plan};
    fail("by the graph's edges", ledger_.find_race(plans));
    const std::size_t orders = plan.nodes().size() < 200 ? 6 : 2;
    for (std::size_t i = 0; i < orders && fault_.empty(); ++i) {
      const auto order = static_cast<std::uint32_t>(random_());
      fail("in order " + std::to_string(order),
           ledger_.find_wrong_tag([&] { plan.run(order, stream_); }));
    }
  }

  // Nodes of no use to the program, but for the order that hangs on them.
  void destroy_nodes(hipGraph_t graph) {
    if (!kDestroysNodes) return;
    std::size_t count = 0;
    HIP_CHECK(hipGraphGetNodes(graph, nullptr, &count));
    std::vector<hipGraphNode_t> nodes(count);
    if (count != 0) HIP_CHECK(hipGraphGetNodes(graph, nodes.data(), &count));
    for (const hipGraphNode_t node : nodes) {
      hipGraphNodeType type{};
      HIP_CHECK(hipGraphNodeGetType(node, &type));
      if (type == hipGraphNodeTypeGraph || ledger_.is_touch(node) || chance(2)) continue;
      HIP_CHECK(hipGraphDestroyNode(node));
    }
  }

  void launch(Round& round) {
    if (!fault_.empty() || !round.is_launchable || chance(4)) return;
    round.exec = apps::instantiate(round.graph);
    const std::size_t times = below(3);
    for (std::size_t i = 0; i < times && fault_.empty(); ++i) {
      fail("launched",
           ledger_.find_wrong_tag([&] { HIP_CHECK(hipGraphLaunch(round.exec.get(), stream_)); }));
      round.is_owned = true;
    }
  }

  void drop(Round& round) {
    round.graph = {};
    round.exec = {};
    settle(round);
  }

  // Where neither graph nor exec is left, only the escaped blocks hold memory.
  void settle(Round& round) {
    if (round.graph.get() != nullptr || round.exec.get() != nullptr) return;
    for (const std::uint32_t index : round.blocks) {
      const auto& kept = round.escaped;
      const bool is_kept =
          round.is_owned && std::find(kept.begin(), kept.end(), index) != kept.end();
      if (!is_kept) ledger_.block(index).gone = true;
    }
    // What no launch has allocated is nobody's now: its address may be another block's.
    if (!round.is_owned) round.escaped.clear();
  }

  void free_escaped(Round& round) {
    if (round.is_owned) look_at(round.escaped);
    for (const std::uint32_t index : round.escaped) {
      void* const bytes = ledger_.block(index).bytes;
      const hipError_t expected = round.is_owned ? hipSuccess : hipErrorInvalidValue;
      const bool by_host = chance(2);
      const hipError_t freed = by_host ? hipFree(bytes) : hipFreeAsync(bytes, stream_);
      if (freed != expected) {
        fail(by_host ? "hipFree" : "hipFreeAsync", hipGetErrorName(freed));
      }
      (void)hipGetLastError();
    }
    if (round.is_owned) round.escaped.clear();
    settle(round);
  }

  void look_at(const std::vector<std::uint32_t>& blocks) {
    if (!ledger_.has_room(blocks.size())) return;
    const Ledger::Touch look = ledger_.record_look(blocks);
    fail("after the graph",
         ledger_.find_wrong_tag([&] { launch_touch(look.uses, look.found, look.count, stream_); }));
  }

  void fail(const std::string& when, const std::string& fault) {
    if (fault_.empty() && !fault.empty()) fault_ = when + ": " + fault;
  }

  std::mt19937 random_;
  Ledger& ledger_;
  hipStream_t stream_;
  CaptureSettings settings_;
  std::uint32_t captures_ = 0;
  std::vector<Round> rounds_;
  std::string fault_;
};

std::string run_program(std::uint32_t seed, Ledger& ledger, const apps::Stream& stream) {
  try {
    return Program(seed, ledger, stream).run();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE_BEGIN("random programs");

TEST_CASE("no order of a random program's graph sees another block's bytes") {
  const std::uint32_t first = number_from("RANDOM_PROGRAM_SEED", HIP_VERSION_MAJOR * 1'000'000);
  const std::uint32_t programs = number_from("RANDOM_PROGRAMS", kPrograms);
  Ledger ledger(kMostUses);
  const apps::Stream stream = apps::make_non_blocking_stream();
  std::uint64_t blocks = 0;
  std::uint64_t reused = 0;
  int faults = 0;
  for (std::uint32_t seed = first; seed < first + programs && faults < 3; ++seed) {
    const std::string fault = run_program(seed, ledger, stream);
    blocks += ledger.blocks();
    reused += ledger.reused();
    if (fault.empty()) continue;
    ++faults;
    FAIL_CHECK("RANDOM_PROGRAMS=1 RANDOM_PROGRAM_SEED=" << seed << ": " << fault);
  }
  MESSAGE(programs << " programs, " << blocks << " blocks, " << reused << " in reused bytes");
  CHECK(reused > blocks / 4);
}

TEST_SUITE_END();

// A simulator step: 234 work nodes and 24 pairs of stream-ordered allocations and frees, run
// eagerly or replayed from a captured graph, with every value checked against a CPU reference.
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph_reader.h"
#include "hip_support.h"
#include "measurements.h"
#include "simulator.h"
#include "step_plan.h"
#include "step_reference.h"

namespace {

enum ExitCode { kRight = 0, kWrong = 1, kUsage = 2, kHipFailure = 3 };

class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  std::uint32_t steps = 10;
  std::uint32_t warmup = 0;
  std::uint32_t elements = 4096;
  bool eager = false;
  sim::SimulatorOptions simulator;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::string graph_file;
  std::string json_file;
};

struct AgentMaps {
  double maps = 0;
  double unmaps = 0;
};

struct Outcome {
  std::optional<apps::GraphContents> graph;
  std::vector<double> host_us;
  std::optional<AgentMaps> maps_per_replay;
  std::uint64_t checksum = 0;
  bool right = true;
};

void add_options(CLI::App& app, Options& options) {
  static const std::map<std::string, sim::Launches> launches{{"kernel", sim::Launches::kRegistered},
                                                             {"module", sim::Launches::kModule},
                                                             {"both", sim::Launches::kAlternating}};
  static const std::map<std::string, hipStreamCaptureMode> modes{
      {"global", hipStreamCaptureModeGlobal},
      {"thread_local", hipStreamCaptureModeThreadLocal},
      {"relaxed", hipStreamCaptureModeRelaxed}};
  app.add_option("--steps", options.steps, "measured steps")
      ->check(CLI::Range(1u, 1000000u))
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "steps before the measured ones")
      ->check(CLI::Range(0u, 1000000u))
      ->capture_default_str();
  app.add_option("--elements", options.elements, "size of a field; temporaries scale with it")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  auto* eager = app.add_flag("--eager", options.eager, "issue every step anew");
  app.add_flag("--graph")->description("capture one step and replay it (default)")->excludes(eager);
  app.add_flag("--fork", options.simulator.fork, "three streams joined by events, not one");
  app.add_flag("--prealloc", options.simulator.preallocate,
               "allocate the temporaries once, before the first step");
  app.add_option("--launch", options.simulator.launches,
                 "by hipLaunchKernel, hipModuleLaunchKernel, or in turns")
      ->transform(CLI::CheckedTransformer(launches))
      ->default_str("both");
  app.add_option("--mode", options.mode, "capture mode")
      ->transform(CLI::CheckedTransformer(modes))
      ->default_str("global");
  app.add_option("--dump-graph", options.graph_file, "write node types and edges to this file")
      ->excludes(eager);
  app.add_option("--json", options.json_file, "write the measurements to this file");
}

/// Runs steps one at a time; only `start` is timed, not the wait for its end.
template <typename Start>
void run_steps(hipStream_t stream, std::uint32_t steps, std::vector<double>* host_us, Start start) {
  for (std::uint32_t i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    start();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - begin;
    if (host_us != nullptr) host_us->push_back(taken.count());
    HIP_CHECK(hipStreamSynchronize(stream));
  }
}

std::optional<AgentMaps> agent_maps() {
  const auto maps = apps::agent_calls("hsa_amd_vmem_map");
  const auto unmaps = apps::agent_calls("hsa_amd_vmem_unmap");
  if (!maps || !unmaps) return std::nullopt;
  return AgentMaps{static_cast<double>(*maps), static_cast<double>(*unmaps)};
}

template <typename Start>
void measure_steps(const Options& options, hipStream_t stream, Outcome& outcome, Start start) {
  run_steps(stream, options.warmup, nullptr, start);
  const auto before = agent_maps();
  run_steps(stream, options.steps, &outcome.host_us, start);
  const auto after = agent_maps();
  if (!before || !after) return;
  outcome.maps_per_replay = {(after->maps - before->maps) / options.steps,
                             (after->unmaps - before->unmaps) / options.steps};
}

void run_eagerly(const Options& options, sim::Simulator& simulator, Outcome& outcome) {
  measure_steps(options, simulator.origin(), outcome, [&] { simulator.issue_step(); });
}

void run_as_graph(const Options& options, sim::Simulator& simulator, Outcome& outcome) {
  const apps::Graph graph = simulator.capture_step(options.mode);
  outcome.graph = apps::read_graph(graph.get());
  const apps::GraphExec exec = apps::instantiate(graph);
  measure_steps(options, simulator.origin(), outcome,
                [&] { HIP_CHECK(hipGraphLaunch(exec.get(), simulator.origin())); });
}

/// The captured work must be that of the plan. Allocation nodes may be there or not, in pairs.
bool check_graph(const sim::Plan& plan, const apps::GraphContents& graph) {
  const std::size_t kernels = graph.count(hipGraphNodeTypeKernel);
  const std::size_t fills = graph.count(hipGraphNodeTypeMemset);
  const std::size_t allocs = graph.count(hipGraphNodeTypeMemAlloc);
  const std::size_t frees = graph.count(hipGraphNodeTypeMemFree);
  const bool right = kernels == plan.kernels() && fills == plan.count(sim::OpKind::kFill) &&
                     allocs == frees && kernels + fills + allocs + frees == graph.nodes.size();
  if (!right) std::cerr << "step: the captured graph does not hold the nodes of one step\n";
  return right;
}

std::size_t count_wrong(std::size_t field, const std::vector<std::uint32_t>& actual,
                        const std::vector<std::uint32_t>& expected) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    if (wrong++ > 0) continue;
    std::cerr << "step: field " << field << " element " << i << " is " << actual[i]
              << " instead of " << expected[i] << '\n';
  }
  if (wrong > 0) {
    std::cerr << "step: " << wrong << " of " << expected.size() << " values of field " << field
              << " are wrong\n";
  }
  return wrong;
}

void check_fields(const sim::Plan& plan, const sim::Reference& reference,
                  const sim::Simulator& simulator, Outcome& outcome) {
  constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u;
  constexpr std::uint64_t kFnvPrime = 0x100000001b3u;
  outcome.checksum = kFnvBasis;
  for (std::size_t field = 0; field < plan.fields; ++field) {
    const std::vector<std::uint32_t> actual = simulator.read_field(field);
    for (std::uint32_t value : actual) outcome.checksum = (outcome.checksum ^ value) * kFnvPrime;
    if (count_wrong(field, actual, reference.field(field)) > 0) outcome.right = false;
  }
}

Outcome run_simulation(const Options& options) {
  const sim::Plan plan = sim::make_plan(options.elements);
  sim::Simulator simulator(plan, options.simulator);
  Outcome outcome;
  if (options.eager) {
    run_eagerly(options, simulator, outcome);
  } else {
    run_as_graph(options, simulator, outcome);
    outcome.right = check_graph(plan, *outcome.graph);
  }
  sim::Reference reference(plan);
  for (std::uint32_t i = 0; i < options.warmup + options.steps; ++i) reference.run_step();
  check_fields(plan, reference, simulator, outcome);
  return outcome;
}

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << value;
  return text.str();
}

std::vector<std::pair<std::string, std::size_t>> node_counts(const apps::GraphContents& graph) {
  return {{"nodes_total", graph.nodes.size()},
          {"kernel", graph.count(hipGraphNodeTypeKernel)},
          {"memset", graph.count(hipGraphNodeTypeMemset)},
          {"mem_alloc", graph.count(hipGraphNodeTypeMemAlloc)},
          {"mem_free", graph.count(hipGraphNodeTypeMemFree)},
          {"edges", graph.edges.size()}};
}

void print_maps(const char* key, const Outcome& outcome, double AgentMaps::*which) {
  std::cout << key << ' ';
  if (outcome.maps_per_replay) {
    std::cout << (*outcome.maps_per_replay).*which << '\n';
  } else {
    std::cout << "-\n";
  }
}

void print_outcome(const Outcome& outcome) {
  std::cout << "checksum " << hexadecimal(outcome.checksum) << '\n';
  if (outcome.graph) {
    for (const auto& [key, count] : node_counts(*outcome.graph)) {
      std::cout << key << ' ' << count << '\n';
    }
  }
  const apps::Distribution host_us = apps::summarize(outcome.host_us);
  std::cout << "replays " << outcome.host_us.size() << '\n'
            << std::fixed << std::setprecision(2) << "host_us_median " << host_us.median << '\n';
  print_maps("maps_per_replay", outcome, &AgentMaps::maps);
  print_maps("unmaps_per_replay", outcome, &AgentMaps::unmaps);
  std::cout << "result " << (outcome.right ? "ok" : "WRONG") << '\n';
}

void write_json(const Options& options, const Outcome& outcome, std::ostream& out) {
  const apps::Distribution host_us = apps::summarize(outcome.host_us);
  out << std::boolalpha << "{\"steps\": " << options.steps << ", \"warmup\": " << options.warmup
      << ", \"elements\": " << options.elements << ", \"eager\": " << options.eager
      << ", \"fork\": " << options.simulator.fork
      << ", \"prealloc\": " << options.simulator.preallocate << ",\n";
  if (outcome.graph) {
    for (const auto& [key, count] : node_counts(*outcome.graph)) {
      out << " \"" << key << "\": " << count << ',';
    }
    out << '\n';
  }
  if (outcome.maps_per_replay) {
    out << " \"maps_per_replay\": " << outcome.maps_per_replay->maps
        << ", \"unmaps_per_replay\": " << outcome.maps_per_replay->unmaps << ",\n";
  }
  out << " \"host_us\": {\"p50\": " << host_us.median << ", \"p99\": " << host_us.p99
      << ", \"max\": " << host_us.max << "},\n \"checksum\": \"" << hexadecimal(outcome.checksum)
      << "\", \"right\": " << outcome.right << "}\n";
}

template <typename Write>
void write_file(const std::string& path, Write write) {
  if (path.empty()) return;
  std::ofstream out(path);
  write(out);
  out.close();
  if (!out) throw FileError("cannot write " + path);
}

int run(const Options& options) {
  const Outcome outcome = run_simulation(options);
  print_outcome(outcome);
  write_file(options.json_file, [&](std::ostream& out) { write_json(options, outcome, out); });
  if (outcome.graph) {
    write_file(options.graph_file,
               [&](std::ostream& out) { apps::write_graph(*outcome.graph, out); });
  }
  if (apps::teardown_failures() > 0) return kHipFailure;
  return outcome.right ? kRight : kWrong;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"A simulator step on HIP, checked against a CPU reference"};
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kRight : kUsage;
  }
  try {
    return run(options);
  } catch (const apps::HipError& error) {
    std::cerr << "step: " << error.what() << '\n';
    return kHipFailure;
  } catch (const FileError& error) {
    std::cerr << "step: " << error.what() << '\n';
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "step: " << error.what() << '\n';
    return kWrong;
  }
}

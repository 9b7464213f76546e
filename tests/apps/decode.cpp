// A decode loop: many short launches on one stream for each token, double-buffered input and
// output. Issued eagerly, replayed from one graph for each buffer set, or captured anew for each
// token and put into one exec by an update. Every output is checked against a CPU reference.
#include <dlfcn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode_model.h"
#include "decode_plan.h"
#include "decode_reference.h"
#include "graph_reader.h"
#include "hip_support.h"
#include "measurements.h"

namespace {

enum ExitCode { kRight = 0, kWrong = 1, kUsage = 2, kHipFailure = 3 };

class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  std::uint32_t tokens = 10;
  std::uint32_t launches = decode::kDefaultLaunches;
  std::uint32_t layers = 0;  // 0: as many as the launches make
  std::uint32_t width = 64;
  std::uint32_t memory_interval = 0;
  bool eager = false;
  bool recapture = false;
  bool allocate = false;
  std::string json_file;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--tokens", options.tokens, "steps to run")
      ->check(CLI::Range(1u, 10000000u))
      ->capture_default_str();
  auto* launches = app.add_option("--launches", options.launches, "kernel launches of a step")
                       ->check(CLI::Range(2u, 1000000u))
                       ->capture_default_str();
  app.add_option("--layers", options.layers, "whole layers, of 54 launches each")
      ->check(CLI::Range(1u, 10000u))
      ->excludes(launches);
  app.add_option("--width", options.width, "elements of a vector")
      ->check(CLI::Range(1u, 1u << 16))
      ->capture_default_str();
  auto* eager = app.add_flag("--eager", options.eager, "issue every step anew");
  auto* graph = app.add_flag("--graph")
                    ->description("replay one graph for each buffer set (default)")
                    ->excludes(eager);
  app.add_flag("--recapture", options.recapture,
               "capture every step anew and update one exec; a new exec where that is refused")
      ->excludes(eager)
      ->excludes(graph);
  app.add_flag("--alloc", options.allocate,
               "allocate and free each layer's buffers inside the step");
  app.add_option("--memory-every", options.memory_interval,
                 "print the memory in use each time that so many steps have been run");
  app.add_option("--json", options.json_file, "write the measurements to this file");
}

struct MemoryInUse {
  std::uint32_t steps;
  std::optional<std::uint64_t> device_bytes;
  std::uint64_t resident_kib;
};

MemoryInUse memory_in_use(std::uint32_t steps) {
  using Bytes = std::uint64_t (*)();
  // Looked up, since the program also runs on a real HSA runtime.
  const auto bytes = reinterpret_cast<Bytes>(dlsym(RTLD_DEFAULT, "softagent_device_bytes"));
  std::uint64_t pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {steps, bytes == nullptr ? std::nullopt : std::optional(bytes()),
          resident_pages * page_bytes / 1024};
}

/// How a step gets to the device.
class Form {
 public:
  virtual ~Form() = default;
  virtual void start_step(std::size_t set) = 0;
};

class Eager : public Form {
 public:
  explicit Eager(decode::Model& model) : model_(model) {}

  void start_step(std::size_t set) override { model_.issue_step(set); }

 private:
  decode::Model& model_;
};

class HandMade : public Form {
 public:
  explicit HandMade(decode::Model& model) : model_(model) {
    for (std::size_t set = 0; set < decode::kSets; ++set) {
      graphs_[set] = model.capture_step(set);
      execs_[set] = apps::instantiate(graphs_[set]);
    }
  }

  void start_step(std::size_t set) override {
    HIP_CHECK(hipGraphLaunch(execs_[set].get(), model_.stream()));
  }

  [[nodiscard]] apps::GraphContents contents() const { return apps::read_graph(graphs_[0].get()); }

 private:
  decode::Model& model_;
  std::array<apps::Graph, decode::kSets> graphs_;
  std::array<apps::GraphExec, decode::kSets> execs_;
};

class Recapture : public Form {
 public:
  explicit Recapture(decode::Model& model) : model_(model) {}

  void start_step(std::size_t set) override {
    const apps::Graph graph = model_.capture_step(set);
    if (!contents_) contents_ = apps::read_graph(graph.get());
    // The exec is about to change, so no launch of it may be under way.
    if (last_set_) model_.wait_until_idle(*last_set_);
    last_set_ = set;
    if (exec_.get() == nullptr || !update(graph)) {
      exec_ = apps::instantiate(graph);
      ++instantiations;
    }
    HIP_CHECK(hipGraphLaunch(exec_.get(), model_.stream()));
  }

  [[nodiscard]] const apps::GraphContents& contents() const { return *contents_; }

  std::uint32_t instantiations = 0;
  std::uint32_t updates = 0;
  std::uint32_t refused_updates = 0;

 private:
  bool update(const apps::Graph& graph) {
    hipGraphNode_t culprit = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    const hipError_t code = hipGraphExecUpdate(exec_.get(), graph.get(), &culprit, &result);
    if (code == hipSuccess) {
      ++updates;
      return true;
    }
    ++refused_updates;
    // A refusal is no failure of the program: leave no error behind.
    static_cast<void>(hipGetLastError());
    return false;
  }

  decode::Model& model_;
  std::optional<apps::GraphContents> contents_;
  std::optional<std::size_t> last_set_;
  apps::GraphExec exec_;
};

/// Everything that is filled while tokens run has its final size before, so that it does not look
/// like growth.
struct Outcome {
  explicit Outcome(const Options& options)
      : host_us(options.tokens), outputs(std::size_t{options.tokens} * options.width) {
    if (options.memory_interval > 0) memory.reserve(options.tokens / options.memory_interval);
  }

  std::vector<double> host_us;
  double seconds = 0;
  std::vector<std::uint32_t> outputs;  // of all tokens
  std::vector<MemoryInUse> memory;
  std::optional<apps::GraphContents> graph;
  std::vector<std::pair<std::string, std::uint64_t>> graph_calls;
  std::uint64_t checksum = 0;
  bool right = true;
};

double microseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

void fetch_output(const Options& options, const decode::Model& model, std::uint32_t token,
                  Outcome& outcome) {
  std::ranges::copy(model.output(token % decode::kSets),
                    outcome.outputs.begin() + std::size_t{token} * options.width);
}

void run_tokens(const Options& options, decode::Model& model, Form& form, Outcome& outcome) {
  constexpr std::uint32_t kInFlight = decode::kSets;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t token = 0; token < options.tokens; ++token) {
    const std::size_t set = token % decode::kSets;
    if (token >= kInFlight) {
      model.wait_until_idle(set);
      fetch_output(options, model, token - kInFlight, outcome);
    }
    model.set_input(set, decode::make_input(options.width, token));
    const auto start = std::chrono::steady_clock::now();
    form.start_step(set);
    outcome.host_us[token] = microseconds_since(start);
    model.mark_busy(set);
    if (options.memory_interval > 0 && (token + 1) % options.memory_interval == 0) {
      outcome.memory.push_back(memory_in_use(token + 1));
    }
  }
  HIP_CHECK(hipStreamSynchronize(model.stream()));
  outcome.seconds = microseconds_since(begin) * 1e-6;
  const std::uint32_t left = std::min(options.tokens, kInFlight);
  for (std::uint32_t token = options.tokens - left; token < options.tokens; ++token) {
    fetch_output(options, model, token, outcome);
  }
}

void run_form(const Options& options, decode::Model& model, Outcome& outcome) {
  if (options.eager) {
    Eager form(model);
    run_tokens(options, model, form, outcome);
  } else if (options.recapture) {
    Recapture form(model);
    run_tokens(options, model, form, outcome);
    outcome.graph = form.contents();
    outcome.graph_calls = {{"instantiations", form.instantiations},
                           {"updates", form.updates},
                           {"refused_updates", form.refused_updates}};
  } else {
    HandMade form(model);
    run_tokens(options, model, form, outcome);
    outcome.graph = form.contents();
  }
}

/// The captured work must be that of the plan. Allocation nodes may be there or not, in pairs.
bool check_graph(const decode::Plan& plan, const apps::GraphContents& graph) {
  const std::size_t kernels = graph.count(hipGraphNodeTypeKernel);
  const std::size_t copies = graph.count(hipGraphNodeTypeMemcpy);
  const std::size_t allocs = graph.count(hipGraphNodeTypeMemAlloc);
  const std::size_t frees = graph.count(hipGraphNodeTypeMemFree);
  const bool right = kernels == plan.launches() && copies == 2 && allocs == frees &&
                     kernels + copies + allocs + frees == graph.nodes.size();
  if (!right) std::cerr << "decode: the captured graph does not hold the nodes of one step\n";
  return right;
}

/// Says where the outputs differ first.
bool check_outputs(const Options& options, const decode::Plan& plan, Outcome& outcome) {
  constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u;
  constexpr std::uint64_t kFnvPrime = 0x100000001b3u;
  outcome.checksum = kFnvBasis;
  decode::Reference reference(plan);
  std::size_t wrong = 0;
  for (std::uint32_t token = 0; token < options.tokens; ++token) {
    const std::vector<std::uint32_t> expected = reference.run_token();
    for (std::uint32_t i = 0; i < options.width; ++i) {
      const std::uint32_t actual = outcome.outputs[std::size_t{token} * options.width + i];
      outcome.checksum = (outcome.checksum ^ actual) * kFnvPrime;
      if (actual == expected[i] || wrong++ > 0) continue;
      std::cerr << "decode: token " << token << " element " << i << " is " << actual
                << " instead of " << expected[i] << '\n';
    }
  }
  if (wrong > 0) {
    std::cerr << "decode: " << wrong << " of " << outcome.outputs.size() << " values are wrong\n";
  }
  return wrong == 0;
}

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << value;
  return text.str();
}

std::string decimal(double value) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << value;
  return text.str();
}

/// Key and value; "-" stands for what is not known.
using Rows = std::vector<std::pair<std::string, std::string>>;

void append_graph(const apps::GraphContents& graph, Rows& rows) {
  rows.emplace_back("nodes_total", std::to_string(graph.nodes.size()));
  for (const auto& [key, type] :
       {std::pair{"kernel", hipGraphNodeTypeKernel}, std::pair{"memcpy", hipGraphNodeTypeMemcpy},
        std::pair{"mem_alloc", hipGraphNodeTypeMemAlloc},
        std::pair{"mem_free", hipGraphNodeTypeMemFree}}) {
    rows.emplace_back(key, std::to_string(graph.count(type)));
  }
  rows.emplace_back("edges", std::to_string(graph.edges.size()));
}

Rows rows_of(const Options& options, const decode::Plan& plan, const Outcome& outcome) {
  const apps::Distribution host_us = apps::summarize(outcome.host_us);
  Rows rows = {{"checksum", hexadecimal(outcome.checksum)},
               {"tokens", std::to_string(options.tokens)},
               {"launches", std::to_string(plan.launches())}};
  if (outcome.graph) append_graph(*outcome.graph, rows);
  for (const auto& [key, count] : outcome.graph_calls) {
    rows.emplace_back(key, std::to_string(count));
  }
  for (const MemoryInUse& memory : outcome.memory) {
    const std::string prefix = "step_" + std::to_string(memory.steps);
    rows.emplace_back(prefix + "_device_bytes",
                      memory.device_bytes ? std::to_string(*memory.device_bytes) : "-");
    rows.emplace_back(prefix + "_rss_kib", std::to_string(memory.resident_kib));
  }
  rows.emplace_back("host_us_median", decimal(host_us.median));
  rows.emplace_back("host_us_p99", decimal(host_us.p99));
  rows.emplace_back("tokens_per_second", decimal(options.tokens / outcome.seconds));
  rows.emplace_back("result", outcome.right ? "ok" : "WRONG");
  return rows;
}

void print_rows(const Rows& rows) {
  for (const auto& [key, value] : rows) std::cout << key << ' ' << value << '\n';
}

/// The same rows; numbers are written as such.
void write_json(const Rows& rows, const std::string& path) {
  if (path.empty()) return;
  static constexpr std::string_view kTexts[] = {"checksum", "result"};
  std::ofstream out(path);
  const char* separator = "{";
  for (const auto& [key, value] : rows) {
    out << separator << '"' << key << "\": ";
    if (value == "-") {
      out << "null";
    } else if (std::ranges::find(kTexts, key) != std::end(kTexts)) {
      out << '"' << value << '"';
    } else {
      out << value;
    }
    separator = ",\n ";
  }
  out << "}\n";
  out.close();
  if (!out) throw FileError("cannot write " + path);
}

int run(const Options& options) {
  const decode::Plan plan = decode::make_plan(
      options.layers > 0 ? options.layers * decode::kLayerLaunches + 2 : options.launches,
      options.width);
  Outcome outcome(options);
  {
    decode::Model model(plan, options.allocate);
    run_form(options, model, outcome);
  }
  outcome.right = check_outputs(options, plan, outcome);
  if (outcome.graph && !check_graph(plan, *outcome.graph)) outcome.right = false;
  const Rows rows = rows_of(options, plan, outcome);
  print_rows(rows);
  write_json(rows, options.json_file);
  if (apps::teardown_failures() > 0) return kHipFailure;
  return outcome.right ? kRight : kWrong;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"A decode loop on HIP, checked against a CPU reference"};
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kRight : kUsage;
  }
  try {
    return run(options);
  } catch (const apps::HipError& error) {
    std::cerr << "decode: " << error.what() << '\n';
    return kHipFailure;
  } catch (const FileError& error) {
    std::cerr << "decode: " << error.what() << '\n';
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "decode: " << error.what() << '\n';
    return kWrong;
  }
}

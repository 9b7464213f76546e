#include "trace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

namespace hipgraft::bench {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", path.c_str(), what.c_str());
  std::exit(2);
}

class RandomProgram {
 public:
  RandomProgram(const RandomShape& shape, std::uint32_t seed, std::size_t allocations)
      : shape_(shape), random_(seed), allocations_(allocations) {}

  Trace make() {
    while (made_ < allocations_) step();
    return std::move(trace_);
  }

 private:
  struct Alive {
    std::size_t block;
    std::size_t stream;
    std::size_t dies_at;  // step
  };

  double chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  std::size_t any_stream() { return random_() % shape_.streams; }

  arena::Bytes size() {
    switch (shape_.sizes) {
      case Sizes::classes:
        return arena::Bytes{1} << (10 + random_() % 13);
      case Sizes::multiples:
        return arena::Bytes{65536} * (1 + random_() % 64);
      case Sizes::log_normal:
        break;
    }
    const double bytes = std::lognormal_distribution<double>(11, 2)(random_);
    return 1 + static_cast<arena::Bytes>(std::min(bytes, 1e9));
  }

  std::size_t lifetime() {
    const double mean = chance() < 0.7 ? 12 : 120;
    return 1 + static_cast<std::size_t>(std::exponential_distribution<double>(1 / mean)(random_));
  }

  void add(Event::Kind kind, std::size_t stream, std::size_t other = 0, arena::Bytes bytes = 0) {
    trace_.push_back({kind, stream, other, bytes});
  }

  void free(const Alive& block) {
    std::size_t stream = block.stream;
    if (shape_.streams > 1 && chance() < 0.2) {
      stream = any_stream();
      if (stream != block.stream) add(Event::Kind::wait, stream, block.stream);
    }
    add(Event::Kind::free, stream, block.block);
  }

  void step() {
    ++now_;
    for (const Alive& block : alive_) {
      if (block.dies_at == now_) free(block);
    }
    std::erase_if(alive_, [&](const Alive& block) { return block.dies_at == now_; });
    const std::size_t stream = any_stream();
    if (shape_.streams > 1 && chance() < shape_.waits) {
      const std::size_t other = any_stream();
      if (other != stream) add(Event::Kind::wait, stream, other);
    }
    add(Event::Kind::allocate, stream, made_, size());
    alive_.push_back({made_, stream, now_ + lifetime()});
    ++made_;
    add(Event::Kind::kernel, stream);
  }

  const RandomShape& shape_;
  std::mt19937_64 random_;
  std::size_t allocations_;
  std::size_t made_ = 0;
  std::size_t now_ = 0;
  std::vector<Alive> alive_;
  Trace trace_;
};

}  // namespace

Trace read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(path, "cannot be read");
  Trace trace;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    char kind = 0;
    Event event;
    words >> kind >> event.stream;
    if (kind == 'k') event.kind = Event::Kind::kernel;
    if (kind == 'w') event.kind = Event::Kind::wait;
    if (kind == 'a') event.kind = Event::Kind::allocate;
    if (kind == 'f') event.kind = Event::Kind::free;
    if (kind != 'k') words >> event.other;
    if (kind == 'a') words >> event.bytes;
    if (!words || std::string("kwaf").find(kind) == std::string::npos)
      fail(path, "bad line: " + line);
    trace.push_back(event);
  }
  return trace;
}

Trace random_trace(const RandomShape& shape, std::uint32_t seed, std::size_t allocations) {
  return RandomProgram(shape, seed, allocations).make();
}

std::vector<Call> calls_of(const Trace& trace) {
  dag::Mirror mirror;
  std::vector<std::vector<dag::NodeId>> streams;
  std::map<std::size_t, std::size_t> numbers;
  std::vector<Call> calls;
  for (const Event& event : trace) {
    const std::size_t highest =
        event.kind == Event::Kind::wait ? std::max(event.stream, event.other) : event.stream;
    if (streams.size() <= highest) streams.resize(highest + 1);
    auto& terminals = streams[event.stream];
    Call call;
    call.stream = event.stream;
    switch (event.kind) {
      case Event::Kind::kernel: {
        const dag::NodeId node = mirror.size() + 1;
        mirror.add(node, terminals);
        terminals.assign(1, node);
        continue;
      }
      case Event::Kind::wait:
        for (const dag::NodeId node : streams[event.other]) {
          if (std::find(terminals.begin(), terminals.end(), node) == terminals.end()) {
            terminals.push_back(node);
          }
        }
        continue;
      case Event::Kind::allocate:
        call.block = numbers.size();
        numbers[event.other] = call.block;
        call.bytes = event.bytes;
        call.frontier = mirror.frontier(terminals);
        break;
      case Event::Kind::free:
        call.frees = true;
        call.block = numbers.at(event.other);
        call.marks = mirror.marks(terminals);
        break;
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace hipgraft::bench

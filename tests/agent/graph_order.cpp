#include "graph_order.h"

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace graph_order {
namespace {

using Random = std::mt19937;
using Issue = std::function<void(hipStream_t)>;

void check(hipError_t error, const char* call) {
  if (error == hipSuccess) return;
  throw std::runtime_error(std::string("graph order: ") + call + " gave " + hipGetErrorName(error));
}
#define CHECKED(call) check(call, #call)

[[noreturn]] void refuse(const std::string& reason) {
  throw std::runtime_error("graph order: " + reason);
}

// hipGraphKernelNodeGetParams gives the address of a registered function or a module's function,
// whatever the program launched. Only the former has attributes under its address.
bool is_registered(const void* function) {
  hipFuncAttributes attributes{};
  const bool registered = hipFuncGetAttributes(&attributes, function) == hipSuccess;
  if (!registered) (void)hipGetLastError();
  return registered;
}

Issue kernel(hipGraphNode_t node) {
  hipKernelNodeParams p{};
  CHECKED(hipGraphKernelNodeGetParams(node, &p));
  if (is_registered(p.func)) {
    return [p](hipStream_t stream) {
      CHECKED(
          hipLaunchKernel(p.func, p.gridDim, p.blockDim, p.kernelParams, p.sharedMemBytes, stream));
    };
  }
  return [p](hipStream_t stream) {
    CHECKED(hipModuleLaunchKernel(static_cast<hipFunction_t>(p.func), p.gridDim.x, p.gridDim.y,
                                  p.gridDim.z, p.blockDim.x, p.blockDim.y, p.blockDim.z,
                                  p.sharedMemBytes, stream, p.kernelParams, p.extra));
  };
}

void set_row(const hipMemsetParams& p, char* row, hipStream_t stream) {
  switch (p.elementSize) {
    case 1:
      return CHECKED(hipMemsetD8Async(row, static_cast<unsigned char>(p.value), p.width, stream));
    case 2:
      return CHECKED(hipMemsetD16Async(row, static_cast<unsigned short>(p.value), p.width, stream));
    default:
      return CHECKED(hipMemsetD32Async(row, static_cast<int>(p.value), p.width, stream));
  }
}

Issue memset(hipGraphNode_t node) {
  hipMemsetParams p{};
  CHECKED(hipGraphMemsetNodeGetParams(node, &p));
  return [p](hipStream_t stream) {
    const std::size_t rows = p.height == 0 ? 1 : p.height;
    for (std::size_t y = 0; y < rows; ++y) {
      set_row(p, static_cast<char*>(p.dst) + y * p.pitch, stream);
    }
  };
}

bool is_at_top(const hipPos& position) { return position.y == 0 && position.z == 0; }

bool is_one_row(const hipMemcpy3DParms& p) {
  return !p.srcArray && !p.dstArray && p.extent.height <= 1 && p.extent.depth <= 1 &&
         is_at_top(p.srcPos) && is_at_top(p.dstPos);
}

// A captured hipMemcpyAsync. It comes without a pitch, and hipMemcpy3DAsync then copies nothing.
Issue copy_row(const hipMemcpy3DParms& p) {
  return [p](hipStream_t stream) {
    CHECKED(hipMemcpyAsync(static_cast<char*>(p.dstPtr.ptr) + p.dstPos.x,
                           static_cast<const char*>(p.srcPtr.ptr) + p.srcPos.x, p.extent.width,
                           p.kind, stream));
  };
}

Issue memcpy(hipGraphNode_t node) {
  int version = 0;
  CHECKED(hipRuntimeGetVersion(&version));
  constexpr int hip_7 = 70000000;
  if (version < hip_7) {
    refuse("the graph has a memcpy node, whose parameters HIP " +
           std::to_string(version / 10000000) + " does not tell");
  }
  hipMemcpy3DParms p{};
  CHECKED(hipGraphMemcpyNodeGetParams(node, &p));
  if (is_one_row(p)) return copy_row(p);
  return [p](hipStream_t stream) { CHECKED(hipMemcpy3DAsync(&p, stream)); };
}

Issue host_function(hipGraphNode_t node) {
  hipHostNodeParams p{};
  CHECKED(hipGraphHostNodeGetParams(node, &p));
  return [p](hipStream_t stream) { CHECKED(hipLaunchHostFunc(stream, p.fn, p.userData)); };
}

Issue event_record(hipGraphNode_t node) {
  hipEvent_t event = nullptr;
  CHECKED(hipGraphEventRecordNodeGetEvent(node, &event));
  return [event](hipStream_t stream) { CHECKED(hipEventRecord(event, stream)); };
}

Issue event_wait(hipGraphNode_t node) {
  hipEvent_t event = nullptr;
  CHECKED(hipGraphEventWaitNodeGetEvent(node, &event));
  return [event](hipStream_t stream) { CHECKED(hipStreamWaitEvent(stream, event, 0)); };
}

Issue nothing() {
  return [](hipStream_t) {};
}

Issue issue_of(hipGraphNode_t node, hipGraphNodeType type) {
  switch (type) {
    case hipGraphNodeTypeKernel:
      return kernel(node);
    case hipGraphNodeTypeMemset:
      return memset(node);
    case hipGraphNodeTypeMemcpy:
      return memcpy(node);
    case hipGraphNodeTypeHost:
      return host_function(node);
    case hipGraphNodeTypeEmpty:
      return nothing();
    case hipGraphNodeTypeEventRecord:
      return event_record(node);
    case hipGraphNodeTypeWaitEvent:
      return event_wait(node);
    case hipGraphNodeTypeMemAlloc:
    case hipGraphNodeTypeMemFree:
      refuse("the graph has memory nodes, which cannot be run alone");
    default:
      refuse("a node has type " + std::to_string(type) + ", which cannot be run alone");
  }
}

std::vector<hipGraphNode_t> nodes_of(hipGraph_t graph) {
  std::size_t count = 0;
  CHECKED(hipGraphGetNodes(graph, nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  if (count != 0) CHECKED(hipGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

std::vector<std::pair<hipGraphNode_t, hipGraphNode_t>> edges_of(hipGraph_t graph) {
  std::size_t count = 0;
  CHECKED(hipGraphGetEdges(graph, nullptr, nullptr, &count));
  std::vector<hipGraphNode_t> from(count);
  std::vector<hipGraphNode_t> to(count);
  if (count != 0) CHECKED(hipGraphGetEdges(graph, from.data(), to.data(), &count));
  std::vector<std::pair<hipGraphNode_t, hipGraphNode_t>> edges;
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(from[i], to[i]);
  return edges;
}

class Order {
 public:
  Order(std::size_t count, const std::vector<Edge>& edges, std::uint32_t seed)
      : random_(seed), follow_paths_(seed % 2 == 1), successors_(count), waits_for_(count) {
    for (const auto& [from, to] : edges) {
      successors_[from].push_back(to);
      ++waits_for_[to];
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (waits_for_[i] == 0) ready_.push_back(i);
    }
  }

  std::vector<std::size_t> take_all() {
    std::vector<std::size_t> order;
    while (!ready_.empty()) order.push_back(take());
    return order;
  }

 private:
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  std::size_t take() {
    constexpr std::size_t switch_path_once_in = 16;
    const bool newest = follow_paths_ && below(switch_path_once_in) != 0;
    std::swap(ready_.back(), ready_[newest ? ready_.size() - 1 : below(ready_.size())]);
    const std::size_t taken = ready_.back();
    ready_.pop_back();
    release_successors(taken);
    return taken;
  }

  void release_successors(std::size_t of) {
    const std::size_t first_new = ready_.size();
    for (const std::size_t next : successors_[of]) {
      if (--waits_for_[next] == 0) ready_.push_back(next);
    }
    std::shuffle(ready_.begin() + static_cast<std::ptrdiff_t>(first_new), ready_.end(), random_);
  }

  Random random_;
  const bool follow_paths_;
  std::vector<std::vector<std::size_t>> successors_;
  std::vector<std::size_t> waits_for_;
  std::vector<std::size_t> ready_;
};

}  // namespace

std::vector<std::size_t> random_order(std::size_t count, const std::vector<Edge>& edges,
                                      std::uint32_t seed) {
  std::vector<std::size_t> order = Order(count, edges, seed).take_all();
  if (order.size() != count) refuse("the edges form a cycle");
  return order;
}

std::size_t Plan::add(hipGraphNode_t node, Issue issue) {
  issues_.push_back(std::move(issue));
  nodes_.push_back(node);
  return issues_.size() - 1;
}

Plan::Span Plan::add_node(hipGraphNode_t node) {
  hipGraphNodeType type{};
  CHECKED(hipGraphNodeGetType(node, &type));
  if (type != hipGraphNodeTypeGraph) {
    const std::size_t step = add(node, issue_of(node, type));
    return {step, step};
  }
  hipGraph_t child = nullptr;
  CHECKED(hipGraphChildGraphNodeGetGraph(node, &child));
  return add_graph(child);
}

Plan::Span Plan::add_graph(hipGraph_t graph) {
  const Span around{add(nullptr, nothing()), add(nullptr, nothing())};
  edges_.emplace_back(around.first, around.last);
  std::unordered_map<hipGraphNode_t, Span> spans;
  for (const hipGraphNode_t node : nodes_of(graph)) {
    const Span span = add_node(node);
    spans[node] = span;
    edges_.emplace_back(around.first, span.first);
    edges_.emplace_back(span.last, around.last);
  }
  for (const auto& [from, to] : edges_of(graph)) {
    edges_.emplace_back(spans.at(from).last, spans.at(to).first);
  }
  return around;
}

Plan::Plan(hipGraph_t graph) { add_graph(graph); }

void Plan::run(std::uint32_t seed, hipStream_t stream) const {
  for (const std::size_t step : random_order(issues_.size(), edges_, seed)) issues_[step](stream);
}

void run_in_random_order(hipGraph_t graph, std::uint32_t seed, hipStream_t stream) {
  Plan(graph).run(seed, stream);
}

}  // namespace graph_order

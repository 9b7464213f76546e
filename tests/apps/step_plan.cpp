#include "step_plan.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sim {
namespace {

constexpr std::size_t kTemporaries = 24;
constexpr std::size_t kPhases = kTemporaries / kStreams;

// Fields. Each stream has a velocity and a force of its own, so that branches only share what
// they read; the position is written between join and fork alone.
constexpr std::size_t kPosition = 0;
constexpr std::size_t kTerrain = 1;
constexpr std::size_t kVelocity = 2;
constexpr std::size_t kForce = kVelocity + kStreams;
constexpr std::size_t kFields = kForce + kStreams;

// Sizes of the temporaries in 1/32 of a field: a few large among many small ones, in no order.
constexpr std::array<std::uint32_t, kTemporaries> kSizes = {
    4, 96, 1, 160, 48, 24, 512, 2, 64, 112, 96, 3, 320, 6, 132, 5, 200, 16, 1, 148, 9, 256, 2, 180};
constexpr std::uint32_t kSizeUnit = 32;

enum class End {
  kInBranch,       // used up and freed by its own stream within the phase
  kAtJoin,         // freed by stream 0 after the join, whoever allocated it
  kNextFork,       // used up at the join, freed by its own stream in the next phase
  kNextForkOther,  // the same, but freed by the other side stream
  kNextJoin,       // lives through the next phase, where others read it
};

constexpr std::array<std::array<End, 3>, kStreams> kEnds = {{
    {End::kAtJoin, End::kNextJoin, End::kInBranch},
    {End::kInBranch, End::kAtJoin, End::kNextFork},
    {End::kNextForkOther, End::kNextJoin, End::kAtJoin},
}};

class PlanMaker {
 public:
  explicit PlanMaker(std::uint32_t elements) {
    plan_.fields = kFields;
    plan_.counts.assign(kFields, elements);
    for (std::size_t i = 0; i < kTemporaries; ++i) {
      const std::uint64_t size = std::uint64_t{elements} * kSizes[i] / kSizeUnit;
      // Odd sizes, so that rounding up to any alignment has something to do.
      plan_.counts.push_back(static_cast<std::uint32_t>(size + 1 + i % 5));
    }
  }

  Plan make() {
    for (std::size_t phase = 0; phase < kPhases; ++phase) add_phase(phase);
    return std::move(plan_);
  }

 private:
  static std::size_t temporary(std::size_t phase, std::size_t stream) {
    return kFields + phase * kStreams + stream;
  }

  static End end_of(std::size_t phase, std::size_t stream) {
    const End end = kEnds[stream][phase % kEnds[stream].size()];
    const bool last = phase + 1 == kPhases;
    return last && end != End::kInBranch ? End::kAtJoin : end;
  }

  void add(OpKind kind, std::size_t stream, std::size_t target = 0, std::size_t source = 0) {
    ++salt_;
    plan_.ops.push_back({kind, stream, target, source, salt_});
  }

  // The branches are issued in turns, as a program with three streams would.
  void add_phase(std::size_t phase) {
    add(OpKind::kFork, 0);
    for (std::size_t stream = 0; stream < kStreams; ++stream) free_of_last_phase(phase, stream);
    for (std::size_t stream = 0; stream < kStreams; ++stream) begin_stage(phase, stream);
    for (std::size_t stream = 0; stream < kStreams; ++stream) finish_stage(phase, stream);
    add(OpKind::kJoin, 0);
    if (phase > 0) end_at_join(phase - 1, End::kNextJoin);
    end_at_join(phase, End::kAtJoin);
    use_up_at_join(phase);
  }

  void free_of_last_phase(std::size_t phase, std::size_t stream) {
    if (phase == 0) return;
    const End end = end_of(phase - 1, stream);
    const std::size_t buffer = temporary(phase - 1, stream);
    if (end == End::kNextFork) add(OpKind::kFree, stream, buffer);
    if (end == End::kNextForkOther) add(OpKind::kFree, stream == 1 ? 2 : 1, buffer);
  }

  void begin_stage(std::size_t phase, std::size_t stream) {
    const std::size_t buffer = temporary(phase, stream);
    add(OpKind::kAlloc, stream, buffer);
    add(OpKind::kFill, stream, buffer);
    add(OpKind::kGather, stream, buffer, kPosition);
    add(OpKind::kAdvect, stream, kVelocity + stream, kForce + stream);
    add(OpKind::kCouple, stream, buffer, shared_source(phase, stream));
    add(OpKind::kRelax, stream, buffer);
  }

  void finish_stage(std::size_t phase, std::size_t stream) {
    const std::size_t buffer = temporary(phase, stream);
    add(OpKind::kAdvect, stream, kForce + stream, kVelocity + stream);
    add(OpKind::kCouple, stream, buffer, kForce + stream);
    add(OpKind::kRelax, stream, buffer);
    if ((phase * kStreams + stream) % 4 != 3) add(OpKind::kRelax, stream, buffer);
    if (end_of(phase, stream) != End::kInBranch) return;
    add(OpKind::kIntegrate, stream, kVelocity + stream, buffer);
    add(OpKind::kFree, stream, buffer);
  }

  // Something complete that nobody writes in this phase: a temporary of the last one, else a field.
  static std::size_t shared_source(std::size_t phase, std::size_t stream) {
    for (std::size_t step = 0; phase > 0 && step < kStreams; ++step) {
      const std::size_t owner = (stream + step) % kStreams;
      if (end_of(phase - 1, owner) == End::kNextJoin) return temporary(phase - 1, owner);
    }
    return kTerrain;
  }

  // From the last stream to the first: the order of the frees is not that of the allocations.
  void end_at_join(std::size_t phase, End end) {
    for (std::size_t stream = kStreams; stream-- > 0;) {
      if (end_of(phase, stream) != end) continue;
      add(OpKind::kIntegrate, 0, kPosition, temporary(phase, stream));
      add(OpKind::kFree, 0, temporary(phase, stream));
    }
  }

  void use_up_at_join(std::size_t phase) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const End end = end_of(phase, stream);
      if (end != End::kNextFork && end != End::kNextForkOther) continue;
      add(OpKind::kIntegrate, 0, kPosition, temporary(phase, stream));
    }
  }

  Plan plan_;
  std::uint32_t salt_ = 0;
};

}  // namespace

Stencil stencil_of(const Op& op) { return {1 + op.salt % 7, op.salt, 2}; }

std::size_t Plan::count(OpKind kind) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ops, [kind](const Op& op) { return op.kind == kind; }));
}

std::size_t Plan::kernels() const {
  return count(OpKind::kGather) + count(OpKind::kCouple) + count(OpKind::kRelax) +
         count(OpKind::kAdvect) + count(OpKind::kIntegrate);
}

Plan make_plan(std::uint32_t elements) { return PlanMaker(elements).make(); }

std::uint32_t initial_value(std::size_t field, std::uint32_t index) {
  return static_cast<std::uint32_t>(field + 1) * 0x01000193u ^ index * 0x85ebca77u;
}

}  // namespace sim

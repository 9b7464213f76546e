#include "capture/plans.h"

#include <algorithm>

namespace hipgraft::capture {
namespace {

constexpr std::size_t kPlansOfSite = 16;
constexpr std::size_t kSites = 4096;  // a program that makes code as it runs has no end of them

}  // namespace

arena::PlanRef plan_for(const void* caller, int device, std::uint64_t bytes) {
  const auto site = state().plans.find({caller, device});
  if (site == state().plans.end()) return nullptr;
  for (const arena::PlanRef& plan : site->second) {
    if (plan->blocks[0].bytes == arena::round_up(bytes, arena::kAlignment)) return plan;
  }
  return nullptr;
}

void keep_plan(const void* caller, int device, arena::PlanRef plan) {
  if (plan == nullptr || plan->blocks.empty()) return;
  auto& sites = state().plans;
  if (sites.size() >= kSites && !sites.contains({caller, device})) return;
  std::vector<arena::PlanRef>& plans = sites[{caller, device}];
  // The latest first. One that begins alike and asks for as many blocks is the same program's.
  std::erase_if(plans, [&](const arena::PlanRef& other) {
    return other->blocks.size() == plan->blocks.size() &&
           other->blocks[0].bytes == plan->blocks[0].bytes;
  });
  plans.insert(plans.begin(), std::move(plan));
  if (plans.size() > kPlansOfSite) plans.pop_back();
}

std::uint64_t expected_bytes(const void* caller, int device) {
  const auto site = state().plans.find({caller, device});
  return site != state().plans.end() ? site->second.front()->total : 0;
}

}  // namespace hipgraft::capture

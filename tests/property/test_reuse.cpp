#include <doctest/doctest.h>

#include <algorithm>

#include "capture_model.h"

using namespace hipgraft;
using test::CaptureModel;
using test::Marking;
using test::Settings;

namespace {

constexpr std::uint32_t kPrograms = 600;

Settings settings_of(std::uint32_t seed) {
  Settings settings;
  settings.streams = 1 + static_cast<int>(seed % 8);
  settings.steps = 60 + static_cast<int>(seed % 5) * 60;
  return settings;
}

struct Found {
  int sharing = 0;
  int tags = 0;
  int reuses = 0;
};

Found try_rule(const arena::ReuseRule& rule, Marking marking = Marking::of_freeing_stream) {
  Found found;
  for (std::uint32_t seed = 1; seed <= kPrograms; ++seed) {
    Settings settings = settings_of(seed);
    settings.marking = marking;
    const CaptureModel model(seed, settings, rule);
    found.sharing += model.unordered_sharing();
    found.tags += model.wrong_tags(seed) + model.wrong_tags(seed + 7777);
    found.reuses += model.reuses();
  }
  return found;
}

enum class PlanOf { same_program, moved_program, other_program };

// The program whose plan the program under test is given.
CaptureModel former(PlanOf plan_of, std::uint32_t seed, Settings settings,
                    const arena::ReuseRule& rule) {
  switch (plan_of) {
    case PlanOf::same_program:
      break;
    case PlanOf::moved_program:
      settings.move_every = 2 + static_cast<int>(seed % 6);
      break;
    case PlanOf::other_program:
      seed += 100'000;
      break;
  }
  return CaptureModel(seed, settings, rule);
}

struct FoundWithPlan : Found {
  int followed = 0;
};

FoundWithPlan try_plans(PlanOf plan_of, const arena::ReuseRule& rule,
                        test::PlanWatcher* watcher = nullptr) {
  FoundWithPlan found;
  for (std::uint32_t seed = 1; seed <= kPrograms; ++seed) {
    Settings settings = settings_of(seed);
    settings.plan = former(plan_of, seed, settings, arena::OrderedReuse{}).finish();
    if (settings.plan == nullptr) continue;
    settings.watcher = watcher;
    const CaptureModel model(seed, settings, rule);
    found.sharing += model.unordered_sharing();
    found.tags += model.wrong_tags(seed) + model.wrong_tags(seed + 7777);
    found.followed += model.followed();
  }
  return found;
}

// Rules that are wrong, each in one way.

class Always final : public arena::ReuseRule {
 public:
  bool usable(const dag::Marks&, const dag::Frontier&) const override { return true; }
};

class OffByOne final : public arena::ReuseRule {
 public:
  bool usable(const dag::Marks& marks, const dag::Frontier& frontier) const override {
    return std::all_of(marks.places.begin(), marks.places.end(), [&](dag::Place place) {
      return place.index <= 1 || frontier.covers({place.chain, place.index - 1});
    });
  }
};

class AnyMark final : public arena::ReuseRule {
 public:
  bool usable(const dag::Marks& marks, const dag::Frontier& frontier) const override {
    return marks.places.empty() ||
           std::any_of(marks.places.begin(), marks.places.end(),
                       [&](dag::Place place) { return frontier.covers(place); });
  }
};

class FirstMarkOnly final : public arena::ReuseRule {
 public:
  bool usable(const dag::Marks& marks, const dag::Frontier& frontier) const override {
    return marks.places.empty() || frontier.covers(marks.places.front());
  }
};

class OneChainOnly final : public arena::ReuseRule {
 public:
  bool usable(const dag::Marks& marks, const dag::Frontier& frontier) const override {
    return std::all_of(marks.places.begin(), marks.places.end(), [&](dag::Place place) {
      return place.chain != 0 || frontier.covers(place);
    });
  }
};

// A plan that is followed without asking whether the bytes may be used.
class TrustsPlan final : public arena::ReuseRule, public test::PlanWatcher {
 public:
  void next_request(bool as_planned) override { as_planned_ = as_planned; }
  bool usable(const dag::Marks& marks, const dag::Frontier& frontier) const override {
    return as_planned_ || arena::OrderedReuse{}.usable(marks, frontier);
  }

 private:
  bool as_planned_ = false;
};

}  // namespace

TEST_CASE("bytes are shared only where the graph orders all uses") {
  const Found found = try_rule(arena::OrderedReuse{});
  CHECK(found.sharing == 0);
  CHECK(found.tags == 0);
  CHECK(found.reuses > 1000);
}

TEST_CASE("noreuse hands no byte out twice") { CHECK(try_rule(arena::NoReuse{}).reuses == 0); }

TEST_CASE("the oracles catch every wrong rule") {
  const auto caught = [](const arena::ReuseRule& rule) {
    const Found found = try_rule(rule);
    CHECK(found.sharing > 0);
    CHECK(found.tags > 0);
  };
  SUBCASE("bytes reused without any order") { caught(Always{}); }
  SUBCASE("the last use forgotten") { caught(OffByOne{}); }
  SUBCASE("one of several marks is enough") { caught(AnyMark{}); }
  SUBCASE("marks after the first ignored") { caught(FirstMarkOnly{}); }
  SUBCASE("other chains ignored") { caught(OneChainOnly{}); }
}

TEST_CASE("the oracles catch the marks of the allocating stream") {
  const Found found = try_rule(arena::OrderedReuse{}, Marking::of_allocating_stream);
  CHECK(found.sharing > 0);
  CHECK(found.tags > 0);
}

TEST_CASE("a plan never makes bytes shared that the graph does not order") {
  const auto harmless = [](PlanOf plan_of) {
    const FoundWithPlan found = try_plans(plan_of, arena::OrderedReuse{});
    CHECK(found.sharing == 0);
    CHECK(found.tags == 0);
    CHECK(found.followed > 1000);
  };
  SUBCASE("of the same program") { harmless(PlanOf::same_program); }
  SUBCASE("of the program on other streams") { harmless(PlanOf::moved_program); }
  SUBCASE("of another program") { harmless(PlanOf::other_program); }
}

TEST_CASE("the same program with its plan gets what the plan says, every time") {
  const arena::OrderedReuse rule;
  int requests = 0;
  for (std::uint32_t seed = 1; seed <= kPrograms; ++seed) {
    Settings settings = settings_of(seed);
    settings.plan = CaptureModel(seed, settings, rule).finish();
    if (settings.plan == nullptr) continue;
    CaptureModel second(seed, settings, rule);
    CaptureModel third(seed, settings, rule);
    CHECK(second.addresses() == third.addresses());
    CHECK(second.followed() == static_cast<int>(settings.plan->blocks.size()));
    CHECK(second.finish() == settings.plan);
    requests += second.followed();
  }
  CHECK(requests > 10'000);
}

TEST_CASE("the oracles catch a plan that is followed without asking") {
  TrustsPlan rule;
  const auto caught = [&](PlanOf plan_of) {
    const FoundWithPlan found = try_plans(plan_of, rule, &rule);
    CHECK(found.sharing > 0);
    CHECK(found.tags > 0);
  };
  SUBCASE("of the program on other streams") { caught(PlanOf::moved_program); }
  SUBCASE("of another program") { caught(PlanOf::other_program); }
}

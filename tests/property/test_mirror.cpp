#include <doctest/doctest.h>

#include <array>

#include "capture_model.h"

using namespace hipgraft;
using test::CaptureModel;

namespace {

// Every pair of known nodes: does the mirror say what the closure says?
int disagreements(const CaptureModel& model) {
  int wrong = 0;
  const auto& ancestors = model.ancestors();
  for (std::size_t b = 0; b < ancestors.size(); ++b) {
    const std::array at_b{CaptureModel::id_of(b)};
    if (!model.mirror().knows(at_b[0])) continue;
    const dag::Frontier frontier = model.mirror().frontier(at_b);
    for (std::size_t a = 0; a < ancestors.size(); ++a) {
      const std::array at_a{CaptureModel::id_of(a)};
      if (!model.mirror().knows(at_a[0])) continue;
      const dag::Marks marks = model.mirror().marks(at_a);
      const bool precedes = a == b || ancestors[b].test(a);
      wrong += frontier.covers(marks.places[0]) != precedes;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("the mirror agrees with transitive closure on every pair of nodes") {
  const arena::OrderedReuse rule;
  int known = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    test::Settings settings;
    settings.streams = 1 + static_cast<int>(seed % 8);
    settings.steps = 240;
    const CaptureModel model(seed, settings, rule);
    known += static_cast<int>(model.mirror().size());
    CHECK(disagreements(model) == 0);
  }
  CHECK(known > 2000);
}

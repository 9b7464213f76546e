// The one rule that makes reuse safe, apart from where blocks are placed.
//
// A stream-ordered free promises that every use of the block precedes the free on its stream, that
// is: precedes or is one of that stream's terminals at that moment (the marks). A block may take
// over freed bytes only if the frontier of its stream covers all their marks: then every use of the
// old block precedes every use of the new one in each order in which the graph may run.
#pragma once

#include "dag/mirror.h"

namespace hipgraft::arena {

class ReuseRule {
 public:
  virtual bool usable(const dag::Marks& freed_at, const dag::Frontier& frontier) const = 0;

 protected:
  ~ReuseRule() = default;
};

// Bytes are reused where the captured graph orders the old uses before the new ones.
class OrderedReuse final : public ReuseRule {
 public:
  bool usable(const dag::Marks& freed_at, const dag::Frontier& frontier) const override;
};

// No byte is handed out twice.
class NoReuse final : public ReuseRule {
 public:
  bool usable(const dag::Marks&, const dag::Frontier&) const override { return false; }
};

// A stream that asks for bytes: what it may use.
struct Asker {
  const ReuseRule& rule;
  const dag::Frontier& frontier;
};

}  // namespace hipgraft::arena

// The report's entries: one for each site and composition of captures.
#pragma once

#include <cstdint>

#include "capture/census.h"
#include "capture/state.h"

namespace hipgraft::capture {

// The code around a return address. Asks the dynamic linker the first time: hold no lock.
report::Site site_of(const void* caller);

// Enters a capture that is over; with the lock held. Nothing when no report is asked for.
RecordRef record_capture(const Session& session, report::Status status, const Census& census);

// A request that the arena has served; takes the lock.
void count_request(Session& session, Call call, std::size_t bytes);

// Whether somebody wants to know how long launches take.
bool recording();

// With the lock held; `record` may be null.
void record_exec(const RecordRef& record);

// All that is known now. Takes the lock; makes no HIP call, so that it may be used at exit.
void fill(report::Report& report);

}  // namespace hipgraft::capture

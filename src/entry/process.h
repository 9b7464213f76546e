// hipgraft's life in the program: switched on by the first HIP call, off in forked children; the
// report is written now and then and at exit.
#pragma once

namespace hipgraft::entry {

// False with HIPGRAFT=off and in a forked child, where HIP does not work anyway. The first call of a
// process reads the options and chooses the runtime, that of `caller`. Thread-safe, also from static
// constructors.
bool active(const void* caller);

// Whether a HIP call has switched hipgraft on; switches nothing itself.
bool at_work();

// Rewrites the report's files if a second has passed since the last time; after a capture has
// ended.
void report_progress();

// Writes all reports now.
void write_report();

}  // namespace hipgraft::entry

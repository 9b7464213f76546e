// Child processes under a time limit.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hipgraft::cli {

// Variables of an environment, as NAME=value.
using Environment = std::vector<std::string>;

// This process's, with `set` put in and `unset` left out.
Environment environment_with(const std::vector<std::pair<std::string, std::string>>& set,
                             const std::vector<std::string_view>& unset = {});

struct Outcome {
  enum class End { exited, killed, timed_out, not_started };
  End end = End::not_started;
  int code = 0;  // exit status, signal, or errno of the start
  std::string output;
  std::string errors;

  bool succeeded() const { return end == End::exited && code == 0; }
};

// How the child ended, for people: "exited with 3", "took longer than 10 s".
std::string describe(const Outcome& outcome);

// Runs the command (found as execvp finds it) without input, in a session of its own. Returns when
// it ends, or when the limit is over; it and what it started are then killed.
Outcome run_child(const std::vector<std::string>& command, const Environment& environment,
                  std::chrono::milliseconds limit);

// The value of a line "key=value"; empty if there is none.
std::string value_of(std::string_view text, std::string_view key);

}  // namespace hipgraft::cli

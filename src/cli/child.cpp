#include "cli/child.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace hipgraft::cli {

namespace {

constexpr std::size_t kMostText = 1 << 20;  // of what a child writes, this much is kept
constexpr std::chrono::milliseconds kPoll{20};

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1;
  int write = -1;

  Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// Once what is there has been read. Closes the end when nothing more will come.
void read_some(int& end, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t got = read(end, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return Pipe::close_end(end);
  text.append(buffer.data(), std::min(static_cast<std::size_t>(got), kMostText - text.size()));
}

// Reads until both ends are closed, or for `wait`.
void read_both(Pipe& output, Pipe& errors, Outcome& outcome, std::chrono::milliseconds wait) {
  std::array<pollfd, 2> ends{pollfd{output.read, POLLIN, 0}, pollfd{errors.read, POLLIN, 0}};
  if (poll(ends.data(), ends.size(), static_cast<int>(wait.count())) <= 0) return;
  if (ends[0].revents != 0) read_some(output.read, outcome.output);
  if (ends[1].revents != 0) read_some(errors.read, outcome.errors);
}

[[noreturn]] void become(char** command, char** environment, const Pipe& output, const Pipe& errors,
                         int start) {
  setsid();
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(output.write, STDOUT_FILENO);
  dup2(errors.write, STDERR_FILENO);
  execvpe(command[0], command, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(start, &error, sizeof error);
  _exit(127);
}

}  // namespace

Environment environment_with(const std::vector<std::pair<std::string, std::string>>& set,
                             const std::vector<std::string_view>& unset) {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(set.begin(), set.end(),
                                      [&](const auto& variable) { return variable.first == name; });
    if (!replaced && std::find(unset.begin(), unset.end(), name) == unset.end()) {
      result.emplace_back(text);
    }
  }
  for (const auto& [name, value] : set) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::string describe(const Outcome& outcome) {
  switch (outcome.end) {
    case Outcome::End::exited:
      return fmt::format("exited with {}", outcome.code);
    case Outcome::End::killed:
      return fmt::format("was killed by signal {} ({})", outcome.code, strsignal(outcome.code));
    case Outcome::End::timed_out:
      return "did not end within the time limit";
    case Outcome::End::not_started:
      break;
  }
  return fmt::format("cannot be started: {}", std::strerror(outcome.code));
}

Outcome run_child(const std::vector<std::string>& command, const Environment& environment,
                  std::chrono::milliseconds limit) {
  Outcome outcome;
  Pipe output;
  Pipe errors;
  Pipe start;
  if (output.read < 0 || errors.read < 0 || start.read < 0 || command.empty()) {
    outcome.code = EMFILE;
    return outcome;
  }
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const pid_t child = fork();
  if (child < 0) {
    outcome.code = errno;
    return outcome;
  }
  if (child == 0) {
    become(const_cast<char**>(arguments.data()), const_cast<char**>(variables.data()), output,
           errors, start.write);
  }
  Pipe::close_end(output.write);
  Pipe::close_end(errors.write);
  Pipe::close_end(start.write);

  const Clock::time_point end = Clock::now() + limit;
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && Clock::now() < end) {
    if (output.read >= 0 || errors.read >= 0) {
      read_both(output, errors, outcome, kPoll);
    } else {
      usleep(1000);
    }
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0) {
    // Another user's (sudo's) child cannot be killed: it is left alone then.
    if (kill(-child, SIGKILL) == 0) waitpid(child, &status, 0);
    outcome.end = Outcome::End::timed_out;
    return outcome;
  }
  // What it wrote is in the pipes; whatever it left running may hold them open.
  for (std::string::size_type before = std::string::npos;
       (output.read >= 0 || errors.read >= 0) &&
       before != outcome.output.size() + outcome.errors.size();) {
    before = outcome.output.size() + outcome.errors.size();
    read_both(output, errors, outcome, std::chrono::milliseconds(0));
  }
  kill(-child, SIGKILL);
  int error = 0;
  if (read(start.read, &error, sizeof error) == sizeof error) {
    outcome.code = error;
    return outcome;
  }
  outcome.end = WIFSIGNALED(status) ? Outcome::End::killed : Outcome::End::exited;
  outcome.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

std::string value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == '=') {
      return std::string(line.substr(key.size() + 1));
    }
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

}  // namespace hipgraft::cli

#include "report/destination.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/json.h"
#include "report/text.h"
#include "util/io.h"
#include "util/log.h"

namespace hipgraft::report {

namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

struct TemporaryFile {
  std::string path;
  int fd = -1;
};

// A new file beside `path`, so that a rename can take its place. open() and not mkstemp(): the mode
// is then the one that the user's umask asks for.
TemporaryFile create_beside(const std::string& path) {
  constexpr int kTries = 100;  // names that a killed process of the same id may have left
  TemporaryFile file;
  for (int i = 0; i < kTries && file.fd < 0; ++i) {
    file.path = fmt::format("{}.{}.{}.tmp", path, getpid(), i);
    file.fd = open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.fd < 0 && errno != EEXIST && errno != EINTR) break;
  }
  return file;
}

}  // namespace

std::string expand(std::string_view pattern, std::uint64_t pid, std::string_view program) {
  std::string text;
  while (!pattern.empty()) {
    if (pattern.starts_with("%p")) {
      text += fmt::format("{}", pid);
    } else if (pattern.starts_with("%e")) {
      text += program;
    } else if (pattern.starts_with("%%")) {
      text += '%';
    } else {
      text += pattern.front();
      pattern.remove_prefix(1);
      continue;
    }
    pattern.remove_prefix(2);
  }
  return text;
}

bool write_file(const std::string& path, std::string_view content) {
  const TemporaryFile file = create_beside(path);
  if (file.fd < 0) return false;
  const bool written = util::write_all(file.fd, content);
  int error = errno;
  // close() reports what a network file system could not keep.
  const bool closed = close(file.fd) == 0 || errno == EINTR;
  if (written && !closed) error = errno;
  if (written && closed) {
    if (rename(file.path.c_str(), path.c_str()) == 0) return true;
    error = errno;
  }
  unlink(file.path.c_str());
  errno = error;
  return false;
}

Destinations::Destinations(const std::vector<config::Destination>& destinations) {
  for (const config::Destination& destination : destinations) entries_.push_back({destination});
}

void Destinations::write(const Report& report, Moment moment) {
  std::optional<std::string> text;
  std::optional<std::string> json;
  for (Entry& entry : entries_) {
    const bool to_stderr = entry.destination.path.empty();
    if (to_stderr && moment == Moment::interim) continue;

    const bool as_text = entry.destination.format == config::ReportFormat::text;
    std::optional<std::string>& content = as_text ? text : json;
    if (!content) content = as_text ? to_text(report) : to_json(report);
    if (to_stderr) {
      util::write_all(STDERR_FILENO, *content);
      continue;
    }
    const std::string path = expand(entry.destination.path, report.pid, file_name(report.exe));
    if (write_file(path, *content) || entry.complained) continue;
    entry.complained = true;
    const int error = errno;
    log::write(log::Level::warn, "the report {} cannot be written: {}", path,
               strerrordesc_np(error));
  }
}

}  // namespace hipgraft::report

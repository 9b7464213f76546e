// The messages of hipgraft: single lines on stderr with the prefix "hipgraft: ". They are formatted
// on the stack and leave by one write(2), because the caller may be anywhere inside somebody else's
// program: under its locks, in its signal handler, before its main. errno is preserved.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>

namespace hipgraft::log {

enum class Level : std::uint8_t { off, error, warn, info, debug, trace };

// After this many lines one last line says that the rest is withheld.
inline constexpr unsigned kMaxLines = 200;

namespace detail {
extern std::atomic<Level> level;  // `warn` until set_level
void write_line(fmt::string_view format, fmt::format_args args) noexcept;
}  // namespace detail

inline void set_level(Level level) noexcept {
  detail::level.store(level, std::memory_order_relaxed);
}

// Whether messages of this level are written. Guards work that only a message needs.
inline bool enabled(Level level) noexcept {
  return level != Level::off && level <= detail::level.load(std::memory_order_relaxed);
}

// Writes one line if `level` is enabled. The format is checked at compile time and needs neither
// the prefix nor a newline; control characters in it or in the arguments become blanks, and what is
// longer than about 1,000 bytes is cut.
template <class... Args>
void write(Level level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (enabled(level)) detail::write_line(format, fmt::make_format_args(args...));
}

}  // namespace hipgraft::log

#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "report/node_kinds.h"
#include "util/size.h"
#include "util/utf8.h"

namespace hipgraft::report {

namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 10;  // of what follows a line's label, and of its continuation

// --- Fitting text into columns ------------------------------------------------------------------

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string shortened(std::string_view text, std::size_t columns) {
  constexpr std::string_view kCut = "...";
  if (columns_of(text) <= columns) return std::string(text);
  if (columns <= kCut.size()) return std::string(kCut.substr(0, columns));
  std::size_t room = columns - kCut.size();
  std::size_t end = 0;
  while (room > 0 || !starts_character(text[end])) {
    if (starts_character(text[end])) --room;
    ++end;
  }
  return fmt::format("{}{}", text.substr(0, end), kCut);
}

// Valid UTF-8 on one line.
std::string printable(std::string_view bytes) {
  std::string text = util::to_utf8(bytes);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

// A line of pieces that goes on in the next line where the columns end.
class Line {
 public:
  Line(std::string& out, std::string head, std::string_view gap)
      : out_(out), text_(std::move(head)), gap_(gap) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() { flush(); }

  std::size_t room() const { return kColumns - std::min(columns_of(text_), kColumns); }

  void add(std::string_view piece) {
    if (!first_ && columns_of(piece) + gap_.size() > room()) {
      flush();
      text_.assign(kIndent, ' ');
      first_ = true;
    }
    if (!first_) text_ += gap_;
    text_ += shortened(piece, room());
    first_ = false;
  }

 private:
  void flush() { out_ += text_ + '\n'; }

  std::string& out_;
  std::string text_;
  std::string_view gap_;
  bool first_ = true;
};

std::string label(std::string_view name) { return fmt::format("  {:<7} ", name); }

// --- What the lines say -------------------------------------------------------------------------

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "Step::run (libsim.so+0x1a2f0)" within `columns`; the symbol gives way first.
std::string site_text(const Site& site, std::size_t columns) {
  const std::string symbol = printable(site.symbol);
  if (site.module.empty()) return shortened(symbol.empty() ? "unknown caller" : symbol, columns);
  const std::string place =
      fmt::format("({}+{:#x})", printable(file_name(site.module)), site.offset);
  if (symbol.empty() || columns_of(place) + 1 >= columns) return shortened(place, columns);
  return fmt::format("{} {}", shortened(symbol, columns - columns_of(place) - 1), place);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void write_header(std::string& out, const Capture& capture) {
  Line line(out, fmt::format("hipgraft: capture #{}  ", capture.id), "  ");
  line.add(site_text(capture.site, line.room()));
  line.add(fmt::format("stream {:#x}", capture.stream));
  line.add(fmt::format("{} mode", printable(capture.mode)));
  if (capture.count > 1) line.add(fmt::format("{} times", capture.count));
}

void write_words(std::string& out, std::string_view text) {
  const std::string words = printable(text);
  Line line(out, std::string(kIndent, ' '), " ");
  std::string_view rest = words;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) line.add(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

// What became of a capture whose first failing call follows. A capture may live on after a refused
// call.
std::string status_label(Status status) {
  switch (status) {
    case Status::ok:
      return label("refused");
    case Status::broken:
      return label("broken");
    case Status::abandoned:
      break;
  }
  return "  abandoned ";
}

void write_status(std::string& out, const Capture& capture) {
  if (!capture.has_first_cause) {
    if (capture.status == Status::broken) out += "  broken  for an unknown reason\n";
    if (capture.status == Status::abandoned) out += "  abandoned before its end\n";
    return;
  }
  const Cause& cause = capture.first_cause;
  {
    Line line(out, status_label(capture.status), "  ");
    line.add(fmt::format("{}: {}", printable(cause.call), printable(cause.error)));
    constexpr std::string_view kAt = "at ";
    line.add(fmt::format("{}{}", kAt, site_text(cause.site, kColumns - kIndent - kAt.size())));
  }
  if (!cause.detail.empty()) write_words(out, cause.detail);
}

std::string difference(std::uint64_t native, std::uint64_t captured) {
  if (native > captured) return fmt::format("   {} avoided", native - captured);
  if (native < captured) return fmt::format("   {} added", captured - native);
  return {};
}

std::string change(std::uint64_t native, std::uint64_t captured) {
  if (native == captured || native == 0) return {};
  const double before = static_cast<double>(native);
  return fmt::format("   {:+.1f}%", (static_cast<double>(captured) - before) / before * 100);
}

void write_node_row(std::string& out, std::string_view name, std::uint64_t native,
                    std::uint64_t captured, std::string_view remark) {
  out += fmt::format("  {:<12}{:>9}{:>11}{}\n", name, native, captured, remark);
}

void write_nodes(std::string& out, const Capture& capture) {
  out += fmt::format("  {:<12}{:>9}{:>11}\n", "nodes", "native", "hipgraft");
  for (const NodeKind& kind : kNodeKinds) {
    const std::uint64_t native = capture.native.*kind.count;
    const std::uint64_t captured = capture.captured.*kind.count;
    if (native == 0 && captured == 0) continue;
    write_node_row(out, kind.label, native, captured, difference(native, captured));
  }
  const std::uint64_t native = capture.native.total();
  const std::uint64_t captured = capture.captured.total();
  write_node_row(out, "total", native, captured, change(native, captured));
}

void write_shape(std::string& out, const Capture& capture) {
  Line line(out, "  ", "   ");
  line.add(fmt::format("edges {}", capture.edges));
  line.add(fmt::format("width {}", capture.width));
  line.add(fmt::format("critical path {}", capture.critical_path));
  if (capture.linearized) line.add("linearized");
}

void write_arena(std::string& out, const ArenaUse& arena) {
  if (arena.requests > 0) {
    Line line(out, label("arena"), "   ");
    line.add(fmt::format("{} asked", util::human_size(arena.bytes_requested)));
    line.add(fmt::format("{} high water (bound {})", util::human_size(arena.high_water),
                         util::human_size_beside(arena.lower_bound, arena.high_water)));
    line.add(counted(arena.chunks, "chunk"));
    line.add(fmt::format("{} grown in capture", arena.grown_in_capture));
    if (arena.escapes > 0) {
      line.add(fmt::format("{} not freed in capture ({})", arena.escapes,
                           util::human_size(arena.escaped_bytes)));
    }
  }
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < std::min(kShown, arena.requesters.size()); ++i) {
    const Requester& requester = arena.requesters[i];
    Line line(out, label(i == 0 ? "asked" : ""), " ");
    line.add(fmt::format("{} in {} at", util::human_size(requester.bytes),
                         counted(requester.requests, "block")));
    line.add(site_text(requester.site, line.room() - 1));
  }
  for (const NamedCount& fallback : arena.native_fallbacks) {
    Line line(out, label("native"), " ");
    line.add(fmt::format("{}:", counted(fallback.count, "allocation")));
    line.add(printable(fallback.name));
  }
}

void write_replays(std::string& out, const Replays& replays) {
  Line line(out, label("replays"), "   ");
  line.add(fmt::format("{}", replays.count));
  if (replays.count == 0) return;
  line.add(
      fmt::format("host launch {:.1f} us (p99 {:.1f})", replays.host_us_p50, replays.host_us_p99));
  if (replays.ordered > 0) line.add(fmt::format("{} ordered across streams", replays.ordered));
}

void write_capture(std::string& out, const Capture& capture) {
  write_header(out, capture);
  write_status(out, capture);
  write_nodes(out, capture);
  write_shape(out, capture);
  write_arena(out, capture.arena);
  write_replays(out, capture.replays);
}

}  // namespace

std::string to_text(const Report& report) {
  if (report.captures.empty()) return "hipgraft: no capture seen\n";
  std::string out;
  for (const Capture& capture : report.captures) write_capture(out, capture);
  return out;
}

}  // namespace hipgraft::report

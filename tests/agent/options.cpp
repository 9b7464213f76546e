#include "options.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace softagent {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    if (end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

template <class Integer>
bool parse_integer(std::string_view text, Integer& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_choice(std::string_view text, std::string_view if_true, std::string_view if_false,
                  bool& out) {
  if (text != if_true && text != if_false) return false;
  out = text == if_true;
  return true;
}

bool parse_switch(std::string_view text, bool& out) { return parse_choice(text, "on", "off", out); }

bool parse_gpus(Options& options, std::string_view text) {
  constexpr uint32_t most = 8;
  uint32_t number = 0;
  if (!parse_integer(text, number) || number == 0 || number > most) return false;
  options.gpus = number;
  return true;
}

bool parse_size(std::string_view text, uint64_t& out) {
  if (text.empty()) return false;
  static constexpr std::string_view units = "KMG";
  const size_t unit = units.find(text.back());
  const unsigned shift =
      unit == std::string_view::npos ? 0 : 10 * (static_cast<unsigned>(unit) + 1);
  if (shift) text.remove_suffix(1);
  uint64_t number = 0;
  if (!parse_integer(text, number) || number == 0 || number > UINT64_MAX >> shift) return false;
  out = number << shift;
  return true;
}

bool parse_isa(Options& options, std::string_view text) {
  static constexpr std::string_view prefix = "amdgcn-amd-amdhsa--gfx";
  if (!text.starts_with(prefix) || text.size() == prefix.size()) return false;
  options.isa = text;
  return true;
}

bool parse_twins(Options& options, std::string_view text) {
  for (const std::string_view path : split(text, ':')) options.twins.emplace_back(path);
  return true;
}

bool parse_kernel_us(Options& options, std::string_view text) {
  uint32_t default_us = 0;
  std::unordered_map<std::string, uint32_t> by_name;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = part.rfind('=');
    const bool named = equals != std::string_view::npos;
    uint32_t us = 0;
    if (!parse_integer(named ? part.substr(equals + 1) : part, us)) return false;
    if (named) {
      by_name[std::string(part.substr(0, equals))] = us;
    } else {
      default_us = us;
    }
  }
  options.default_kernel_us = default_us;
  options.kernel_us = std::move(by_name);
  return true;
}

bool parse_trace(Options& options, std::string_view text) {
  options.trace = text;
  return true;
}

struct Row {
  const char* variable;
  bool (*parse)(Options&, std::string_view);
  const char* accepted;
};

constexpr Row rows[] = {
    {"SOFTAGENT_ISA", parse_isa, "an ISA name, amdgcn-amd-amdhsa--gfx..."},
    {"SOFTAGENT_TWINS", parse_twins, "shared objects, separated by colons"},
    {"SOFTAGENT_GPUS", parse_gpus, "1 to 8"},
    {"SOFTAGENT_LINK",
     [](Options& o, std::string_view text) { return parse_choice(text, "xgmi", "pcie", o.xgmi); },
     "xgmi, pcie"},
    {"SOFTAGENT_VRAM", [](Options& o, std::string_view text) { return parse_size(text, o.vram); },
     "bytes of each GPU, also with K, M or G"},
    {"SOFTAGENT_VMEM",
     [](Options& o, std::string_view text) { return parse_switch(text, o.virtual_memory); },
     "on, off"},
    {"SOFTAGENT_ADDRESS_REUSE",
     [](Options& o, std::string_view text) { return parse_switch(text, o.address_reuse); },
     "off, on"},
    {"SOFTAGENT_FAULT",
     [](Options& o, std::string_view text) {
       return parse_choice(text, "abort", "signal", o.abort_on_fault);
     },
     "abort, signal"},
    {"SOFTAGENT_ORDER",
     [](Options& o, std::string_view text) {
       return parse_choice(text, "random", "fifo", o.random_order);
     },
     "fifo, random"},
    {"SOFTAGENT_SEED",
     [](Options& o, std::string_view text) { return parse_integer(text, o.seed); },
     "a number, for SOFTAGENT_ORDER=random"},
    {"SOFTAGENT_TRACE", parse_trace, "a path, or - for stderr"},
    {"SOFTAGENT_KERNEL_US", parse_kernel_us, "microseconds, or name=microseconds,..."},
};

Options read_environment() {
  Options options;
  for (const Row& row : rows) {
    const char* value = std::getenv(row.variable);
    if (!value || !*value || row.parse(options, value)) continue;
    std::fprintf(stderr, "softagent: %s=%s is not valid; accepted: %s\n", row.variable, value,
                 row.accepted);
  }
  return options;
}

}  // namespace

const Options& options() {
  static const Options& instance = *new Options(read_environment());
  return instance;
}

uint32_t kernel_duration_us(const std::string& kernel) {
  const auto found = options().kernel_us.find(kernel);
  return found == options().kernel_us.end() ? options().default_kernel_us : found->second;
}

}  // namespace softagent

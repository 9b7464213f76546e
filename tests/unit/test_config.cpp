#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "child.h"
#include "config/options.h"

namespace config = hipgraft::config;
namespace log = hipgraft::log;
using Environment = std::map<std::string, std::string>;
using Strings = std::vector<std::string>;

namespace {

const Environment* current_environment = nullptr;

const char* look_up(const char* name) {
  const auto found = current_environment->find(name);
  return found == current_environment->end() ? nullptr : found->second.c_str();
}

config::Loaded load(const Environment& environment) {
  Strings entries;
  for (const auto& [variable, value] : environment) entries.push_back(variable + "=" + value);
  std::vector<const char*> pointers;
  for (const std::string& entry : entries) pointers.push_back(entry.c_str());
  pointers.push_back(nullptr);
  current_environment = &environment;
  return config::load(look_up, pointers.data());
}

Strings given(const config::Options& options) {
  Strings texts;
  for (const config::Destination& destination : options.report) texts.push_back(destination.given);
  return texts;
}

// "a, b or c" as its words.
Strings words(std::string text) {
  const std::size_t last = text.rfind(" or ");
  if (last != std::string::npos) text.replace(last, 4, ", ");
  Strings result;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(", ", begin), text.size());
    result.push_back(text.substr(begin, end - begin));
    begin = end + 2;
  }
  return result;
}

const config::Option& row(std::string_view variable) {
  const auto table = config::table();
  const auto found = std::find_if(table.begin(), table.end(), [variable](const auto& option) {
    return option.variable == variable;
  });
  REQUIRE(found != table.end());
  return *found;
}

}  // namespace

TEST_CASE("an empty environment gives the documented defaults") {
  const config::Loaded loaded = load({});
  CHECK(loaded.warnings.empty());
  const config::Options& options = loaded.options;
  CHECK(options.enabled);
  CHECK(options.arena == config::Arena::on);
  CHECK(options.join);
  CHECK(options.report.empty());
  CHECK_FALSE(options.report_detail);
  CHECK(options.arena_chunk == 2097152);
  CHECK(options.arena_limit == config::kUnlimited);
  CHECK(options.log_level == log::Level::warn);
  CHECK(options.runtime.empty());
}

TEST_CASE("the table's default is the value in force without a variable") {
  for (const config::Option& option : config::table()) {
    CAPTURE(option.variable);
    const std::string in_force = option.print(config::Options{});
    CHECK(in_force == (std::string_view(option.default_value) == "unset" ? std::string()
                                                                         : option.default_value));
  }
}

TEST_CASE("every row has its own variable and one line of meaning") {
  std::set<std::string> variables;
  for (const config::Option& option : config::table()) {
    CAPTURE(option.variable);
    CHECK(variables.insert(option.variable).second);
    CHECK(std::string_view(option.variable).starts_with("HIPGRAFT"));
    const std::string_view meaning = option.meaning;
    CHECK_FALSE(meaning.empty());
    // Both would break the Markdown table.
    CHECK(meaning.find_first_of("\n|") == std::string_view::npos);
  }
}

TEST_CASE("every word that a row says it accepts is accepted, and read back as itself") {
  for (const char* variable :
       {"HIPGRAFT", "HIPGRAFT_ARENA", "HIPGRAFT_JOIN", "HIPGRAFT_REPORT_DETAIL", "HIPGRAFT_LOG"}) {
    const config::Option& option = row(variable);
    const Strings accepted = words(option.accepted);
    CHECK(accepted.size() >= 2);
    std::set<std::string> printed;
    for (const std::string& word : accepted) {
      CAPTURE(word);
      config::Options options;
      CHECK(option.parse(word, options));
      CHECK(option.print(options) == word);
      printed.insert(option.print(options));
    }
    CHECK(printed.size() == accepted.size());
  }
}

TEST_CASE("values reach the options") {
  const config::Loaded loaded = load({{"HIPGRAFT", "off"},
                                      {"HIPGRAFT_ARENA", "noreuse"},
                                      {"HIPGRAFT_JOIN", "off"},
                                      {"HIPGRAFT_REPORT", "-,/x/a.json"},
                                      {"HIPGRAFT_REPORT_DETAIL", "on"},
                                      {"HIPGRAFT_ARENA_CHUNK", "64K"},
                                      {"HIPGRAFT_ARENA_LIMIT", "1G"},
                                      {"HIPGRAFT_LOG", "trace"},
                                      {"HIPGRAFT_RUNTIME", "/proc/self/exe"}});
  CHECK(loaded.warnings == Strings{});
  const config::Options& options = loaded.options;
  CHECK_FALSE(options.enabled);
  CHECK(options.arena == config::Arena::noreuse);
  CHECK_FALSE(options.join);
  CHECK(given(options) == Strings{"-", "/x/a.json"});
  CHECK(options.report_detail);
  CHECK(options.arena_chunk == 65536);
  CHECK(options.arena_limit == 1073741824);
  CHECK(options.log_level == log::Level::trace);
  CHECK(options.runtime == "/proc/self/exe");

  const auto values = config::values(options);
  CHECK(values.size() == config::table().size());
  const auto value = [&](std::string_view variable) {
    return std::find_if(values.begin(), values.end(),
                        [&](const auto& pair) { return pair.first == variable; })
        ->second;
  };
  CHECK(value("HIPGRAFT_ARENA") == "noreuse");
  CHECK(value("HIPGRAFT_ARENA_CHUNK") == "64K");
  CHECK(value("HIPGRAFT_ARENA_LIMIT") == "1G");
  CHECK(value("HIPGRAFT_REPORT") == "-,/x/a.json");
}

TEST_CASE("an empty value is no value") {
  Environment environment;
  for (const config::Option& option : config::table()) environment[option.variable] = "";
  const config::Loaded loaded = load(environment);
  CHECK(loaded.warnings == Strings{});
  CHECK(config::values(loaded.options) == config::values(config::Options{}));
}

TEST_CASE("a bad value gives one warning with everything in it, and the default") {
  const config::Loaded loaded = load({{"HIPGRAFT_ARENA", "maybe"}, {"HIPGRAFT_JOIN", "off"}});
  CHECK(loaded.warnings ==
        Strings{"HIPGRAFT_ARENA='maybe' is not understood: use on, off, noreuse or poison; taking on"});
  CHECK(loaded.options.arena == config::Arena::on);
  CHECK_FALSE(loaded.options.join);
}

TEST_CASE("every option refuses nonsense and keeps its default") {
  for (const config::Option& option : config::table()) {
    CAPTURE(option.variable);
    for (const char* value : {"nonsense", "ON", "on ", "1", "-1"}) {
      if (std::string_view(option.variable) == "HIPGRAFT_ARENA_LIMIT" && *value == '1') continue;
      CAPTURE(value);
      const config::Loaded loaded = load({{option.variable, value}});
      REQUIRE(loaded.warnings.size() == 1);
      const std::string& warning = loaded.warnings.front();
      CHECK(warning.starts_with(std::string(option.variable) + "='" + value + "'"));
      CHECK(warning.find(option.accepted) != std::string::npos);
      CHECK(option.print(loaded.options) == option.print(config::Options{}));
    }
  }
}

TEST_CASE("a chunk has a least size") {
  CHECK(load({{"HIPGRAFT_ARENA_CHUNK", "4095"}}).warnings.size() == 1);
  CHECK(load({{"HIPGRAFT_ARENA_CHUNK", "4K"}}).options.arena_chunk == 4096);
}

TEST_CASE("a runtime must be a file") {
  CHECK(load({{"HIPGRAFT_RUNTIME", "/"}}).warnings.size() == 1);
  const config::Loaded loaded = load({{"HIPGRAFT_RUNTIME", "/nowhere/libamdhip64.so"}});
  CHECK(loaded.warnings == Strings{"HIPGRAFT_RUNTIME='/nowhere/libamdhip64.so' is not understood: "
                                   "use the path of an existing libamdhip64 file; ignoring it"});
}

TEST_CASE("report destinations get their format by suffix") {
  const config::Loaded loaded = load({{"HIPGRAFT_REPORT", "stderr, /x/a.txt,,/x/b%p.json,-"}});
  CHECK(loaded.warnings == Strings{});
  const auto& report = loaded.options.report;
  REQUIRE(report.size() == 4);
  CHECK(report[0].path.empty());
  CHECK(report[0].format == config::ReportFormat::text);
  CHECK(report[1].path == "/x/a.txt");
  CHECK(report[1].format == config::ReportFormat::text);
  CHECK(report[2].path == "/x/b%p.json");
  CHECK(report[2].format == config::ReportFormat::json);
  CHECK(report[3].path.empty());
}

TEST_CASE("a report path is taken from where the program started") {
  const config::Loaded loaded = load({{"HIPGRAFT_REPORT", "out/run.json"}});
  REQUIRE(loaded.options.report.size() == 1);
  CHECK(loaded.options.report[0].path ==
        (std::filesystem::current_path() / "out/run.json").string());
}

TEST_CASE("a bad report destination is named, the good ones remain") {
  const config::Loaded loaded = load({{"HIPGRAFT_REPORT", "a.pdf,/x/b.json,t.trace.json,c"}});
  CHECK(
      loaded.warnings ==
      Strings{"HIPGRAFT_REPORT='a.pdf,/x/b.json,t.trace.json,c' is not understood: use -, stderr, "
              "*.txt or *.json, several separated by commas; taking /x/b.json"});
  CHECK(given(loaded.options) == Strings{"/x/b.json"});
}

TEST_CASE("variables of our family that are no option are named") {
  CHECK(load({{"HIPGRAFT_AREAN", "off"}}).warnings ==
        Strings{"HIPGRAFT_AREAN is not an option of hipgraft: did you mean HIPGRAFT_ARENA?"});
  CHECK(load({{"HIPGRAFT_REPORTS", "-"}}).warnings ==
        Strings{"HIPGRAFT_REPORTS is not an option of hipgraft: did you mean HIPGRAFT_REPORT?"});
  CHECK(load({{"HIPGRAFT_COLOUR", ""}}).warnings ==
        Strings{"HIPGRAFT_COLOUR is not an option of hipgraft"});
  const std::string longest = "HIPGRAFT_" + std::string(100000, 'X');
  CHECK(load({{longest, "1"}}).warnings.size() == 1);
}

TEST_CASE("other people's variables and the scripts' own are left alone") {
  CHECK(load({{"HIPGRAFT_CACHE", "/c"}, {"HIPGRAFTER", "1"}, {"HIP_VISIBLE_DEVICES", "0"}})
            .warnings == Strings{});
}

TEST_CASE("the shim's start: level first, then each warning once") {
  const auto start = [](const char* log_level) {
    return in_child([log_level] {
      setenv("HIPGRAFT_LOG", log_level, 1);
      setenv("HIPGRAFT_ARENA", "maybe", 1);
      setenv("HIPGRAFT_AREAN", "off", 1);
      setenv("HIPGRAFT_JOIN", "off", 1);
      const config::Options options = config::load_environment();
      return options.join || options.arena != config::Arena::on ? 1 : 0;
    });
  };
  const ChildResult loud = start("warn");
  CHECK(loud.exited_with(0));
  CHECK(loud.writes ==
        Strings{"hipgraft: HIPGRAFT_ARENA='maybe' is not understood: use on, off, noreuse or poison; "
                "taking on\n",
                "hipgraft: HIPGRAFT_AREAN is not an option of hipgraft: did you mean "
                "HIPGRAFT_ARENA?\n"});
  const ChildResult silent = start("off");
  CHECK(silent.exited_with(0));
  CHECK(silent.writes == Strings{});
}

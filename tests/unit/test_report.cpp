#include <doctest/doctest.h>
#include <rapidjson/document.h>
#include <rapidjson/pointer.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "report/destination.h"
#include "report/json.h"
#include "report/text.h"
#include "sample_reports.h"
#include "util/utf8.h"

namespace config = hipgraft::config;
namespace fs = std::filesystem;
namespace report = hipgraft::report;
using Strings = std::vector<std::string>;

namespace {

report::Report with(report::Capture capture) {
  report::Report result = samples::without_captures();
  result.captures = {std::move(capture)};
  return result;
}

Strings lines_of(const std::string& text) {
  std::istringstream stream(text);
  Strings lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

long characters(const std::string& line) {
  return std::count_if(line.begin(), line.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

rapidjson::Document parsed(const report::Report& input) {
  const std::string text = report::to_json(input);
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(text.data(), text.size());
  REQUIRE_FALSE(document.HasParseError());
  return document;
}

std::uint64_t number(const rapidjson::Document& document, const char* pointer) {
  CAPTURE(pointer);
  const rapidjson::Value* value = rapidjson::Pointer(pointer).Get(document);
  REQUIRE(value != nullptr);
  REQUIRE(value->IsUint64());
  return value->GetUint64();
}

std::string string(const rapidjson::Document& document, const char* pointer) {
  CAPTURE(pointer);
  const rapidjson::Value* value = rapidjson::Pointer(pointer).Get(document);
  REQUIRE(value != nullptr);
  REQUIRE(value->IsString());
  return {value->GetString(), value->GetStringLength()};
}

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "hipgraft-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  std::string file(const std::string& name) const { return path_ / name; }
  Strings names() const {
    Strings names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  fs::path path_;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

config::Destination text_file(const std::string& path) {
  return {config::ReportFormat::text, path, path};
}
config::Destination json_file(const std::string& path) {
  return {config::ReportFormat::json, path, path};
}
config::Destination to_stderr() { return {config::ReportFormat::text, "-", ""}; }

}  // namespace

TEST_SUITE("text report") {
  TEST_CASE("an ordinary capture") {
    CHECK(report::to_text(with(samples::step_capture())) ==
          "hipgraft: capture #1  Step::run (libsim.so+0x1a2f0)  stream 0x55d0  global mode\n"
          "  nodes          native   hipgraft\n"
          "  kernel            210        210\n"
          "  memset             24         24\n"
          "  memAlloc           24          0   24 avoided\n"
          "  memFree            24          0   24 avoided\n"
          "  total             282        234   -17.0%\n"
          "  edges 233   width 1   critical path 234\n"
          "  arena   41.2 MiB asked   9.7 MiB high water (bound 9.1)   1 chunk\n"
          "          0 grown in capture\n"
          "  asked   41.0 MiB in 20 blocks at Step::scratch (libsim.so+0x1b000)\n"
          "          196.6 KiB in 4 blocks at (libsim.so+0x2b10)\n"
          "  replays 1000   host launch 6.9 us (p99 9.1)\n");
  }

  TEST_CASE("a broken capture names its first cause right after the header") {
    CHECK(report::to_text(with(samples::broken_capture())) ==
          "hipgraft: capture #2  (simulator+0x40)  stream 0x55e0  thread_local mode\n"
          "          3 times\n"
          "  broken  hipMallocAsync: hipErrorOutOfMemory\n"
          "          at fwd_position (libsim.so+0x2b10)\n"
          "          The arena has reached HIPGRAFT_ARENA_LIMIT and the runtime has no\n"
          "          memory left for a block of 4.0 GiB.\n"
          "  nodes          native   hipgraft\n"
          "  kernel              2          2\n"
          "  memAlloc            1          1\n"
          "  total               3          3\n"
          "  edges 1   width 1   critical path 2\n"
          "  replays 0\n");
  }

  TEST_CASE("a capture that lived on after a refused call names that call") {
    report::Capture capture = samples::broken_capture();
    capture.status = report::Status::ok;
    const Strings lines = lines_of(report::to_text(with(capture)));
    CHECK(std::count(lines.begin(), lines.end(), "  refused hipMallocAsync: hipErrorOutOfMemory") ==
          1);
  }

  TEST_CASE("a broken capture without a cause says so") {
    report::Capture capture = samples::broken_capture();
    capture.has_first_cause = false;
    const Strings lines = lines_of(report::to_text(with(capture)));
    CHECK(std::count(lines.begin(), lines.end(), "  broken  for an unknown reason") == 1);
  }

  TEST_CASE("an abandoned capture") {
    const Strings lines = lines_of(report::to_text(samples::abandoned()));
    REQUIRE(lines.size() > 2);
    CHECK(lines[0] == "hipgraft: capture #1  unknown caller  stream 0x0  relaxed mode");
    CHECK(lines[1] == "  abandoned before its end");
    CHECK(std::count(lines.begin(), lines.end(), "  total               0          0") == 1);
  }

  TEST_CASE("no capture") {
    CHECK(report::to_text(samples::without_captures()) == "hipgraft: no capture seen\n");
  }

  TEST_CASE("nodes that hipgraft adds are not hidden") {
    report::Capture capture = samples::step_capture();
    capture.native = {};
    capture.native.kernel = 4;
    capture.captured = {};
    capture.captured.kernel = 4;
    capture.captured.empty = 1;
    const std::string text = report::to_text(with(capture));
    CHECK(contains(text, "  empty               0          1   1 added\n"));
    CHECK(contains(text, "  total               4          5   +25.0%\n"));
  }

  TEST_CASE("what rarely happens is shown when it does") {
    report::Capture capture = samples::step_capture();
    capture.linearized = true;
    capture.arena.chunks = 2;
    capture.arena.escapes = 3;
    capture.arena.escaped_bytes = 1536;
    capture.arena.native_fallbacks = {{"zero bytes asked", 1}, {"stream of another device", 2}};
    capture.replays.ordered = 5;
    const std::string text = report::to_text(with(capture));
    CHECK(contains(text, "critical path 234   linearized\n"));
    CHECK(contains(text, "   2 chunks\n"));
    CHECK(contains(text, "   3 not freed in capture (1.5 KiB)\n"));
    CHECK(contains(text, "\n  native  1 allocation: zero bytes asked\n"));
    CHECK(contains(text, "\n  native  2 allocations: stream of another device\n"));
    CHECK(contains(text, "   5 ordered across streams\n"));
  }

  TEST_CASE("every capture has its block") {
    const Strings lines = lines_of(report::to_text(samples::full()));
    CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
            return line.starts_with("hipgraft: capture #");
          }) == 2);
  }

  TEST_CASE("whatever the names, lines fit 80 columns and are clean UTF-8") {
    report::Report input = samples::hostile();
    for (const std::size_t length : {1U, 20U, 40U, 55U, 56U, 57U, 58U, 59U, 60U, 61U, 80U, 200U}) {
      report::Capture capture = samples::broken_capture();
      capture.site = {std::string(length, 's'), "libm.so", 1};
      capture.first_cause.site = {"", std::string(length, 'm'), 1};
      capture.first_cause.detail = std::string(length, 'd') + " e";
      capture.mode = std::string(length, 'o');
      input.captures.push_back(capture);
    }
    const std::string text = report::to_text(input);
    CHECK(hipgraft::util::to_utf8(text) == text);
    for (const std::string& line : lines_of(text)) {
      CAPTURE(line);
      CHECK(characters(line) <= 80);
      CHECK(std::none_of(line.begin(), line.end(),
                         [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
      CHECK_FALSE(line.ends_with(' '));
    }
  }

  TEST_CASE("a long symbol gives way, its place stays") {
    report::Capture capture = samples::step_capture();
    capture.site.symbol = std::string(300, 's');
    const Strings lines = lines_of(report::to_text(with(capture)));
    CHECK(lines[0].ends_with("sss... (libsim.so+0x1a2f0)"));
    CHECK(characters(lines[0]) == 80);
    CHECK(lines[1] == "          stream 0x55d0  global mode");
  }
}

TEST_SUITE("JSON report") {
  TEST_CASE("the values arrive under their keys") {
    const rapidjson::Document json = parsed(samples::full());
    CHECK(string(json, "/schema") == "hipgraft.report/1");
    CHECK(number(json, "/process/pid") == 4711);
    CHECK(string(json, "/process/args/2") == "10");
    CHECK(string(json, "/runtime/version") == "7.2.0");
    CHECK(string(json, "/options/HIPGRAFT") == "on");
    CHECK(string(json, "/captures/0/site/symbol") == "Step::run");
    CHECK(number(json, "/captures/0/site/offset") == 0x1a2f0);
    CHECK(string(json, "/captures/0/status") == "ok");
    CHECK(number(json, "/captures/0/nodes/native/mem_free") == 24);
    CHECK(number(json, "/captures/0/nodes/native/total") == 282);
    CHECK(number(json, "/captures/0/nodes/captured/total") == 234);
    CHECK(number(json, "/captures/0/critical_path") == 234);
    CHECK(string(json, "/captures/0/kernels/1/name") == "reduce");
    CHECK(number(json, "/captures/0/arena/high_water") == 10171187);
    CHECK(string(json, "/captures/0/arena/blocks/1/address") == "0xffffffffffffff00");
    CHECK(string(json, "/captures/0/arena/native_fallbacks/0/reason") ==
          "larger than HIPGRAFT_ARENA_LIMIT");
    CHECK(number(json, "/captures/0/graph/edges/0/1") == 1);
    CHECK(number(json, "/captures/0/replays/count") == 1000);
    CHECK(rapidjson::Pointer("/captures/0/replays/host_us/p50").Get(json)->GetDouble() ==
          doctest::Approx(6.94));
    CHECK(rapidjson::Pointer("/captures/0/first_cause").Get(json)->IsNull());
    CHECK(string(json, "/captures/1/status") == "broken");
    CHECK(string(json, "/captures/1/first_cause/call") == "hipMallocAsync");
    CHECK(number(json, "/captures/1/first_cause/site/offset") == 0x2b10);
  }

  TEST_CASE("details are absent where they were not collected") {
    const rapidjson::Document json = parsed(with(samples::step_capture()));
    CHECK(rapidjson::Pointer("/captures/0/graph").Get(json) == nullptr);
    CHECK(rapidjson::Pointer("/captures/0/arena/blocks").Get(json) == nullptr);
  }

  TEST_CASE("totals take each entry as often as it was captured") {
    report::Report input = samples::without_captures();
    report::Capture twice = samples::step_capture();
    twice.count = 2;
    input.captures = {twice, samples::broken_capture()};
    const rapidjson::Document json = parsed(input);
    CHECK(number(json, "/totals/captures") == 5);
    CHECK(number(json, "/totals/nodes/native/kernel") == 2 * 210 + 3 * 2);
    CHECK(number(json, "/totals/nodes/native/total") == 2 * 282 + 3 * 3);
    CHECK(number(json, "/totals/nodes/captured/total") == 2 * 234 + 3 * 3);
    CHECK(number(json, "/totals/mem_nodes_avoided") == 2 * 48);
    CHECK(number(json, "/totals/replays") == 1000);
  }

  TEST_CASE("any bytes give valid JSON on one line") {
    const std::string text = report::to_json(samples::hostile());
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(text.back() == '\n');
    const rapidjson::Document json = parsed(samples::hostile());
    CHECK(string(json, "/process/exe") == "/tmp/a\"b\\c\nd\xEF\xBF\xBD");
    CHECK(string(json, "/process/args/0") == std::string("nul\0inside", 10));
    CHECK(number(json, "/captures/0/kernels/0/count") == UINT64_MAX);
    CHECK(rapidjson::Pointer("/captures/0/replays/host_us/p99").Get(json)->IsNumber());
  }
}

TEST_SUITE("report destinations") {
  TEST_CASE("%p, %e and %% are expanded, nothing else") {
    CHECK(report::expand("/x/%e.%p.json", 42, "sim") == "/x/sim.42.json");
    CHECK(report::expand("%p%p", 7, "") == "77");
    CHECK(report::expand("100%%p %d %", 7, "sim") == "100%p %d %");
    CHECK(report::expand("%e", 7, "%p") == "%p");
  }

  TEST_CASE("each destination gets its format") {
    const Folder folder;
    const report::Report input = samples::full();
    report::Destinations destinations(
        {json_file(folder.file("%e-%p.json")), text_file(folder.file("a.txt"))});
    destinations.write(input, report::Moment::interim);
    CHECK(folder.names() == Strings{"a.txt", "simulator-4711.json"});
    CHECK(content(folder.file("simulator-4711.json")) == report::to_json(input));
    CHECK(content(folder.file("a.txt")) == report::to_text(input));
  }

  TEST_CASE("a later report replaces the earlier one") {
    const Folder folder;
    report::Destinations destinations({text_file(folder.file("a.txt"))});
    destinations.write(samples::full(), report::Moment::interim);
    destinations.write(samples::without_captures(), report::Moment::final);
    CHECK(content(folder.file("a.txt")) == "hipgraft: no capture seen\n");
    CHECK(folder.names() == Strings{"a.txt"});
  }

  TEST_CASE("stderr gets the final report only") {
    const ChildResult child = in_child([] {
      report::Destinations destinations({to_stderr()});
      destinations.write(samples::full(), report::Moment::interim);
      destinations.write(samples::without_captures(), report::Moment::final);
      return 0;
    });
    CHECK(child.writes == Strings{"hipgraft: no capture seen\n"});
  }

  TEST_CASE("a file has the mode that the umask asks for") {
    const Folder folder;
    const ChildResult child = in_child([&] {
      umask(027);
      return report::write_file(folder.file("a.txt"), "x") ? 0 : 1;
    });
    REQUIRE(child.exited_with(0));
    struct stat status {};
    REQUIRE(stat(folder.file("a.txt").c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0640);
  }

  TEST_CASE("a reader never sees half a file") {
    const Folder folder;
    const std::string path = folder.file("a.json");
    const std::string small = "{}";
    const std::string large(1 << 20, 'x');
    REQUIRE(report::write_file(path, small));
    std::atomic<bool> done{false};
    std::atomic<int> torn{0};
    std::thread reader([&] {
      while (!done) {
        const std::string seen = content(path);
        if (seen != small && seen != large) ++torn;
      }
    });
    for (int i = 0; i < 50; ++i) report::write_file(path, i % 2 == 0 ? large : small);
    done = true;
    reader.join();
    CHECK(torn == 0);
    CHECK(folder.names() == Strings{"a.json"});
  }

  TEST_CASE("what a killed process left does not stand in the way") {
    const Folder folder;
    const std::string path = folder.file("a.txt");
    const std::string left = path + "." + std::to_string(getpid()) + ".0.tmp";
    std::ofstream(left) << "half a rep";
    CHECK(report::write_file(path, "new"));
    CHECK(content(path) == "new");
    CHECK(content(left) == "half a rep");
  }

  TEST_CASE("a failed write leaves no temporary file and says why") {
    const Folder folder;
    const std::string taken = folder.file("a.txt");
    fs::create_directory(taken);
    CHECK_FALSE(report::write_file(taken, "x"));
    CHECK(errno == EISDIR);
    CHECK(folder.names() == Strings{"a.txt"});
  }

  TEST_CASE("a destination that fails is named once, the others are served") {
    const Folder folder;
    const ChildResult child = in_child([&] {
      report::Destinations destinations(
          {json_file("/nowhere/%p.json"), text_file(folder.file("a.txt"))});
      for (int i = 0; i < 3; ++i) destinations.write(samples::full(), report::Moment::interim);
      return 0;
    });
    CHECK(child.err() ==
          "hipgraft: the report /nowhere/4711.json cannot be written: No such file or directory\n");
    CHECK(folder.names() == Strings{"a.txt"});
  }
}

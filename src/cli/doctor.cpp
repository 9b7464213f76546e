#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "cli/child.h"
#include "cli/doctor_child.h"
#include "cli/launch.h"
#include "cli/program.h"
#include "cli/runtimes.h"
#include "config/options.h"
#include "hipgraft/hipgraft.h"

namespace hipgraft::cli {

namespace fs = std::filesystem;

namespace {

class Examination {
 public:
  explicit Examination(const DoctorRequest& request)
      : request_(request), surroundings_(request.surroundings) {
    std::error_code error;
    const fs::path self = fs::canonical(surroundings_.self, error);
    if (!error) surroundings_.self = self;
    preload_ = preload_with(request.library, variable("LD_PRELOAD"));
  }

  int run() {
    check_settings();
    check_preload();
    if (preloads_) check_other_ways();
    ProgramFacts program;
    if (!request_.command.empty()) program = check_program();
    check_runtimes(program);
    if (!request_.command.empty()) check_use(program);
    return conclude();
  }

 private:
  static void line(std::string_view label, std::string_view text) {
    std::cout << fmt::format("{:<10} {}\n", label, text);
  }
  void problem(std::string text) { problems_.push_back(std::move(text)); }

  void check_settings() {
    line("hipgraft", HIPGRAFT_VERSION);
    const config::Loaded loaded =
        config::load([](const char* name) -> const char* { return std::getenv(name); }, environ);
    for (const std::string& warning : loaded.warnings) line("setting", warning);
    if (!loaded.options.enabled) problem("HIPGRAFT is off in the environment");
    if (loaded.options.arena == config::Arena::off) {
      line("setting", "HIPGRAFT_ARENA is off: allocations stay graph nodes");
    }
    wanted_runtime_ = loaded.options.runtime;
  }

  Outcome preload_child(std::vector<std::string> front) const {
    front.insert(front.end(), {surroundings_.self.string(), std::string(kPreloadChild)});
    return run_child(front, environment_with({{"LD_PRELOAD", preload_}}), surroundings_.limit);
  }

  bool in_force(const Outcome& outcome) const {
    std::error_code error;
    const std::string library = value_of(outcome.output, "library");
    return !library.empty() && fs::weakly_canonical(library, error) == request_.library &&
           value_of(outcome.output, "dlsym") == library;
  }

  void check_preload() {
    if (request_.library.empty()) {
      line("library", "not found");
      return problem("libhipgraft.so is not where it is built or installed: use --library PATH");
    }
    if (request_.library.string().find_first_of(" :") != std::string::npos) {
      line("library", request_.library.string());
      return problem("the library's path holds a blank or a colon, which LD_PRELOAD cannot carry");
    }
    const Outcome outcome = preload_child({});
    const std::string version = value_of(outcome.output, "version");
    line("library", fmt::format("{}  {}", request_.library.string(),
                                version.empty() ? "version unknown" : "version " + version));
    if (!version.empty() && version != HIPGRAFT_VERSION) {
      line("", "its version is not this program's, " HIPGRAFT_VERSION);
    }
    line("route", "symbol");
    preloads_ = in_force(outcome);
    if (preloads_) {
      return line("preload",
                  "works: in a child process hipgraft_version and dlsym are the library's");
    }
    line("preload", "does not work");
    const std::string error = outcome.errors.substr(0, outcome.errors.find('\n'));
    if (!outcome.succeeded()) {
      problem("a child process with the library preloaded " + describe(outcome));
    } else if (!version.empty()) {
      problem(fmt::format("in a child process {} is in force instead of the library",
                          value_of(outcome.output, "dlsym")));
    } else {
      problem("the library is not in force in a child process" +
              (error.empty() ? std::string() : ": " + error));
    }
  }

  void check_other_ways() const {
    const Outcome bare = preload_child({"env", "-i"});
    if (!bare.succeeded()) {
      line("env -i", "not tried: env " + describe(bare));
    } else if (in_force(bare)) {
      line("env -i", "keeps the library");
    } else {
      line("env -i",
           "drops LD_PRELOAD: put hipgraft behind it (env -i .../hipgraft run -- program)");
    }
    if (find_program("sudo").empty()) {
      line("sudo", "not installed");
    } else if (const Outcome outcome = preload_child({"sudo", "-n"}); !outcome.succeeded()) {
      line("sudo", "not tried, as sudo -n " + describe(outcome) +
                       "; it drops LD_PRELOAD as a rule: use sudo .../hipgraft run -- program");
    } else if (in_force(outcome)) {
      line("sudo", "keeps the library");
    } else {
      line("sudo", "drops LD_PRELOAD: put hipgraft behind it (sudo .../hipgraft run -- program)");
    }
    line("set-uid", "the dynamic linker ignores LD_PRELOAD in set-uid and set-gid programs");
  }

  ProgramFacts check_program() {
    ProgramFacts facts =
        examine_program(request_.command.front(), preload_, request_.library, surroundings_);
    if (!facts.script.empty()) {
      line("program",
           fmt::format("{}  a script, run by {}", facts.script.string(), facts.path.string()));
    } else if (!facts.path.empty()) {
      line("program", facts.path.string());
    }
    if (!facts.warning.empty()) line("", facts.warning);
    if (preloads_ && !facts.problem.empty()) problem(facts.problem);
    return facts;
  }

  // What hipgraft will work on, and whatever else lies on this machine.
  void check_runtimes(const ProgramFacts& program) {
    std::vector<Runtime> runtimes = find_runtimes(surroundings_);
    const auto at = [&](const fs::path& path) {
      return std::find_if(runtimes.begin(), runtimes.end(),
                          [&](const Runtime& runtime) { return runtime.path == path; });
    };
    if (!program.runtime.empty()) {
      auto known = at(program.runtime);
      if (known == runtimes.end()) known = runtimes.insert(runtimes.begin(), {program.runtime, {}});
      known->found_by.emplace_back("the program");
    }
    std::error_code error;
    const fs::path chosen =
        wanted_runtime_.empty() ? program.runtime : fs::weakly_canonical(wanted_runtime_, error);
    if (runtimes.empty()) line("runtime", "none found");

    std::string first_fault;
    for (const Runtime& runtime : runtimes) {
      const RuntimeFacts facts = examine_runtime(
          runtime.path, runtime.path == chosen ? program.loader : std::vector<std::string>(),
          surroundings_);
      print(runtime, facts);
      const std::string reason = facts.unusable.empty() ? facts.not_loaded : facts.unusable;
      if (reason.empty()) usable_ = true;
      const std::string fault = fmt::format("{} cannot be used: {}", runtime.path.string(), reason);
      if (!reason.empty() && runtime.path == chosen) problem(fault);
      if (!reason.empty() && first_fault.empty()) first_fault = fault;
    }
    if (!request_.command.empty() || usable_ || !chosen.empty()) return;
    problem(runtimes.empty()
                ? "no HIP runtime was found: name it (HIPGRAFT_RUNTIME, LD_LIBRARY_PATH), or the "
                  "program (hipgraft doctor -- program)"
                : first_fault + "; name a program that can load it (hipgraft doctor -- program)");
  }

  static void print(const Runtime& runtime, const RuntimeFacts& facts) {
    line("runtime", runtime.path.string());
    line("", fmt::format("found by {}", fmt::join(runtime.found_by, ", ")));
    line("", facts.version.empty()
                 ? "version unknown"
                 : fmt::format("version {}, {}", facts.version, facts.version_source));
    if (facts.exported != 0) {
      line("", fmt::format("intercepted: {}; left alone: {} of {} exported hip functions",
                           facts.intercepted, facts.exported - facts.intercepted, facts.exported));
    }
    if (!facts.unusable.empty()) line("", "cannot be used: " + facts.unusable);
    if (!facts.not_loaded.empty()) line("", "cannot be loaded: " + facts.not_loaded);
  }

  void check_use(const ProgramFacts& program) {
    if (program.path.empty() || !program.problem.empty()) return;
    if (!program.runtime.empty()) {
      return line("links", fmt::format("the runtime; {} of the {} HIP functions that the program "
                                       "itself calls are intercepted",
                                       program.intercepted_calls, program.hip_calls));
    }
    if (!program.may_load) {
      return problem(
          "the program links no HIP runtime, and can neither load one nor start another "
          "program");
    }
    line("links", "no HIP runtime");
    condition_ = ", if the program loads a HIP runtime as it runs, or starts one that does";
    if (!usable_) condition_ += " (none that can be loaded was found on this machine)";
  }

  int conclude() const {
    if (problems_.empty()) {
      std::cout << "verdict: will work" << condition_ << std::endl;
      return 0;
    }
    std::cout << fmt::format("verdict: will not work: {}", fmt::join(problems_, "; ")) << std::endl;
    return 1;
  }

  const DoctorRequest& request_;
  Surroundings surroundings_;
  std::string preload_;
  std::string wanted_runtime_;
  bool preloads_ = false;
  bool usable_ = false;  // a runtime is
  std::string condition_;
  std::vector<std::string> problems_;
};

}  // namespace

int doctor(const DoctorRequest& request) {
  try {
    return Examination(request).run();
  } catch (const std::exception& error) {
    std::cout << "verdict: will not work: the examination failed: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace hipgraft::cli

// The program `hipgraft`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/doctor.h"
#include "cli/doctor_child.h"
#include "cli/launch.h"
#include "cli/option_table.h"
#include "config/options.h"
#include "hipgraft/hipgraft.h"

namespace hipgraft::cli {

namespace {

constexpr std::string_view kRepeatable = "HIPGRAFT_REPORT";  // its value is a list
constexpr std::string_view kEndOfOptions = "--";

// An option of `hipgraft run` that stands for a variable.
struct Setting {
  const config::Option* option;
  std::vector<std::string> values;
};

struct RunArguments {
  std::string library;
  std::vector<Setting> settings;
};

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    if (!text.empty()) text += ',';
    text += value;
  }
  return text;
}

CLI::Validator validator(const config::Option& option) {
  const auto check = [&option](std::string& value) -> std::string {
    config::Options ignored;
    if (option.parse(value, ignored)) return {};
    return "'" + value + "' is not understood: use " + option.accepted;
  };
  return {check, ""};
}

void add_setting(CLI::App& run, Setting& setting) {
  const config::Option& option = *setting.option;
  const bool repeatable = option.variable == kRepeatable;
  const std::string description = std::string(option.meaning) + ": " + option.accepted +
                                  "; default " + option.default_value +
                                  (repeatable ? "; may be repeated" : "");
  run.add_option(option_name(option.variable), setting.values, description)
      ->check(validator(option))
      ->type_name("VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(repeatable ? CLI::MultiOptionPolicy::TakeAll
                                       : CLI::MultiOptionPolicy::Throw);
}

void define_run(CLI::App& run, RunArguments& arguments) {
  run.prefix_command();
  run.add_option("--library", arguments.library,
                 "the libhipgraft.so to preload; default: the one installed with this program")
      ->type_name("PATH");
  for (const config::Option& option : config::table()) arguments.settings.push_back({&option, {}});
  for (Setting& setting : arguments.settings) add_setting(run, setting);
}

int usage_error(std::string_view message) {
  std::cerr << "hipgraft: " << message << "\nTry 'hipgraft --help' or 'hipgraft run --help'.\n";
  return kUsageError;
}

// The file that --library names; empty after a message if there is none.
std::filesystem::path named_library(const std::string& name) {
  std::error_code error;
  const std::filesystem::path library = std::filesystem::canonical(name, error);
  if (!error && std::filesystem::is_regular_file(library, error)) return library;
  usage_error("--library: no file '" + name + "'");
  return {};
}

struct DoctorArguments {
  std::string library;
  std::string opt;
  double limit = 0;
};

void define_doctor(CLI::App& doctor, DoctorArguments& arguments) {
  doctor.prefix_command();
  doctor.add_option("--library", arguments.library, "the libhipgraft.so to examine")
      ->type_name("PATH");
  doctor
      .add_option("--time-limit", arguments.limit,
                  "how long each trial may take, in seconds; default 10")
      ->check(CLI::PositiveNumber)
      ->check(CLI::Range(0.0, 3600.0))
      ->type_name("SECONDS");
  doctor.add_option("--opt", arguments.opt, "where rocm* lie instead of /opt")->group("");
}

int run_doctor(const DoctorArguments& arguments, std::vector<std::string> command) {
  if (!command.empty() && command.front().starts_with('-')) {
    return usage_error("doctor has no option '" + command.front() + "'");
  }
  DoctorRequest request;
  request.command = std::move(command);
  if (arguments.library.empty()) {
    request.library = find_library().value_or("");
  } else {
    request.library = named_library(arguments.library);
    if (request.library.empty()) return kUsageError;
  }
  if (!arguments.opt.empty()) request.surroundings.opt = arguments.opt;
  if (arguments.limit > 0) {
    request.surroundings.limit = std::chrono::milliseconds(std::lround(arguments.limit * 1000));
  }
  return doctor(request);
}

int run_program(const RunArguments& arguments, std::vector<std::string> command) {
  if (command.empty()) return usage_error("run needs a program: hipgraft run [options] -- program");
  if (command.front().starts_with('-')) {
    return usage_error("run has no option '" + command.front() + "'");
  }

  Launch request;
  request.command = std::move(command);
  if (arguments.library.empty()) {
    const auto library = find_library();
    if (!library) {
      return usage_error(
          "libhipgraft.so is not where it is built or installed: name it with "
          "--library PATH");
    }
    request.library = *library;
  } else {
    request.library = named_library(arguments.library);
    if (request.library.empty()) return kUsageError;
  }
  for (const Setting& setting : arguments.settings) {
    if (setting.values.empty()) continue;
    request.variables.emplace_back(setting.option->variable, joined(setting.values));
  }
  return launch(request);
}

// Splits off what follows the first "--", which belongs to the program to run and not to us.
struct SplitArguments {
  std::vector<std::string> own;
  std::vector<std::string> rest;  // from "--" on
};

SplitArguments split(int argc, char** argv) {
  const std::vector<std::string> all(argv + 1, argv + argc);
  const auto end = std::find(all.begin(), all.end(), kEndOfOptions);
  return {{all.begin(), end}, {end, all.end()}};
}

// `leading` is what the parser left over: the program, if it was given without "--".
std::vector<std::string> command_of(std::vector<std::string> leading,
                                    const std::vector<std::string>& rest) {
  if (!leading.empty()) {
    leading.insert(leading.end(), rest.begin(), rest.end());
    return leading;
  }
  if (rest.empty()) return {};
  return {rest.begin() + 1, rest.end()};
}

int run_command_line(int argc, char** argv) {
  if (const auto status = run_doctor_child({argv + 1, argv + argc})) return *status;
  CLI::App app("hipgraft makes HIP graph capture work, and replay fast, in unmodified programs.",
               "hipgraft");
  app.set_version_flag("--version", "hipgraft " HIPGRAFT_VERSION);
  app.require_subcommand(0, 1);
  RunArguments arguments;
  CLI::App* run = app.add_subcommand(
      "run",
      "run a program with libhipgraft.so preloaded: hipgraft run [options] -- program [arguments]");
  define_run(*run, arguments);
  DoctorArguments doctor_arguments;
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "tell whether hipgraft will work, for a program or in general, and if not why: hipgraft "
      "doctor "
      "[options] [-- program [arguments]]; exit status 0: will work, 1: will not");
  define_doctor(*doctor, doctor_arguments);
  CLI::App* options = app.add_subcommand("options", "print all options as a Markdown table");

  SplitArguments split_arguments = split(argc, argv);
  std::reverse(split_arguments.own.begin(), split_arguments.own.end());  // as CLI11 wants them
  try {
    app.parse(split_arguments.own);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return usage_error(error.what());
  }
  if (run->parsed()) {
    return run_program(arguments, command_of(run->remaining(), split_arguments.rest));
  }
  if (doctor->parsed()) {
    return run_doctor(doctor_arguments, command_of(doctor->remaining(), split_arguments.rest));
  }
  if (options->parsed()) {
    std::cout << markdown_table();
    return 0;
  }
  std::cerr << app.help();
  return kUsageError;
}

}  // namespace

}  // namespace hipgraft::cli

int main(int argc, char** argv) {
  try {
    return hipgraft::cli::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hipgraft: %s\n", error.what());
    return EXIT_FAILURE;
  }
}

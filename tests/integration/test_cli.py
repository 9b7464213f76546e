"""The program `hipgraft`.

usage: test_cli.py PROGRAM LIBRARY VERSION
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, LIBRARY, VERSION = sys.argv[1:4]
PROGRAM = os.path.realpath(PROGRAM)
LIBRARY = os.path.realpath(LIBRARY)

# Prints the environment that a program run by hipgraft gets.
SHOW_ENVIRONMENT = ["env", "-0"]


def hipgraft(*arguments, program=PROGRAM, env=None, cwd=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HIPGRAFT", "LD_PRELOAD"))}
    return subprocess.run([program, *arguments], env={**clean, **(env or {})}, cwd=cwd,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)


def run(*arguments, **keywords):
    """`hipgraft run` with this build's library, wherever it lies."""
    return hipgraft("run", "--library", LIBRARY, *arguments, **keywords)


def environment(result):
    return dict(entry.split("=", 1) for entry in result.stdout.split("\0") if "=" in entry)


class CommandLineTest(unittest.TestCase):
    def assert_usage_error(self, result, *parts):
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        for part in parts:
            self.assertIn(part, result.stderr)

    # --- The program itself ---

    def test_version(self):
        result = hipgraft("--version")
        self.assertEqual((result.returncode, result.stdout), (0, f"hipgraft {VERSION}\n"))

    def test_without_arguments_it_explains_itself(self):
        self.assert_usage_error(hipgraft(), "run", "doctor", "options", "--version")

    def test_help(self):
        for arguments in (["--help"], ["doctor", "--help"], ["run", "--help"]):
            result = hipgraft(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("--arena-limit", result.stdout)

    def test_unknown_command(self):
        self.assert_usage_error(hipgraft("fly"), "fly")

    def test_option_table(self):
        result = hipgraft("options")
        self.assertEqual(result.returncode, 0)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[1], r"^\|(---\|)+$")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
        self.assertIn("`HIPGRAFT_ARENA_LIMIT`", [row[0] for row in rows])
        for row in rows:
            self.assertEqual(len(row), len(lines[0].strip("|").split("|")))
            # What the table calls an option is one.
            self.assertIn(f"{row[1].strip('`')} ", hipgraft("run", "--help").stdout)

    # --- run: options ---

    def test_options_set_their_variables(self):
        result = run("--hipgraft", "off", "--arena", "noreuse", "--arena-limit", "64M",
                     "--arena-chunk=4K", "--report-detail", "on", "--log", "error", "--",
                     *SHOW_ENVIRONMENT)
        self.assertEqual(result.returncode, 0, result)
        ours = {k: v for k, v in environment(result).items() if k.startswith("HIPGRAFT")}
        self.assertEqual(ours, {
            "HIPGRAFT": "off", "HIPGRAFT_ARENA": "noreuse", "HIPGRAFT_ARENA_LIMIT": "64M",
            "HIPGRAFT_ARENA_CHUNK": "4K", "HIPGRAFT_REPORT_DETAIL": "on", "HIPGRAFT_LOG": "error"})

    def test_report_may_be_repeated(self):
        result = run("--report", "-", "--report", "run.json", "--report", "a.txt,b.txt", "--",
                     *SHOW_ENVIRONMENT)
        self.assertEqual(environment(result)["HIPGRAFT_REPORT"], "-,run.json,a.txt,b.txt")

    def test_an_option_beats_the_environment_and_the_rest_of_it_stays(self):
        result = run("--arena", "off", "--", *SHOW_ENVIRONMENT,
                     env={"HIPGRAFT_ARENA": "on", "HIPGRAFT_JOIN": "off"})
        self.assertEqual(environment(result)["HIPGRAFT_ARENA"], "off")
        self.assertEqual(environment(result)["HIPGRAFT_JOIN"], "off")

    def test_bad_values_are_refused_with_what_is_accepted(self):
        self.assert_usage_error(run("--arena", "maybe", "--", "true"),
                                "--arena", "'maybe'", "on, off, noreuse or poison")
        self.assert_usage_error(run("--report", "-", "--report", "a.pdf", "--", "true"),
                                "--report", "'a.pdf'", "*.json")
        self.assert_usage_error(run("--arena-chunk", "1K", "--", "true"), "--arena-chunk", "4K")
        self.assert_usage_error(run("--runtime", "/nowhere", "--", "true"), "--runtime", "/nowhere")
        self.assert_usage_error(run("--arena", "on", "--arena", "off", "--", "true"), "--arena")

    def test_an_unknown_option_is_not_taken_for_the_program(self):
        for arguments in (["--arean", "off", "--", "true"], ["--arean", "off", "true"]):
            self.assert_usage_error(run(*arguments), "--arean")

    # --- run: the program ---

    def test_a_program_is_needed(self):
        self.assert_usage_error(run(), "program")
        self.assert_usage_error(run("--"), "program")

    def test_arguments_reach_the_program_untouched(self):
        script = ["sh", "-c", 'printf "<%s>" "$@"', "sh"]
        arguments = ["--arena", "off", "--", "", "a b", "-h", "--version"]
        wanted = "".join(f"<{argument}>" for argument in arguments)
        self.assertEqual(run("--", *script, *arguments).stdout, wanted)
        self.assertEqual(run(*script, *arguments).stdout, wanted)

    def test_the_exit_status_is_the_program_s(self):
        self.assertEqual(run("--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run("--", "sh", "-c", "kill -TERM $$").returncode, -15)

    def test_a_program_that_cannot_be_started(self):
        result = run("--", "/nowhere/simulator")
        self.assertEqual(result.returncode, 127)
        self.assertRegex(result.stderr, r"^hipgraft: .*/nowhere/simulator.*No such file")
        with tempfile.NamedTemporaryFile() as file:
            os.chmod(file.name, 0o600)
            result = run("--", file.name)
        self.assertEqual(result.returncode, 126)
        self.assertIn(file.name, result.stderr)

    # --- run: the library ---

    def preload_of(self, before):
        return environment(run("--", *SHOW_ENVIRONMENT, env={"LD_PRELOAD": before}))["LD_PRELOAD"]

    def test_the_library_goes_first_and_others_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "libother.so")
            shutil.copy(LIBRARY, other)
            self.assertEqual(self.preload_of(""), LIBRARY)
            self.assertEqual(self.preload_of(other), f"{LIBRARY}:{other}")
            self.assertEqual(self.preload_of(f"{LIBRARY} {other}"), f"{LIBRARY}:{other}")

    def test_the_library_is_never_there_twice(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "libhipgraft.so")
            shutil.copy(LIBRARY, copy)
            self.assertEqual(self.preload_of(f"{copy}:{LIBRARY}:{LIBRARY}"), LIBRARY)

    def test_runs_within_runs(self):
        result = run("--", PROGRAM, "run", "--library", LIBRARY, "--", *SHOW_ENVIRONMENT)
        self.assertEqual(environment(result)["LD_PRELOAD"], LIBRARY)

    def test_the_library_is_mapped(self):
        result = run("--", "cat", "/proc/self/maps")
        self.assertIn(LIBRARY, result.stdout)

    def test_the_build_folder_is_found(self):
        result = hipgraft("run", "--", *SHOW_ENVIRONMENT)
        self.assertEqual(environment(result)["LD_PRELOAD"], LIBRARY)

    def test_an_installation_is_found_wherever_it_lies(self):
        for library_folder in ("bin", "lib", "lib64"):
            with self.subTest(library_folder), tempfile.TemporaryDirectory() as prefix:
                prefix = os.path.realpath(prefix)
                library = os.path.join(prefix, library_folder, "libhipgraft.so")
                os.makedirs(os.path.join(prefix, "bin"))
                os.makedirs(os.path.dirname(library), exist_ok=True)
                program = shutil.copy(PROGRAM, os.path.join(prefix, "bin"))
                shutil.copy(LIBRARY, library)
                result = hipgraft("run", "--", *SHOW_ENVIRONMENT, program=program)
                self.assertEqual(environment(result)["LD_PRELOAD"], library)

    def test_a_missing_library_is_an_error_and_the_program_does_not_run(self):
        with tempfile.TemporaryDirectory() as folder:
            program = shutil.copy(PROGRAM, folder)
            self.assert_usage_error(hipgraft("run", "--", "echo", "ran", program=program),
                                    "libhipgraft.so", "--library")
        self.assert_usage_error(hipgraft("run", "--library", "/nowhere.so", "--", "echo", "ran"),
                                "--library", "/nowhere.so")

    def test_a_path_that_ld_preload_cannot_carry(self):
        with tempfile.TemporaryDirectory(prefix="a b:c") as folder:
            copy = shutil.copy(LIBRARY, folder)
            result = hipgraft("run", "--library", copy, "--", "echo", "ran")
            self.assert_usage_error(result, copy, "LD_PRELOAD")

    def test_a_relative_library_is_made_absolute(self):
        result = hipgraft("run", "--library", os.path.basename(LIBRARY), "--", *SHOW_ENVIRONMENT,
                          cwd=os.path.dirname(LIBRARY))
        self.assertEqual(environment(result)["LD_PRELOAD"], LIBRARY)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""The library as a guest in programs: what it exports and needs, and that it does nothing where HIP
is not used.

Environment: HIPGRAFT_LIBRARY, and FUNCTIONS_DEF and PUBLIC_HEADER, the sources of its exports.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

LIBRARY = os.environ["HIPGRAFT_LIBRARY"]
NEWEST_GLIBC = (2, 34)
ALLOWED_LIBRARIES = {"libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libm.so.6"}


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=30).stdout


def intercepted():
    table = pathlib.Path(os.environ["FUNCTIONS_DEF"]).read_text(encoding="utf-8")
    return set(re.findall(r"^HIPGRAFT_INTERCEPT\((\w+)", table, re.M))


def public():
    header = pathlib.Path(os.environ["PUBLIC_HEADER"]).read_text(encoding="utf-8")
    return set(re.findall(r"\b(hipgraft_\w+)\(", header))


class Library(unittest.TestCase):
    def test_exports_exactly_the_function_table_and_the_public_header(self):
        lines = output("nm", "-D", "--defined-only", LIBRARY).splitlines()
        exported = {line.split()[-1] for line in lines}
        self.assertEqual(exported, intercepted() | public() | {"dlopen", "dlsym", "dlvsym"})

    def test_needs_only_the_c_library(self):
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", LIBRARY)))
        self.assertLessEqual(needed, ALLOWED_LIBRARIES)

    def test_runs_on_glibc_2_34(self):
        versions = re.findall(r"@GLIBC_(\d+)\.(\d+)", output("nm", "-D", LIBRARY))
        newest = max((int(major), int(minor)) for major, minor in versions)
        self.assertLessEqual(newest, NEWEST_GLIBC)


class NoHip(unittest.TestCase):
    def run_in_empty_folder(self, *command, **variables):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "LD_PRELOAD": LIBRARY, **variables}
            result = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, check=False, text=True, timeout=30)
            return result, os.listdir(folder)

    def test_nothing_happens(self):
        result, files = self.run_in_empty_folder("/bin/true")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(files, [])

    def test_nothing_happens_whatever_is_asked_for(self):
        result, files = self.run_in_empty_folder(
            "/bin/true", HIPGRAFT_REPORT="-,run.json", HIPGRAFT_LOG="trace", HIPGRAFT_ARENA="nonsense")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(files, [])

    def test_no_thread_is_started(self):
        result, _ = self.run_in_empty_folder("/bin/cat", "/proc/self/status")
        self.assertIn("Threads:\t1\n", result.stdout)


if __name__ == "__main__":
    unittest.main()

"""The simulator step under hipgraft with HIP bound in every way that programs use: the report counts
what it counts for the linked program. And libraries whose frees hipgraft cannot see.

Environment: HIPGRAFT_LIBRARY, CALLLOG_LIBRARY, RUNTIME_... (VERSION, LIBRARY, LOADER, PATH),
..._PROGRAM, ..._PLUGIN, ..._FREES, CTYPES_SCRIPT and SOFTAGENT_TWINS, the files of these names in
meson.build; OTHER_RUNTIME_PLUGIN if there is a second runtime.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

E = os.environ
VERSION = E["RUNTIME_VERSION"]
STEPS = ["--steps", "6", "--elements", "256"]


class Run:
    """One run of a command under preloaded libraries: its output, report and call log."""

    def __init__(self, command, preload=("HIPGRAFT_LIBRARY",), **variables):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.json")
            calls = pathlib.Path(folder, "calls")
            environment = {k: v for k, v in E.items() if not k.startswith("HIPGRAFT_")}
            environment |= {"HIPGRAFT_REPORT": str(report), "CALLLOG_FILE": str(calls), **variables}
            environment["LD_PRELOAD"] = " ".join(E[name] for name in preload)
            result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False,
                                    stderr=subprocess.PIPE, text=True, timeout=60)
            self.returncode = result.returncode
            self.output = result.stdout + result.stderr
            self.values = dict(line.split(" ", 1) for line in result.stdout.splitlines()
                               if " " in line)
            self.report = json.loads(report.read_text("utf-8")) if report.exists() else None
            self.calls = calls.read_text("utf-8") if calls.exists() else ""

    def counts(self):
        """What must not depend on how the program binds HIP."""
        captures = self.report["captures"]
        return {"captures": [{"nodes": capture["nodes"], "requests": capture["arena"]["requests"],
                              "fallbacks": capture["arena"]["native_fallbacks"],
                              "replays": capture["replays"]["count"], "execs": capture["execs"],
                              "status": capture["status"]} for capture in captures],
                "checksum": self.values.get("checksum")}


@functools.cache
def linked():
    return Run([E["STEP_PROGRAM"], *STEPS])


def by_name(route):
    return Run([E["BY_NAME_PROGRAM"], *STEPS], HIP_LIBRARY=E["RUNTIME_LIBRARY"], ROUTE=route)


def hosted(*plugins, **variables):
    return Run([E["HOST_PROGRAM"], *plugins, "--", *STEPS], **variables)


def renamed_copy(path, folder, old, new):
    """A copy of a library in which the name of a library, its own or a needed one, is another."""
    copy = pathlib.Path(folder, os.path.basename(path).replace(old, new))
    contents = pathlib.Path(path).read_bytes()
    copy.write_bytes(contents.replace(f"{old}\0".encode(), f"{new}\0".encode()))
    return str(copy)


ROUTES = {
    "dlsym": lambda: by_name("dlsym"),
    "dlvsym": lambda: by_name("dlvsym"),
    "plugin": lambda: hosted(E["STEP_PLUGIN"]),
    "static constructor": lambda: Run([E["STATIC_PROGRAM"], *STEPS]),
    "another preload before": lambda: Run([E["STEP_PROGRAM"], *STEPS],
                                          preload=("CALLLOG_LIBRARY", "HIPGRAFT_LIBRARY")),
    "another preload behind": lambda: Run([E["STEP_PROGRAM"], *STEPS],
                                          preload=("HIPGRAFT_LIBRARY", "CALLLOG_LIBRARY")),
}
if VERSION != "5.7":
    ROUTES["hipGetProcAddress"] = lambda: by_name("getprocaddress")
if VERSION == "7.2":
    ROUTES["hipGetDriverEntryPoint"] = lambda: by_name("driverentrypoint")


class Routes(unittest.TestCase):
    maxDiff = None

    def assert_like_linked(self, result):
        self.assertEqual(result.returncode, 0, result.output)
        self.assertIsNotNone(result.report, result.output)
        self.assertEqual(result.counts(), linked().counts())

    def test_linked(self):
        result = linked()
        self.assertEqual(result.returncode, 0, result.output)
        (capture,) = result.counts()["captures"]
        self.assertEqual(capture["nodes"]["native"]["total"], 282)
        self.assertEqual(capture["nodes"]["captured"]["total"], 234)
        self.assertEqual((capture["requests"], capture["fallbacks"]), (24, []))
        self.assertEqual((capture["replays"], capture["execs"]), (6, 1))

    def test_every_route_is_like_linked(self):
        for name, route in ROUTES.items():
            with self.subTest(route=name):
                self.assert_like_linked(route())

    def test_preloads_see_the_calls_of_their_side(self):
        before = Run([E["STEP_PROGRAM"], *STEPS], preload=("CALLLOG_LIBRARY", "HIPGRAFT_LIBRARY"))
        behind = Run([E["STEP_PROGRAM"], *STEPS], preload=("HIPGRAFT_LIBRARY", "CALLLOG_LIBRARY"))
        self.assertEqual(before.calls.count("hipMallocAsync("), 24)
        self.assertEqual(behind.calls.count("hipMallocAsync("), 0)
        self.assertEqual(behind.calls.count("hipMemsetAsync("), 24)

    def test_ctypes(self):
        command = [os.path.realpath(sys.executable), E["CTYPES_SCRIPT"], E["RUNTIME_LIBRARY"]]
        if E["RUNTIME_LOADER"]:
            command = [E["RUNTIME_LOADER"], "--library-path", E["RUNTIME_PATH"], *command]
        result = Run(command, LD_LIBRARY_PATH="" if E["RUNTIME_LOADER"] else E["RUNTIME_PATH"])
        self.assertEqual((result.returncode, result.values.get("result")), (0, "ok"), result.output)
        (capture,) = result.counts()["captures"]
        self.assertEqual(capture["nodes"]["native"]["total"], 12)
        self.assertEqual(capture["nodes"]["captured"]["total"], 6)
        self.assertEqual((capture["requests"], capture["fallbacks"]), (3, []))
        self.assertEqual((capture["replays"], capture["execs"]), (3, 1))


class TwoRuntimes(unittest.TestCase):
    maxDiff = None

    def assert_only_the_step_counts(self, result):
        self.assertEqual(result.returncode, 0, result.output)
        self.assertEqual(result.values.get("other"), "ok", result.output)
        self.assertEqual(result.counts(), linked().counts())

    def test_a_copy(self):
        name = os.path.basename(E["RUNTIME_LIBRARY"])
        other_name = name[:-1] + "X"
        with tempfile.TemporaryDirectory() as folder:
            renamed_copy(E["RUNTIME_LIBRARY"], folder, name, other_name)
            plugin = renamed_copy(E["OTHER_PLUGIN"], folder, name, other_name)
            self.assert_only_the_step_counts(
                hosted(E["STEP_PLUGIN"], plugin, LD_LIBRARY_PATH=folder))

    def test_another_version(self):
        if "OTHER_RUNTIME_PLUGIN" not in E:
            self.skipTest("only one of the two runtimes is under test")
        self.assert_only_the_step_counts(hosted(E["STEP_PLUGIN"], E["OTHER_RUNTIME_PLUGIN"]))


class FreesPastHipgraft(unittest.TestCase):
    def run_escape(self, how, library, preload=("HIPGRAFT_LIBRARY",)):
        result = Run([E["ESCAPE_PROGRAM"], how, E[library]], preload=preload)
        self.assertEqual((result.returncode, result.values.get("result")), (0, "ok"), result.output)
        (capture,) = result.report["captures"]
        return capture

    def assert_native(self, capture, library):
        reasons = [fallback["reason"] for fallback in capture["arena"]["native_fallbacks"]]
        self.assertEqual(reasons, [f"{os.path.basename(E[library])} frees past hipgraft"])
        self.assertEqual(capture["nodes"]["captured"], capture["nodes"]["native"])
        nodes = capture["nodes"]["captured"]
        self.assertEqual((nodes["mem_alloc"], nodes["mem_free"]), (2, 1))

    def assert_served(self, capture):
        self.assertEqual(capture["arena"]["native_fallbacks"], [])
        self.assertEqual((capture["arena"]["requests"], capture["arena"]["escapes"]), (2, 1))

    def test_frees_that_reach_hipgraft(self):
        self.assert_served(self.run_escape("local", "DIRECT_FREES"))
        self.assert_served(self.run_escape("local", "NEXT_FREES",
                                           preload=("NEXT_FREES", "HIPGRAFT_LIBRARY")))

    def test_bound_by_deepbind(self):
        self.assert_native(self.run_escape("deepbind", "DIRECT_FREES"), "DIRECT_FREES")

    def test_found_by_rtld_next(self):
        for name, preload in {"loaded later": ("HIPGRAFT_LIBRARY",),
                              "preloaded": ("HIPGRAFT_LIBRARY", "NEXT_FREES")}.items():
            with self.subTest(library=name):
                self.assert_native(self.run_escape("local", "NEXT_FREES", preload=preload),
                                   "NEXT_FREES")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""With HIPGRAFT=off the runtime sees the calls of a program as if hipgraft were not there.

Environment: STEP_PROGRAM, HIPGRAFT_LIBRARY, CALLLOG_LIBRARY, FORKED_GRAPH_IS_WRONG (yes if this
runtime computes wrong values from the forked step), and SOFTAGENT_TWINS for the program.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

TIME_LIMIT_S = 60
VARIANTS = (
    [],
    ["--eager"],
    ["--fork"],
    ["--fork", "--eager"],
    ["--prealloc"],
    ["--mode", "relaxed", "--launch", "module"],
)
if os.environ.get("FORKED_GRAPH_IS_WRONG") == "yes":  # natively, on 5.7
    VARIANTS = tuple(variant for variant in VARIANTS if variant != ["--fork"])
# Measured, or (what an eager pool maps) dependent on what has finished when it is asked.
TIMED_KEYS = ("host_us_median", "maps_per_replay", "unmaps_per_replay")


def required(variable):
    value = os.environ.get(variable)
    if not value:
        raise RuntimeError(f"{variable} must name a file")
    return value


def clean_environment():
    return {name: value for name, value in os.environ.items()
            if not name.startswith("HIPGRAFT") and name != "LD_PRELOAD"}


class Run:
    """One run of the step program with the log of what reached the runtime."""

    def __init__(self, arguments, hipgraft):
        preload = [required("CALLLOG_LIBRARY")]
        environment = clean_environment()
        if hipgraft is not None:
            preload.insert(0, required("HIPGRAFT_LIBRARY"))
            environment["HIPGRAFT"] = hipgraft
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "calls"
            environment["CALLLOG_FILE"] = str(log)
            environment["LD_PRELOAD"] = ":".join(preload)
            self.process = subprocess.run(
                [required("STEP_PROGRAM"), "--steps", "3", "--elements", "256", *arguments],
                env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
            self.calls = log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def output(self):
        return [line for line in self.process.stdout.splitlines()
                if line.split()[0] not in TIMED_KEYS]


class Off(unittest.TestCase):
    maxDiff = 2000

    def run_step(self, arguments, hipgraft):
        run = Run(arguments, hipgraft)
        self.assertEqual(run.process.returncode, 0, run.process.stdout + run.process.stderr)
        return run

    def test_calls_and_results_are_the_same(self):
        for arguments in VARIANTS:
            with self.subTest(arguments=arguments):
                plain = self.run_step(arguments, None)
                off = self.run_step(arguments, "off")
                self.assertEqual(off.output(), plain.output())
                self.assertEqual(off.process.stderr, plain.process.stderr)
                self.assertEqual(off.calls, plain.calls)

    def test_the_log_holds_the_calls(self):
        calls = self.run_step([], None).calls
        for function, count in (("hipMallocAsync", 24), ("hipFreeAsync", 24),
                                ("hipMemsetAsync", 24), ("hipLaunchKernel", 105),
                                ("hipModuleLaunchKernel", 105), ("hipGraphLaunch", 3)):
            with self.subTest(function=function):
                self.assertEqual(sum(call.startswith(function + "(") for call in calls), count)

    def test_the_log_shows_a_difference_when_on(self):
        on = self.run_step([], "on")
        self.assertFalse([call for call in on.calls if call.startswith("hipMallocAsync(")])
        self.assertEqual(sum(call.startswith("hipGraphLaunch(") for call in on.calls), 3)


if __name__ == "__main__":
    unittest.main()

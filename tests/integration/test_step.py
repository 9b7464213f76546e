"""The simulator step under hipgraft on the genuine runtime: the graph, the report, the results.

Environment: STEP_PROGRAM, HIPGRAFT_LIBRARY, CALLLOG_LIBRARY, REPORT_SCHEMA, MEMORY_NODES_MAP (whether
this runtime maps memory at each replay natively: yes or no), and SOFTAGENT_TWINS for the program;
SCENARIOS_PROGRAM and SCENARIO_TWINS.
"""

import functools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import jsonschema

PROGRAM = os.environ["STEP_PROGRAM"]
LIBRARY = os.environ["HIPGRAFT_LIBRARY"]
CALLLOG = os.environ["CALLLOG_LIBRARY"]
MAPS_NATIVELY = "24.00" if os.environ["MEMORY_NODES_MAP"] == "yes" else "0.00"
STEPS = ["--steps", "6", "--elements", "256"]


class Run:
    """One run of the program: its output, report, graph and call log."""

    def __init__(self, *arguments, preload=(), **variables):
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            environment = {k: v for k, v in os.environ.items() if not k.startswith("HIPGRAFT_")}
            environment |= {"HIPGRAFT_REPORT": f"{at}/report.json,{at}/report.txt",
                            "CALLLOG_FILE": f"{at}/calls", **variables}
            if preload:
                environment["LD_PRELOAD"] = " ".join(preload)
            dump = [] if "--eager" in arguments else ["--dump-graph", f"{at}/graph"]
            result = subprocess.run(
                [PROGRAM, *STEPS, *dump, *arguments], env=environment, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, check=False, text=True, timeout=60)
            self.returncode = result.returncode
            self.stderr = result.stderr
            self.values = dict(line.split(" ", 1) for line in result.stdout.splitlines())
            self.graph = self._read(at / "graph")
            self.calls = self._read(at / "calls").splitlines()
            self.text = self._read(at / "report.txt")
            document = self._read(at / "report.json")
            self.report = json.loads(document) if document else None

    @staticmethod
    def _read(path):
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def capture(self):
        return self.report["captures"][0]


@functools.cache
def run(*arguments, hipgraft=False, log=False, **variables):
    preload = ([LIBRARY] if hipgraft else []) + ([CALLLOG] if log else [])
    return Run(*arguments, preload=preload, **variables)


class Step(unittest.TestCase):
    def assert_counts(self, counts, **expected):
        self.assertEqual({key: counts[key] for key in expected}, expected)

    def test_results_are_those_of_the_eager_run(self):
        eager = run("--eager")
        self.assertEqual(eager.returncode, 0, eager.stderr)
        expected = eager.values["checksum"]
        for other in (run(), run("--prealloc"), run(hipgraft=True), run("--eager", hipgraft=True),
                      run("--fork", hipgraft=True), run(hipgraft=True, HIPGRAFT_ARENA="off"),
                      run("--fork", hipgraft=True, HIPGRAFT_ARENA="noreuse"),
                      run(hipgraft=True, HIPGRAFT="off")):
            self.assertEqual(other.returncode, 0, other.stderr)
            self.assertEqual(other.values["result"], "ok")
            self.assertEqual(other.values["checksum"], expected)

    def test_memory_nodes_are_avoided(self):
        capture = run(hipgraft=True).capture
        self.assert_counts(capture["nodes"]["native"], total=282, mem_alloc=24, mem_free=24,
                           kernel=210, memset=24)
        self.assert_counts(capture["nodes"]["captured"], total=234, mem_alloc=0, mem_free=0,
                           kernel=210, memset=24)
        self.assertEqual(capture["status"], "ok")

    def test_the_native_count_is_the_native_graph(self):
        native = run().values
        counted = run(hipgraft=True).capture["nodes"]["native"]
        self.assertEqual(native["nodes_total"], str(counted["total"]))
        self.assertEqual(native["mem_alloc"], str(counted["mem_alloc"]))
        self.assertEqual(native["mem_free"], str(counted["mem_free"]))

    def test_without_the_arena_the_graph_is_the_native_one(self):
        off = run(hipgraft=True, HIPGRAFT_ARENA="off")
        for column in ("native", "captured"):
            self.assert_counts(off.capture["nodes"][column], total=282, mem_alloc=24, mem_free=24)
        self.assertEqual(off.graph, run().graph)
        self.assertEqual(off.capture["arena"]["native_fallbacks"],
                         [{"reason": "HIPGRAFT_ARENA=off", "count": 24}])

    def test_the_graph_is_that_of_the_preallocated_program(self):
        for variant in ((), ("--fork",)):
            ours = run(*variant, hipgraft=True)
            by_hand = run("--prealloc", *variant)
            self.assertNotEqual(by_hand.graph, "")
            self.assertEqual(ours.graph, by_hand.graph)

    def test_replays_map_nothing(self):
        self.assertEqual(run().values["maps_per_replay"], MAPS_NATIVELY)
        self.assertEqual(run().values["unmaps_per_replay"], MAPS_NATIVELY)
        self.assertEqual(run(hipgraft=True).values["maps_per_replay"], "0.00")
        self.assertEqual(run(hipgraft=True).values["unmaps_per_replay"], "0.00")

    def test_a_launch_on_one_stream_is_one_call(self):
        def replay_calls(calls):
            names = [call.split("(")[0] for call in calls]
            first = names.index("hipGraphLaunch")
            last = len(names) - 1 - names[::-1].index("hipGraphLaunch")
            return names[first:last + 1]

        ours = replay_calls(run(hipgraft=True, log=True).calls)
        self.assertGreater(ours.count("hipGraphLaunch"), 3)
        self.assertEqual(ours, replay_calls(run("--prealloc", log=True).calls))

    def test_the_arena_is_small(self):
        for variant in ((), ("--fork",)):
            arena = run(*variant, hipgraft=True).capture["arena"]
            self.assertEqual(arena["requests"], 24)
            self.assertEqual(arena["escapes"], 0)
            self.assertGreater(arena["lower_bound"], 0)
            self.assertGreaterEqual(arena["high_water"], arena["lower_bound"])
            self.assertLessEqual(arena["high_water"], 1.2 * arena["lower_bound"])
            self.assertLess(arena["high_water"], arena["bytes_requested"])

    def test_a_limit_below_the_chunk_size_is_usable(self):
        result = run(hipgraft=True, HIPGRAFT_ARENA_LIMIT="1M")
        self.assertEqual(result.values["result"], "ok")
        self.assertEqual(result.capture["nodes"]["captured"]["total"], 234)
        self.assertLessEqual(result.capture["arena"]["chunk_bytes"], 1 << 20)

    def test_poison_fills_each_block_twice_and_changes_no_result(self):
        poisoned = run(hipgraft=True, HIPGRAFT_ARENA="poison")
        self.assertEqual(poisoned.values["checksum"], run("--eager").values["checksum"])
        nodes = poisoned.capture["nodes"]
        self.assert_counts(nodes["native"], total=282, mem_alloc=24, mem_free=24, memset=24)
        self.assert_counts(nodes["captured"], total=282, mem_alloc=0, mem_free=0, memset=72)

    def test_noreuse_hands_out_every_byte_once(self):
        arena = run(hipgraft=True, HIPGRAFT_ARENA="noreuse").capture["arena"]
        self.assertGreaterEqual(arena["high_water"], arena["bytes_requested"])

    def test_the_report_is_of_its_schema_and_complete(self):
        result = run(hipgraft=True, HIPGRAFT_REPORT_DETAIL="on")
        schema = json.loads(pathlib.Path(os.environ["REPORT_SCHEMA"]).read_text(encoding="utf-8"))
        jsonschema.validate(result.report, schema)
        self.assertEqual(result.report["schema"], "hipgraft.report/1")
        self.assertEqual(result.report["process"]["exe"], os.path.realpath(PROGRAM))
        self.assertIn("libamdhip64", result.report["runtime"]["path"])
        self.assertEqual(result.report["runtime"]["route"], "symbol")
        capture = result.capture
        self.assertEqual(capture["replays"]["count"], int(result.values["replays"]))
        self.assertGreater(capture["replays"]["host_us"]["p50"], 0)
        self.assertEqual(capture["execs"], 1)
        self.assertEqual(sum(kernel["count"] for kernel in capture["kernels"]), 210)
        self.assertTrue(any("sim::integrate" in kernel["name"] or "sim9integrate" in kernel["name"]
                            for kernel in capture["kernels"]), capture["kernels"])
        self.assertEqual(capture["edges"], int(result.values["edges"]))
        self.assertEqual((capture["width"], capture["critical_path"]), (1, 234))
        self.assertEqual(len(capture["graph"]["nodes"]), 234)
        self.assertEqual(len(capture["graph"]["edges"]), 233)
        self.assertTrue(capture["site"]["module"].endswith(os.path.basename(PROGRAM)))

    def test_the_text_report_tells_the_same(self):
        text = run(hipgraft=True).text
        self.assertIn("memAlloc           24          0   24 avoided", text)
        self.assertIn("total             282        234", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)

    def test_a_bad_value_is_one_line_and_the_run_goes_on(self):
        bad = {"HIPGRAFT": "maybe", "HIPGRAFT_ARENA": "maybe", "HIPGRAFT_JOIN": "maybe",
               "HIPGRAFT_REPORT": "report.pdf", "HIPGRAFT_REPORT_DETAIL": "maybe",
               "HIPGRAFT_ARENA_CHUNK": "2X", "HIPGRAFT_ARENA_LIMIT": "-1", "HIPGRAFT_LOG": "loud",
               "HIPGRAFT_RUNTIME": "/nowhere/libamdhip64.so"}
        for variable, value in bad.items():
            with self.subTest(variable=variable):
                result = run(hipgraft=True, **{variable: value})
                self.assertEqual(result.returncode, 0)
                self.assertEqual(result.values["result"], "ok")
                lines = [line for line in result.stderr.splitlines() if line.startswith("hipgraft:")]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn(variable, lines[0])
                self.assertIn(value, lines[0])

    def test_off_tracks_and_writes_nothing(self):
        result = run(hipgraft=True, HIPGRAFT="off")
        self.assertIsNone(result.report)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.graph, run().graph)


class Limit(unittest.TestCase):
    def test_the_report_names_the_first_call_that_was_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {
                "LD_PRELOAD": LIBRARY, "HIPGRAFT_ARENA_LIMIT": "4M",
                "HIPGRAFT_REPORT": f"{folder}/r.json,{folder}/r.txt",
                "SOFTAGENT_TWINS": os.environ["SCENARIO_TWINS"]}
            subprocess.run([os.environ["SCENARIOS_PROGRAM"], "--test-suite=limit"],
                           env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
            report = json.loads(pathlib.Path(folder, "r.json").read_text(encoding="utf-8"))
            text = pathlib.Path(folder, "r.txt").read_text(encoding="utf-8")
        capture = report["captures"][0]
        self.assertEqual(capture["status"], "ok")
        cause = capture["first_cause"]
        self.assertEqual((cause["call"], cause["error"]), ("hipMallocAsync", "hipErrorOutOfMemory"))
        self.assertIn("HIPGRAFT_ARENA_LIMIT=4M", cause["detail"])
        self.assertTrue(cause["site"]["module"])
        self.assertIn("refused hipMallocAsync: hipErrorOutOfMemory", text)


if __name__ == "__main__":
    unittest.main()

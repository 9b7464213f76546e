#!/usr/bin/env python3
"""Compares the runs of llama-bench that scripts/clients made: FOLDER PAIRS."""

import collections
import re
import statistics
import sys

from client_results import Comparison, Run

RETURNED = re.compile(r"(hip\w+): Returned (hip\w+)")
CALLS = ("hipStreamEndCapture", "hipGraphInstantiate", "hipGraphExecUpdate", "hipGraphLaunch",
         "hipLaunchKernel", "hipMemcpyAsync", "hipStreamSynchronize", "hipMalloc")


def returned_calls(run):
    """(call, code) -> count, from the log of the runtime."""
    return collections.Counter(RETURNED.findall(run.text("err")))


def tokens(run):
    return sum(test["n_gen"] * len(test["samples_ns"]) for test in run.document("out") or [])


def tokens_per_second(run):
    """Of the median repetition: the first ones, and those the machine disturbed, are far slower."""
    results = run.document("out")
    return statistics.median(results[0]["samples_ts"]) if results else None


def compare_calls(comparison, native, hipgraft):
    counts = [returned_calls(run) for run in (native, hipgraft)]
    for call in CALLS:
        comparison.row(call, *(sum(n for (name, _), n in count.items() if name == call)
                               for count in counts))
    errors = [{key: n for key, n in count.items() if key[1] != "hipSuccess"} for count in counts]
    comparison.row("calls that failed", *(sum(found.values()) for found in errors))
    for call, code in sorted(errors[0].keys() | errors[1].keys()):
        comparison.row(f"  {call} {code}", *(found.get((call, code), 0) for found in errors))
    return counts[1]


def check_report(comparison, hipgraft, calls):
    """What hipgraft reports must be what the runtime has seen."""
    report = hipgraft.document("report.json")
    if report is None:
        comparison.fail("hipgraft wrote no report")
        return
    print(f"\nhipgraft's report ({report['runtime']['path']} {report['runtime']['version']})")
    for capture in report["captures"]:
        nodes = capture["nodes"]["captured"]
        print(f"  {capture['count']} captures, {capture['mode']}, {capture['status']}: "
              f"{nodes['total']} nodes, {nodes['kernel']} kernels; {capture['execs']} execs, "
              f"{capture['replays']['count']} replays")
    totals = report["totals"]
    for text, reported, call in (("captures", totals["captures"], "hipStreamEndCapture"),
                                 ("replays", totals["replays"], "hipGraphLaunch")):
        seen = calls[call, "hipSuccess"]
        if reported != seen:
            comparison.fail(f"{reported} {text} reported, but {call} was called {seen} times")


def compare_speed(comparison, folder, pairs):
    speeds = []
    for pair in range(1, pairs + 1):
        runs = [Run(folder, f"pair{pair}-{variant}") for variant in ("native", "hipgraft")]
        speeds.append([tokens_per_second(run) for run in runs])
    if any(None in pair for pair in speeds):
        comparison.fail("no speeds to compare: a run did not end")
        return
    native, hipgraft = (statistics.median(column) for column in zip(*speeds))
    ratios = [with_it / alone for alone, with_it in speeds]
    print(f"\ntokens per second: native {native:.0f}, hipgraft {hipgraft:.0f}; "
          f"median ratio of {pairs} pairs {statistics.median(ratios):.3f} "
          f"({min(ratios):.3f} to {max(ratios):.3f})")


def main():
    folder, pairs = sys.argv[1], int(sys.argv[2])
    native, hipgraft = (Run(folder, f"calls-{variant}") for variant in ("native", "hipgraft"))
    comparison = Comparison()
    comparison.row("ending", native.ending, hipgraft.ending)
    comparison.row("tokens", tokens(native), tokens(hipgraft))
    calls = compare_calls(comparison, native, hipgraft)
    check_report(comparison, hipgraft, calls)
    compare_speed(comparison, folder, pairs)
    return comparison.conclude()


if __name__ == "__main__":
    sys.exit(main())

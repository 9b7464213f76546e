#!/usr/bin/env python3
"""Compares the runs of rocblas-test that scripts/clients made: FOLDER."""

import sys

from client_results import Comparison, Run


def results(run):
    """Test -> "passed" or "failed"; empty if the program did not get to its end."""
    return {
        f"{suite['name']}.{test['name']}": "failed" if "failures" in test else "passed"
        for suite in (run.document("tests.json") or {"testsuites": []})["testsuites"]
        for test in suite["testsuite"] if test["status"] == "RUN"}


def compare_tests(comparison, native, hipgraft):
    lists = [results(run) for run in (native, hipgraft)]
    for outcome in ("passed", "failed"):
        comparison.row(f"tests that {outcome}",
                       *(list(found.values()).count(outcome) for found in lists))
    for test in sorted(lists[0].keys() | lists[1].keys()):
        native_outcome, outcome = (found.get(test, "not run") for found in lists)
        if native_outcome != outcome:
            comparison.row(f"  {test}", native_outcome, outcome)
    if not lists[0]:
        comparison.fail("no test ran")


def check_report(comparison, hipgraft):
    report = hipgraft.document("report.json")
    if report is None:
        comparison.fail("hipgraft wrote no report")
        return
    print(f"\nhipgraft's report ({report['runtime']['path']} {report['runtime']['version']})")
    for capture in report["captures"]:
        native, captured = (capture["nodes"][column] for column in ("native", "captured"))
        print(f"  {capture['count']:4} captures, {capture['status']}: {native['total']} nodes, "
              f"{native['mem_alloc'] + native['mem_free']} of them memory nodes, became "
              f"{captured['total']}; {capture['replays']['count']} replays")
    totals = report["totals"]
    arenas = [capture["arena"] for capture in report["captures"]]
    print(f"  captures {totals['captures']}, memory nodes avoided {totals['mem_nodes_avoided']}, "
          f"left {totals['nodes']['captured']['mem_alloc'] + totals['nodes']['captured']['mem_free']}")
    print(f"  arena blocks left by captures {sum(arena['escapes'] for arena in arenas)}, "
          f"chunks got in captures {sum(arena['grown_in_capture'] for arena in arenas)}")
    print(f"  arena memory at the end {totals['arena_held_bytes']} bytes, "
          f"{totals['arena_idle_bytes']} of them idle")
    if totals["arena_held_bytes"] != totals["arena_idle_bytes"]:
        comparison.fail("some of the arena's memory is still in use")
    for arena in arenas:
        for fallback in arena["native_fallbacks"]:
            comparison.fail(f"  {fallback['count']} allocations were left to the runtime: "
                            f"{fallback['reason']}")


def main():
    native, hipgraft = (Run(sys.argv[1], variant) for variant in ("native", "hipgraft"))
    comparison = Comparison()
    comparison.row("ending", native.ending, hipgraft.ending)
    compare_tests(comparison, native, hipgraft)
    check_report(comparison, hipgraft)
    return comparison.conclude()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs two builds of `coreshard` in turns: is one faster in a benchmark than the other?

Each turn runs the benchmark once with each build, in an order that changes, and compares the two. Writes a
table in Markdown: for each rung, or combination of rungs, the operations a second of both, and the median and the
range of the ratios, turn by turn.

Usage: lab/compare_throughput.py ONE OTHER [TURNS [BENCHMARK [OPTION ...]]]

BENCHMARK is queue (`bench queue`, the default), rt-index (`bench rt index`) or block-null (`bench block` on the null
device); the options are those of the command.

Needs nothing but Python 3.8.
"""

import json
import statistics
import subprocess
import sys


def of_queue(results):
    cells = results["results"]
    return {" · ".join((cell["scope"], cell["wake"], cell["intake"])): cell["items_per_sec"] for cell in cells}


def of_index(results):
    return {row.get("variant") or row["rung"]: row["ops_per_sec"] for row in results["results"]}


def of_block(results):
    return {job["jobname"]: job["read"]["iops"] for job in results["jobs"]}


# The command, its default options, the name of a row, and the parser of its results.
BENCHMARKS = {
    "queue": (["queue", "--runs", "1"],
              ["--outstanding", "64", "--items", "200000", "--scopes", "cpu,system"],
              "scope · wake · intake", of_queue),
    "rt-index": (["rt", "index", "--runs", "1"], ["--rounds", "1000000"], "variant", of_index),
    "block-null": (["block", "--ioengine", "null", "--rw", "randread"],
                   ["--size", "16g", "--number_ios", "4000000", "--iodepth", "32"], "job", of_block),
}


def measure(command, benchmark, options):
    arguments, _, _, read = BENCHMARKS[benchmark]
    text = subprocess.run([command, "bench"] + arguments + options + ["--json", "-"],
                          check=True, capture_output=True, text=True).stdout
    return read(json.loads(text))


def main():
    builds, turns = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 15
    benchmark = sys.argv[4] if len(sys.argv) > 4 else "queue"
    if benchmark not in BENCHMARKS:
        sys.exit(f"unknown benchmark {benchmark}: expected one of {', '.join(BENCHMARKS)}")
    arguments, default, row, _ = BENCHMARKS[benchmark]
    options = sys.argv[5:] or default
    figures = {}
    for turn in range(turns):
        found = {}
        for build in (0, 1) if turn % 2 == 0 else (1, 0):
            found[build] = measure(builds[build], benchmark, options)
        for key in found[0]:
            figures.setdefault(key, []).append((found[0][key], found[1][key]))
    print(f"{turns} turns, bench {' '.join(arguments + options)}\n")
    print(f"| {row} | one, /s | other, /s | one ÷ other, turn by turn |")
    print("|---|--:|--:|--:|")
    every = []
    for key, pairs in figures.items():
        ratios = [one / other for one, other in pairs]
        every += ratios
        one, other = (statistics.median(side) for side in zip(*pairs))
        print(f"| {key} | {one:,.0f} | {other:,.0f} "
              f"| {statistics.median(ratios):.3f} ({min(ratios):.2f}–{max(ratios):.2f}) |")
    print(f"\nOf all {len(every)} ratios the median is {statistics.median(every):.3f}.")


if __name__ == "__main__":
    main()

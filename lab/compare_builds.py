#!/usr/bin/env python3
"""Runs two builds of the peers' program in turns: has a change made flood, fork-join, ping-pong or futures slower?

Each turn runs the workloads once with each build, in an order that changes, and compares the two. Writes a table
in Markdown: for each cell both medians, and the median and the range of the ratios, turn by turn.

Usage: lab/compare_builds.py BEFORE AFTER [TURNS [OPTION ...]]

BEFORE and AFTER are two `coreshard-peers`, each built of its own commit:
cargo build --release --manifest-path peers/Cargo.toml

Needs nothing but Python 3.8.
"""

import json
import statistics
import subprocess
import sys
import tempfile

DEFAULT = ["--workloads", "flood,ping-pong,fork-join,async"]


def measure(command, options):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([command, "--peers", "coreshard", "--runs", "1", "--json", file.name] + options,
                       check=True, capture_output=True)
        results = json.load(open(file.name))
    return results


def cells(results):
    return {(cell["workload"], " ".join(f"{key}={value}" for key, value in cell["params"].items())): cell["items_per_sec"]
            for cell in results["results"] if cell.get("items_per_sec")}


def main():
    before, after = sys.argv[1:3]
    turns = int(sys.argv[3]) if len(sys.argv) > 3 else 11
    options = sys.argv[4:] or DEFAULT
    figures = {}
    for turn in range(turns):
        found = {}
        for build in (before, after) if turn % 2 == 0 else (after, before):
            found[build] = cells(measure(build, options))
        for key in found[before]:
            figures.setdefault(key, []).append((found[before][key], found[after][key]))
    print("| workload | before, /s | after, /s | after ÷ before, turn by turn |")
    print("|---|--:|--:|--:|")
    for (workload, parameters), pairs in figures.items():
        one, other = (statistics.median(pair[at] for pair in pairs) for at in (0, 1))
        ratios = sorted(pair[1] / pair[0] for pair in pairs)
        print(f"| {workload} {parameters} | {one:.3g} | {other:.3g} "
              f"| {statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) |")


main()

#!/usr/bin/env python3
"""Two builds of `coreshard` in turns: is one's `bench queue` faster than the other's?

Each turn runs the benchmark once with each build, in an order that changes, and compares the two. Writes a
table in Markdown: for each combination of rungs the items a second of both, and the median and the range of
the ratios, turn by turn.

Usage: lab/compare_throughput.py ONE OTHER [TURNS [OPTION-OF-BENCH-QUEUE ...]]

Needs nothing but Python 3.8.
"""

import json
import statistics
import subprocess
import sys

DEFAULT = ["--outstanding", "64", "--items", "200000", "--scopes", "cpu,system"]


def measure(command, options):
    text = subprocess.run([command, "bench", "queue", "--runs", "1", "--json", "-"] + options,
                          check=True, capture_output=True, text=True).stdout
    cells = json.loads(text)["results"]
    return {(cell["scope"], cell["wake"], cell["intake"]): cell["items_per_sec"] for cell in cells}


def main():
    builds, turns = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 15
    options = sys.argv[4:] or DEFAULT
    figures = {}
    for turn in range(turns):
        found = {}
        for build in (0, 1) if turn % 2 == 0 else (1, 0):
            found[build] = measure(builds[build], options)
        for key in found[0]:
            figures.setdefault(key, []).append((found[0][key], found[1][key]))
    print(f"{turns} turns, bench queue {' '.join(options)}\n")
    print("| scope · wake · intake | one, items/s | other, items/s | one ÷ other, turn by turn |")
    print("|---|--:|--:|--:|")
    every = []
    for key, pairs in figures.items():
        ratios = [one / other for one, other in pairs]
        every += ratios
        one, other = (statistics.median(side) for side in zip(*pairs))
        print(f"| {' · '.join(key)} | {one:,.0f} | {other:,.0f} "
              f"| {statistics.median(ratios):.3f} ({min(ratios):.2f}–{max(ratios):.2f}) |")
    print(f"\nOf all {len(every)} ratios the median is {statistics.median(every):.3f}.")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs cyclictest and `coreshard bench rt cyclic` in turns, and prints a table in Markdown.

Both have one thread per CPU, pinned, of the same fixed priority and interval. Who goes first changes from turn
to turn. Usage: compare.py CORESHARD TURNS [CYCLES [INTERVAL_US [PRIORITY]]]; needs root or CAP_SYS_NICE, and
nothing but Python 3.8 and rt-tests.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

coreshard, turns = sys.argv[1], int(sys.argv[2])
cycles, interval_us, priority = (sys.argv[3:] + ["3000", "1000", "80"][len(sys.argv) - 3:])[:3]
MARKS = [("p50", 0.50), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)]


def marks(threads):
    """The marks of all threads' wake-ups together, from their histograms of microseconds."""
    together = {}
    for thread in threads:
        for late_us, count in thread["histogram"].items():
            together[int(late_us)] = together.get(int(late_us), 0) + count
    in_all, seen, found = sum(together.values()), 0, {}
    left = list(MARKS[:-1])
    for late_us in sorted(together):
        seen += together[late_us]
        while left and seen >= left[0][1] * in_all:
            found[left.pop(0)[0]] = late_us
    found["max"] = max(thread["max"] for thread in threads)
    return found


def measure(command, path):
    # Neither program overwrites the file of the previous turn.
    if os.path.exists(path):
        os.remove(path)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    with open(path) as file:
        return marks(list(json.load(file)["thread"].values()))


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "run.json")
    commands = {
        "cyclictest": ["cyclictest", "-q", "-m", "-S", "-p", priority, "-i", interval_us, "-d", "500", "-l", cycles,
                       "-h", "50000", f"--json={path}"],
        "coreshard": [coreshard, "bench", "rt", "cyclic", "--priority", priority, "--interval-us", interval_us,
                      "--distance-us", "500", "--cycles", cycles, "--json", path],
    }
    figures = {name: [] for name in commands}
    for turn in range(turns):
        order = list(commands) if turn % 2 == 0 else list(reversed(commands))
        for name in order:
            figures[name].append(measure(commands[name], path))

print(f"{turns} turns, {os.cpu_count()} threads of priority {priority}, {interval_us} us, {cycles} wake-ups each\n")
print("| us | cyclictest: median (range) | coreshard: median (range) | ratio of medians |")
print("|---|--:|--:|--:|")
for mark, _ in MARKS:
    columns, medians = [], []
    for name in commands:
        values = [turn[mark] for turn in figures[name]]
        medians.append(statistics.median(values))
        columns.append(f"{medians[-1]:,.0f} ({min(values):,}–{max(values):,})")
    print(f"| {mark} | {columns[0]} | {columns[1]} | {medians[1] / medians[0]:.2f} |")

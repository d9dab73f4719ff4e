#!/usr/bin/env python3
"""The README's table of speed, made from the last full run of the peers.

Usage: speed.py [--check]     --check: only says whether it is what it would make

The run is docs/results/peers.json. A ratio is Coreshard's throughput over the other's, run by run: the median with the smallest
and the largest. *The best other* has the smallest median of them. If the runs do not agree on which is ahead, the cell says
"tie", or, if the medians are more than 10 % apart, the row is left out: docs/results/peers.md has all rows.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- speed: made by peers/speed.py -->\n", "<!-- speed ends -->\n"
# Coreshard's bindings do not count as other executors.
OWN = {"coreshard", "coreshard-c", "coreshard-cpp", "floor"}
ROWS = [
    ("flood of empty items, 1 producer", "flood", {"item_ns": 0, "producers": 1}),
    ("the same, 4 producers", "flood", {"item_ns": 0, "producers": 4}),
    ("one item in flight", "ping-pong", {"producers": 1}),
    ("64 items of 1 µs after a silence", "burst", {"item_ns": 1000}),
    ("fork and join, `fib(30)`", "fork-join", {"fib": 30}),
    ("fork and join, a tree of 2²⁴", "fork-join", {"tree_levels": 24}),
    ("a loop over uneven elements", "parallel-for", {"skewed": 1}),
    ("futures: spawn and join", "async", {"spawn": 1}),
    ("items that say they block", "blocking", {"told": 1}),
]


def rate(items_per_sec):
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if items_per_sec >= limit:
            return f"{items_per_sec / limit:.3g}{unit}"
    return f"{items_per_sec:.3g}"


def ratio(result):
    found = result and result.get("coreshard_ratio")
    if not found:
        return "–"
    text = f"{found['median']:.2g} × ({found['min']:.2g}–{found['max']:.2g})"
    if found["min"] > 1 or found["max"] < 1:
        return text
    return f"{'tie' if abs(found['median'] - 1) < 0.1 else 'unclear'}: {text}"


def table(run):
    lines = ["| items a second | Coreshard | the best other | rayon | tokio |", "|---|--:|---|---|---|"]
    for name, workload, params in ROWS:
        cell = {r["peer"]: r for r in run["results"] if r["workload"] == workload and r["params"] == params}
        others = [r for r in cell.values() if r["peer"] not in OWN and r.get("coreshard_ratio")]
        if "coreshard" not in cell or not others:
            sys.exit(f"speed.py: docs/results/peers.json has no {workload} {params} of Coreshard and another")
        best = min(others, key=lambda r: r["coreshard_ratio"]["median"])
        figures = [rate(cell["coreshard"]["items_per_sec"]), f"{best['peer']}: {ratio(best)}"]
        figures += [ratio(cell.get(peer)) for peer in ("rayon", "tokio")]
        if any("unclear" in figure for figure in figures):
            continue
        lines.append(f"| {name} | " + " | ".join(figures) + " |")
    return "\n".join(lines) + "\n"


def main():
    run = json.loads((ROOT / "docs/results/peers.json").read_text())
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        sys.exit(f"speed.py: README.md has no place for it, from {BEGIN.strip()} to {END.strip()}")
    machine = f"{run['machine']}; medians of {run['runs']} runs in turns, and their ranges:\n\n"
    made = before + BEGIN + machine + table(run) + END + after
    if "--check" in sys.argv[1:]:
        if made != text:
            sys.exit("speed.py: README.md's table of speed is not that of docs/results/peers.json: run peers/speed.py")
    else:
        readme.write_text(made)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Does the simulator predict this machine's own benchmark?

Calibrates this machine, runs `coreshard bench queue` on it, and simulates the same benchmark on the
calibrated machine; again and again, in turns, so that whatever else the machine does meets both. Then it
holds the ratios between rungs against each other: of each rung over the oldest of its ladder, the other
ladders standing still. Writes a table in Markdown to standard output. How many ratios the machine's own odd turns predict of
its even ones is said, too: no simulator can be asked for more.

Usage: lab/predict_host.py [PATH-OF-coreshard [TURNS [ITEMS [OUTSTANDING]]]]

With OUTSTANDING it is a flood with so many items of each producer in flight. Needs nothing but Python 3.8.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

GOAL = 0.25
LADDERS = {"scope": "system", "wake": "under-lock", "intake": "locked"}


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cells(text):
    found = json.loads(text)
    return {tuple(cell[ladder] for ladder in LADDERS): cell["items_per_sec"] for cell in found["results"]}, found


def ratios(figures):
    """Returns the throughput over that of the oldest variant, by comparison, variant, and the variants of the other comparisons."""
    found = {}
    for place, ladder in enumerate(LADDERS):
        for rungs, figure in figures.items():
            oldest = rungs[:place] + (LADDERS[ladder],) + rungs[place + 1:]
            if rungs != oldest and figures.get(oldest):
                found[(ladder,) + rungs] = figure / figures[oldest]
    return found


def close(one, other):
    return abs(one / other - 1) <= GOAL


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "target/release/coreshard"
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    items = sys.argv[3] if len(sys.argv) > 3 else "3000"
    outstanding = sys.argv[4:5]
    measured, predicted, absolute = {}, {}, {}
    # Scopes with the same pods as another scope add no information: on a machine with one LLC, two are left.
    bench = ["bench", "queue", "--items", items, "--json", "-"]
    if outstanding:
        bench += ["--outstanding"] + outstanding
    with tempfile.TemporaryDirectory() as folder:
        machine = os.path.join(folder, "here.toml")
        for _ in range(turns):
            run([command, "calibrate", "-o", machine])
            host, about = cells(run([command] + bench + ["--runs", "3"]))
            same = {cell["scope"] for cell in about["results"] if cell["same_pods_as"]} - {"system"}
            keep = lambda figures: {key: value for key, value in figures.items() if key[0] not in same}
            sim, _ = cells(run([command] + bench + ["--sim", "--machine", machine, "--runs", "1"]))
            for into, figures in ((measured, keep(host)), (predicted, keep(sim))):
                for key, ratio in ratios(figures).items():
                    into.setdefault(key, []).append(ratio)
            for key in keep(host):
                absolute.setdefault(key, []).append((host[key], sim[key]))
    print(f"{about['machine']}, {about['kernel']}, {turns} turns, {items} items a producer, "
          + (f"up to {outstanding[0]} in flight\n" if outstanding else "one outstanding\n"))
    print("| ladder | rung over oldest, at | measured (range) | predicted (range) | off | within 25 % |")
    print("|---|---|---|---|---|---|")
    held = itself = 0
    for key in measured:
        ladder, rungs = key[0], key[1:]
        place = list(LADDERS).index(ladder)
        others = " · ".join(rung for at, rung in enumerate(rungs) if at != place)
        real, made = statistics.median(measured[key]), statistics.median(predicted[key])
        off = made / real - 1
        held += close(made, real)
        itself += turns > 1 and close(*(statistics.median(measured[key][half::2]) for half in (0, 1)))
        print(
            f"| {ladder} | {rungs[place]} / {LADDERS[ladder]}, {others} "
            f"| {real:.2f} ({min(measured[key]):.2f}–{max(measured[key]):.2f}) "
            f"| {made:.2f} ({min(predicted[key]):.2f}–{max(predicted[key]):.2f}) "
            f"| {off:+.0%} | {'yes' if close(made, real) else '**no**'} |"
        )
    print(f"\n{held} of {len(measured)} ratios are within 25 %; between the machine's odd and even turns, {itself} are.\n")
    print("| combination | measured items/s | predicted items/s | predicted ÷ measured |")
    print("|---|---|---|---|")
    for key, pairs in absolute.items():
        real, made = (statistics.median(values) for values in zip(*pairs))
        print(f"| {' · '.join(key)} | {real:,.0f} | {made:,.0f} | {made / real:.2f} |")


if __name__ == "__main__":
    main()

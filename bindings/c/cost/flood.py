#!/usr/bin/env python3
"""Floods from one thread by Rust, C and C++, in turns: nanoseconds an item, medians with ranges, and the ratio to Rust's rate,
turn by turn.

Usage: bindings/c/cost/flood.py [TURNS [OTHER]]    15 turns by default; OTHER is another build's `flood` (target/release/examples),
which also runs with items in flight limited
"""

import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
OUT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
COUNTS = [0, 20, 40, 80]
IN_FLIGHT = [(20, 4), (20, 8), (20, 16), (20, 32), (20, 64), (20, 256), (80, 16), (80, 64)]


def build():
    subprocess.run([ROOT / "bindings/c/build.sh"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "-p", "coreshard-c", "--example", "flood"], cwd=ROOT, check=True
    )
    library = OUT / "c/release"
    for name, options in (("c", []), ("cpp", ["-DCPP"])):
        command = ["c++", "-O2", "-std=c++20", *options, "-I", ROOT / "bindings/c/include", "-I", ROOT / "bindings/cpp/include"]
        command += ["-o", library / f"flood.{name}", ROOT / "bindings/c/cost/flood.cpp"]
        subprocess.run([*command, "-L", library, "-lcoreshard", f"-Wl,-rpath,{library}", "-pthread"], check=True)
    rust = OUT / "release/examples/flood"
    return {"Rust": rust, "C": library / "flood.c", "C++": library / "flood.cpp"}


def text(figures):
    return f"{statistics.median(figures):.0f} ({min(figures):.0f} to {max(figures):.0f})"


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    programs = build()
    cells = [(name, (count,)) for count in COUNTS for name in programs]
    if len(sys.argv) > 2:
        programs["other"] = pathlib.Path(sys.argv[2]).resolve()
        cells += [("other", (count,)) for count in COUNTS]
        cells += [(name, cell) for cell in IN_FLIGHT for name in ("Rust", "other")]
    taken = {cell: [] for cell in cells}
    for _ in range(turns):
        for name, (count, *in_flight) in sorted(cells, key=lambda cell: cell[1]):
            rounds = 5 if in_flight else 15
            command = [programs[name], str(count), str(rounds), *map(str, in_flight)]
            ran = subprocess.run(command, check=True, capture_output=True, text=True)
            taken[name, (count, *in_flight)].append([float(figure) for figure in ran.stdout.split()])
    print("| count | in flight | program | all, ns | submit, ns | CPU time, ns | of Rust's rate |\n|--:|--:|---|--:|--:|--:|--:|")
    for (name, cell), runs in sorted(taken.items(), key=lambda it: it[0][1]):
        whole, submit, cpu = zip(*runs)
        ratios = [rust[0] / own[0] for rust, own in zip(taken["Rust", cell], runs)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        limit = cell[1] if len(cell) > 1 else "–"
        print(f"| {cell[0]} | {limit} | {name} | {text(whole)} | {text(submit)} | {text(cpu)} | {ratio} |")


main()

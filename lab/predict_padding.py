#!/usr/bin/env python3
"""Is the gain that a replay predicts for a layout the gain that mending the program brings on this machine?

The textbook cases of false sharing, in lab/padding/: two threads and two counters, in a struct of C's, as std::atomic, as
Rust's atomics, and in an array from the heap. Each is built as it is and mended, both are run on two CPUs of this machine in
turns, and calibrated beside them are what a line costs between these CPUs and how long one keeps it. What is there is
recorded, its layout is proposed and replayed on the machine so measured. Rounds in which a thread was interrupted do not
count, so that other work on the machine costs rounds, and not the figures. Writes a table in Markdown.

Usage: lab/predict_padding.py [PATH-OF-coreshard [TURNS]]

Needs two CPUs, gcc, g++, rustc and qemu-x86_64.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

GOAL = 0.25
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "padding")
ROUNDS, TIMES = 100, 20000
RECORDED = 100000
CASES = {"struct of C": "struct.c", "array from the heap": "array.c", "std::atomic": "atomic.cc", "Rust's atomics": "atomic.rs"}
CALIBRATIONS = {"add to one word": 0, "to and fro": 1, "add to its own": 2, "plain, to its own": 3}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def build(folder, name, source, options):
    """A program of the harness and a source of any of the three languages."""
    program, part = os.path.join(folder, name), os.path.join(folder, name + ".o")
    path = os.path.join(HERE, source)
    if source.endswith(".rs"):
        part = os.path.join(folder, "lib" + name + ".a")
        options = [option.replace("-DMENDED", "--cfg=mended") for option in options]
        run(["rustc", "--edition=2024", "-O", "-g", "--crate-type=staticlib", "-Awarnings", *options, path, "-o", part])
    else:
        run(["g++" if source.endswith(".cc") else "gcc", "-O2", "-g", *options, "-c", path, "-o", part])
    run(["gcc", "-O2", "-g", "-pthread", os.path.join(HERE, "harness.c"), part, "-ldl", "-lm", "-o", program])
    return program


def machine(command, folder, median):
    """This machine's file: what `coreshard calibrate` says, but for the lines, which are measured here between interruptions."""
    file = os.path.join(folder, "here.toml")
    run([command, "calibrate", "--rounds", "1", "-o", file])
    text = open(file).read()
    # What a replay takes for the loop around: two instructions, a quarter of a cycle each.
    loop = 2 * float(re.search(r"\[costs.cycle\]\nns = ([\d.]+)", text)[1]) / 4
    way, atomic = median["to and fro"], median["add to its own"]
    contended = median["add to one word"]
    # A turn of a CPU is the line's way and the time for which it is kept; in it are as many adds as that time has room for,
    # and the one that waited.
    room = contended / atomic - 2
    hold = max(0.0, (2 * way - contended) / room) if room > 0 else 0.0
    text = re.sub(r"(\[costs.latency_matrix\]\nns = )\[.*?\n\]", rf"\g<1>[[0.0, {way:.2f}], [{way:.2f}, 0.0]]", text, flags=re.S)
    text = re.sub(r"(\[costs.atomic\]\nns = )[\d.]+", rf"\g<1>{atomic - loop:.2f}", text)
    # A counter's load and its store.
    text = re.sub(r"(\[costs.l1_hit\]\nns = )[\d.]+", rf"\g<1>{max(median['plain, to its own'] - loop, 0.1) / 2:.3f}", text)
    text += f'\n[costs.arbitration]\nhold_ns = {hold:.2f}\nloads_take_dirty_lines = true\n'
    text += 'source = "measured: two CPUs that add to one word; assumed: who adds asks for a line to write at once"\n'
    with open(file, "w") as out:
        out.write(text)
    return file, hold


def predicted(command, folder, program, file):
    """Time as it is over time with the best proposal, of as many rounds more as were recorded at first."""
    found = []
    for times in (RECORDED, 2 * RECORDED):
        trace = os.path.join(folder, "it.trace")
        run([command, "record", "--engine", "qemu", "-o", trace, "--", program, "1", str(times)])
        types = json.loads(run([command, "layout", "--replay", trace, "--machine", file, "--format", "json"]))
        if not types:
            raise SystemExit(f"{program}: nothing was proposed")
        found.append((types[0]["name"], types[0]["before_ns"], types[0]["proposals"][0]["after_ns"]))
    (name, before, after), (_, more_before, more_after) = found
    return name, (more_before - before) / RECORDED, (more_after - after) / RECORDED


def main():
    command = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/coreshard")
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with tempfile.TemporaryDirectory() as folder:
        programs = {}
        for number, (case, source) in enumerate(CASES.items()):
            programs[case, "before"] = build(folder, f"before{number}", source, [])
            programs[case, "mended"] = build(folder, f"mended{number}", source, ["-DMENDED"])
        for name, what in CALIBRATIONS.items():
            programs[name] = build(folder, f"calibration{what}", "calibration.c", [f"-DWHAT={what}"])
        measured = {key: [] for key in programs}
        for _ in range(turns):
            for key, program in programs.items():
                measured[key] += [float(line) for line in run([program, str(ROUNDS), str(TIMES)]).split()]
        if any(not rounds for rounds in measured.values()):
            raise SystemExit("no round without an interruption; the machine is too busy, or has one CPU")
        median = {key: statistics.median(rounds) for key, rounds in measured.items()}
        file, hold = machine(command, folder, median)
        print(f"{turns} turns of {ROUNDS} rounds of {TIMES}; " + "; ".join(
            f"{name} {median[name]:.2f} ns ({len(measured[name])} rounds)" for name in CALIBRATIONS) + f"; kept for {hold:.1f} ns\n")
        print("| case | named | before, ns | mended, ns | gain measured | predicted: before | mended | gain | off by |")
        print("|---|---|---|---|---|---|---|---|---|")
        far = 0
        for case in CASES:
            before, mended = median[case, "before"], median[case, "mended"]
            name, now, then = predicted(command, folder, programs[case, "before"], file)
            gain, foretold = before / mended, now / max(then, 1e-9)
            off = foretold / gain - 1
            far += abs(off) > GOAL
            print(f"| {case} | {name} | {before:.2f} | {mended:.2f} | {gain:.2f} | {now:.2f} | {then:.2f} | {foretold:.2f} | {off:+.0%} |")
    if far:
        raise SystemExit(f"{far} of {len(CASES)} are off by more than {GOAL:.0%}")


if __name__ == "__main__":
    main()

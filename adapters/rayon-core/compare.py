#!/usr/bin/env python3
"""Runs the same programs with two schedulers, in turns: is one slower, and do both write the same bytes?

Usage: compare.py demos    --bin FOLDER [--patched SIDE] [--turns N] [--only REGEX] [--quick] [--laps N] [--out FILE]
       compare.py programs --bin FOLDER --inputs FOLDER [the same]

FOLDER/original and FOLDER/SIDE hold what was built with the one and the other (check.sh does that), FOLDER/watch
runs the programs. Each turn runs each case once with both, in an order that changes from turn to turn and from
case to case. A ratio is the patched side's figure over the original's of the same turn; the table has the median
of the turns' ratios, with the smallest and the largest. With SIDE `original` it is held against itself: what the
ratios are then is noise.

Writes a table in Markdown, to FILE, too. Exit status 1: a run failed, or bytes differ.

Needs nothing but Python 3.8.
"""

import argparse
import hashlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Seconds after which a run counts as hung.
LIMIT = 300


class Failed(Exception):
    """A failed run; the text has the reason."""


def spread(values, form="{:.3f}"):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{form.format(middle)} ({form.format(low)}–{form.format(high)})"


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def ratios(runs, key):
    """Returns the ratios of the turns with two successful runs. Times below the clock's step count as one step."""
    return [max(patched[key], 1e-6) / max(original[key], 1e-6) for original, patched in runs]


def in_turns(cases, turns, run, failures):
    """Returns each case's pairs of results, original and patched, turn by turn."""
    results = {name: [] for name in cases}
    for turn in range(turns):
        for place, name in enumerate(cases):
            if name in failures:
                continue
            sides, found = (0, 1) if (turn + place) % 2 == 0 else (1, 0), {}
            try:
                for side in sides:
                    found[side] = run(name, side)
            except Failed as failed:
                failures[name] = str(failed)
                print(f"{name}: {failed}", file=sys.stderr)
                continue
            results[name].append((found[0], found[1]))
    return results


# --- Demos ----------------------------------------------------------------------------------------------------------


def run_demo(binary, name, laps, scale):
    try:
        done = subprocess.run([binary, name, str(laps), scale], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"{binary}: not finished after {LIMIT} s")
    if done.returncode != 0:
        raise Failed(f"{binary}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    pairs = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    if len(pairs) != laps:
        raise Failed(f"{binary}: {len(pairs)} laps of {laps}")
    seconds, cpu = (statistics.median(column) for column in zip(*pairs))
    return {"seconds": seconds, "cpu": cpu}


def demos(arguments, failures):
    binaries = [str(arguments.bin / side / "rayon-demos") for side in ("original", arguments.patched)]
    listed = subprocess.run([binaries[0], "list"], check=True, capture_output=True, text=True).stdout
    groups = dict(line.split("\t")[:2] for line in listed.splitlines())
    names = [name for name in groups if re.search(arguments.only, name)]
    scale = "quick" if arguments.quick else "full"
    run = lambda name, side: run_demo(binaries[side], name, arguments.laps, scale)
    results = in_turns(names, arguments.turns, run, failures)

    yield f"Demos, {arguments.patched} ÷ original: {arguments.turns} turns of {arguments.laps} laps, {scale}.\n"
    yield "| demo | original, ms | CPU, ms | time, ratio | CPU time, ratio |"
    yield "|---|--:|--:|--:|--:|"
    times, cpus = {}, {}
    for name, runs in results.items():
        if not runs or name in failures:
            yield f"| {name} | failed | | | |"
            continue
        time, cpu = ratios(runs, "seconds"), ratios(runs, "cpu")
        times[name], cpus[name] = statistics.median(time), statistics.median(cpu)
        milliseconds = [statistics.median(original[key] for original, _ in runs) * 1000 for key in ("seconds", "cpu")]
        yield f"| {name} | {milliseconds[0]:.2f} | {milliseconds[1]:.2f} | {spread(time)} | {spread(cpu)} |"
    for group in [*dict.fromkeys(groups.values()), None]:
        inside = [name for name in times if group in (None, groups[name])]
        if inside:
            means = [geometric_mean([figures[name] for name in inside]) for figures in (times, cpus)]
            words = group or "all"
            yield f"| **geometric mean, {words}** | | | **{means[0]:.3f}** | **{means[1]:.3f}** |"
    if times:
        slowest, fastest = max(times, key=times.get), min(times, key=times.get)
        yield f"\nThe slowest of {len(times)}: {slowest}, {times[slowest]:.3f}; the fastest: {fastest}, {times[fastest]:.3f}."


# --- Programs -------------------------------------------------------------------------------------------------------


def digest(case, out, stdout):
    """Returns the digest of the program's standard output, and of the files that it created or changed, with their names."""
    total = hashlib.sha256()
    files = sorted(path for path in out.rglob("*") if path.is_file())
    if not stdout and not files:
        raise Failed("wrote no output to compare")
    if case.get("any_order"):
        stdout = b"\n".join(sorted(stdout.splitlines()))
    total.update(stdout.replace(os.fsencode(out), b"OUT"))
    for path in files:
        total.update(os.fsencode(path.relative_to(out)) + b"\0")
        total.update(path.read_bytes())
    return total.hexdigest()


def run_program(arguments, case, side, threads=False):
    """Runs a program once, in a new folder for its output."""
    with tempfile.TemporaryDirectory(prefix="compare-", dir=arguments.inputs.parent) as scratch:
        # The same name for both sides, since some programs print their path.
        out, report = Path(scratch) / "out", Path(scratch) / "report"
        if "copy" in case:
            shutil.copytree(arguments.inputs / case["copy"], out)
        else:
            out.mkdir()
        words = [word.format(inputs=arguments.inputs, out=out) for word in case["words"]]
        files = [str(path) for path in sorted(arguments.inputs.glob(case["files"]))] if "files" in case else []
        if "files_of_out" in case:
            files = [str(path) for path in sorted(out.rglob(case["files_of_out"]))]
        binary = arguments.bin / side / words[0]
        command = [arguments.bin / "watch", *(["--threads"] if threads else []), report, binary, *words[1:], *files]
        environment = dict(os.environ, HOME=scratch, LC_ALL="C", TERM="dumb", NO_COLOR="1")
        try:
            done = subprocess.run(
                [str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, env=environment,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{side}: not finished after {LIMIT} s")
        expected = case.get("status", 0)
        if done.returncode != expected:
            text = done.stderr.decode(errors="replace").strip()[-300:]
            raise Failed(f"{side}: exit status {done.returncode}: {text}")
        found = json.loads(report.read_text())
        found["cpu"] = found["user"] + found["system"]
        found["bytes"] = digest(case, out, done.stdout)
        return found


def programs(arguments, failures):
    sys.path.insert(0, str(HERE / "programs"))
    from cases import CASES

    sides = ["original", arguments.patched]
    cases = {}
    for name, case in CASES.items():
        if not re.search(arguments.only, name):
            continue
        if all((arguments.bin / side / case["words"][0]).exists() for side in sides):
            cases[name] = case
        else:
            failures[name] = "is not built"
    run = lambda name, side: run_program(arguments, cases[name], sides[side])
    # Once to warm the machine's caches, and to count threads, which costs time.
    counted = {}
    for name, case in cases.items():
        try:
            counted[name] = [run_program(arguments, case, side, threads=True) for side in sides]
        except Failed as failed:
            failures[name] = str(failed)
            print(f"{name}: {failed}", file=sys.stderr)
    results = in_turns(cases, arguments.turns, run, failures)

    yield f"Programs, {arguments.patched} ÷ original: {arguments.turns} turns.\n"
    yield "| program | bytes | original, s | time, ratio | CPU time, ratio | memory, MiB | original's | threads | original's |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    times, cpus = [], []
    for name, runs in results.items():
        if not runs or name in failures:
            yield f"| {name} | failed: {failures.get(name)} | | | | | | | |"
            continue
        pairs = runs + [counted[name]]
        digests = [{pair[side]["bytes"] for pair in pairs} for side in (0, 1)]
        if len(digests[0]) > 1:
            verdict = "differ from run to run, also the original's"
        elif digests[0] == digests[1]:
            verdict = "equal"
        else:
            verdict = "DIFFER"
        if verdict != "equal":
            failures[name] = f"bytes {verdict}"
        time, cpu = ratios(runs, "seconds"), ratios(runs, "cpu")
        times.append(statistics.median(time))
        cpus.append(statistics.median(cpu))
        memory = [statistics.median(pair[side]["peak_kib"] for pair in runs) / 1024 for side in (0, 1)]
        threads = [counted[name][side]["threads"] for side in (0, 1)]
        yield (
            f"| {name} | {verdict} | {statistics.median(pair[0]['seconds'] for pair in runs):.3f} | {spread(time)} "
            f"| {spread(cpu)} | {memory[1]:.1f} | {memory[0]:.1f} | {threads[1]} | {threads[0]} |"
        )
    if times:
        yield f"| **geometric mean** | | | **{geometric_mean(times):.3f}** | **{geometric_mean(cpus):.3f}** | | | | |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["demos", "programs"])
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--patched", default="patched", metavar="SIDE")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--laps", type=int, default=7, help="repetitions of a demo in one process")
    parser.add_argument("--only", default=".", metavar="REGEX")
    parser.add_argument("--quick", action="store_true", help="small inputs of demos")
    parser.add_argument("--inputs", type=Path, help="of the programs: what programs/inputs.py has made")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    failures = {}
    table = (demos if arguments.what == "demos" else programs)(arguments, failures)
    text = "\n".join(table) + "\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text)
    for name, why in failures.items():
        print(f"FAILED {name}: {why}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The public suite's programs, Coreshard's and the others' in turns: a table of times and one of memory.

Usage: compare.py [--runs N] [--threads N] [--only PATTERN] [--json FILE]        (build.sh first)

A time is the median of the runs with the smallest and the largest; a ratio is the other's time over Coreshard's of the same
turn. Memory is the process's own high-water mark.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

BUILT = Path(__file__).parent.parent / "target" / "suite" / "bin"
PROGRAMS = {"fib": ["39"], "skynet": [], "nqueens": [], "matmul": ["2048"]}
OURS = ["coreshard", "rayon"]
THEIRS = ["TooManyCooks", "citor", "libfork", "tbb"]


def command(program, runtime, threads):
    if runtime in OURS:
        return [BUILT / "suite", program, runtime, str(threads)]
    return [BUILT / f"{runtime}-{program}", *PROGRAMS[program], str(threads)]


def run(words, limit):
    # A child inherits its parent's high-water mark of memory: through the shell, that is the shell's, not this program's.
    words = ["sh", "-c", '"$@"; exit $?', "sh", *words]
    text = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True, timeout=limit).stdout
    if re.search("error", text, re.I):
        sys.exit(f"{words}: {text}")
    took, memory = re.search(r"duration: (\d+) us\s+max_rss: (\d+) KiB", text).groups()
    return {"ms": int(took) / 1000, "mib": int(memory) / 1024}


def spread(values, form):
    return f"{form.format(statistics.median(values))} ({form.format(min(values))}–{form.format(max(values))})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="", help="cells (PROGRAM RUNTIME) that this regular expression is found in")
    parser.add_argument("--limit", type=float, default=120, help="seconds of one run")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    there = [name for name in OURS + THEIRS if all(Path(command(p, name, 1)[0]).exists() for p in PROGRAMS)]
    for name in set(OURS + THEIRS) - set(there):
        print(f"compare.py: {name} is not built here", file=sys.stderr)
    results = {}
    for turn in range(arguments.runs):
        at = turn % len(there)
        for program in PROGRAMS:
            for runtime in there[at:] + there[:at]:
                if re.search(arguments.only, f"{program} {runtime}"):
                    cell = results.setdefault(program, {}).setdefault(runtime, [])
                    cell.append(run(command(program, runtime, arguments.threads), arguments.limit))
    print(f"{arguments.threads} threads, {arguments.runs} runs in turns\n")
    print("| program | runtime | ms | ÷ Coreshard's | peak memory, MiB |")
    print("|---|---|--:|--:|--:|")
    for program, by_runtime in results.items():
        for runtime, runs in by_runtime.items():
            ours = by_runtime.get("coreshard", [])
            ratios = [other["ms"] / own["ms"] for own, other in zip(ours, runs)]
            ratio = spread(ratios, "{:.2f}") if ratios and runtime != "coreshard" else ""
            memory = statistics.median(run["mib"] for run in runs)
            print(f"| {program} | {runtime} | {spread([run['ms'] for run in runs], '{:.0f}')} | {ratio} | {memory:.1f} |")
    if arguments.json:
        about = {"threads": arguments.threads, "runs": arguments.runs, "time": time.time()}
        arguments.json.write_text(json.dumps({**about, "results": results}, indent=1))


if __name__ == "__main__":
    main()

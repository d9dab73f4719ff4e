#!/usr/bin/env python3
"""Two builds of an example: does a change take more instructions a request, or an item?

Counts the instructions of N of them and of 2 N with valgrind; the difference, divided by N, is what one takes,
without what the program takes to start. Two counts of one build are equal but for a few in a million.
Writes a table in Markdown.

Usage: lab/count_instructions.py BEFORE AFTER [N]    N is 50000 by default; needs valgrind

BEFORE and AFTER are two builds of `null_path` (the block layer) or of `item_path` (the work queues), each of its own
commit: cargo build --release -p coreshard-block --example null_path, or -p coreshard --example item_path (a
commit that has no such example gets this one).
"""

import os
import re
import subprocess
import sys
import tempfile


def instructions(command):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out] + command
        told = subprocess.run(counted, check=True, capture_output=True, text=True).stderr
    return int(re.search(r"Collected : (\d+)", told).group(1))


def of_one(program, way, at_a_time, requests):
    once, twice = (instructions([program, way, str(count), str(at_a_time)]) for count in (requests, 2 * requests))
    return (twice - once) / requests


def main():
    before, after = sys.argv[1:3]
    requests = int(sys.argv[3]) if len(sys.argv) > 3 else 50000
    print("| way | at a time | before | after | more |")
    print("|---|--:|--:|--:|--:|")
    is_block = "null_path" in os.path.basename(before)
    for way in ("number", "callback", "future") if is_block else ("push", "submit", "work", "spawn", "join"):
        for at_a_time in (1, 32) if is_block else (1000,):
            one, other = (of_one(program, way, at_a_time, requests) for program in (before, after))
            print(f"| {way} | {at_a_time} | {one:.0f} | {other:.0f} | {100 * (other / one - 1):+.1f} % |", flush=True)


main()

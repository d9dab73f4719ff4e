#!/usr/bin/env python3
"""Two builds of the block layer's example `null_path`: does a change take more instructions a request?

Counts the instructions of N requests and of 2 N with valgrind; the difference, divided by N, is what one takes,
without what the program takes to start. Two counts of one build are equal but for a few in a million.
Writes a table in Markdown.

Usage: lab/count_instructions.py BEFORE AFTER [N]    N is 50000 by default; needs valgrind

BEFORE and AFTER are two `null_path`, each built of its own commit:
cargo build --release -p coreshard-block --example null_path
(a commit that has no such example gets this one).
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


def a_request(program, way, at_a_time, requests):
    once, twice = (instructions([program, way, str(count), str(at_a_time)]) for count in (requests, 2 * requests))
    return (twice - once) / requests


def main():
    before, after = sys.argv[1:3]
    requests = int(sys.argv[3]) if len(sys.argv) > 3 else 50000
    print("| completion by | at a time | before | after | more |")
    print("|---|--:|--:|--:|--:|")
    for way in ("number", "callback", "future"):
        for at_a_time in (1, 32):
            one, other = (a_request(program, way, at_a_time, requests) for program in (before, after))
            print(f"| {way} | {at_a_time} | {one:.0f} | {other:.0f} | {100 * (other / one - 1):+.1f} % |", flush=True)


main()

#!/usr/bin/env python3
"""Compares two builds of a program: does a change need more instructions per request, item, or round of the priority index?

Counts the instructions of N of them and of 2 N with valgrind; the difference, divided by N, is what one takes,
without what the program takes to start. Two counts of one build are equal but for a few in a million.
Writes a table in Markdown.

Usage: lab/count_instructions.py BEFORE AFTER [N]    N is 50000 by default; needs valgrind

BEFORE and AFTER are two builds of `null_path` (the block layer) or of `item_path` (the work queues), each of its own
commit: cargo build --release -p coreshard-block --example null_path, or -p coreshard --example item_path (a
commit that has no such example gets this one). Or they are two builds of the command, whose files are not named like
those: then it is a request of its `bench block` on the null device, and a round of its `bench rt index`, where one
thread sets a level and searches.
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


def command_of(program, way, at_a_time, requests):
    if "_path" in os.path.basename(program):
        return [program, way, str(requests), str(at_a_time)]
    if way == "null":
        return [program, "bench", "block", "--ioengine", "null", "--rw", "randread", "--size", "1t",
                "--iodepth", str(at_a_time), "--number_ios", str(requests), "--json", "-"]
    return [program, "bench", "rt", "index", "--variants", way, "--threads", "1", "--runs", "1",
            "--rounds", str(requests), "--json", "-"]


def of_one(program, way, at_a_time, requests):
    once, twice = (instructions(command_of(program, way, at_a_time, count)) for count in (requests, 2 * requests))
    return (twice - once) / requests


def main():
    before, after = sys.argv[1:3]
    requests = int(sys.argv[3]) if len(sys.argv) > 3 else 50000
    print("| way | at a time | before | after | more |")
    print("|---|--:|--:|--:|--:|")
    name = os.path.basename(before)
    ways = {"null_path": [(way, at) for way in ("number", "callback", "future") for at in (1, 32)],
            "item_path": [(way, 1000) for way in ("push", "submit", "work", "spawn", "join")]}
    of_command = [("null", 1), ("null", 32)] + [(rung, 1) for rung in ("packed", "padded", "split", "per-llc")]
    for way, at_a_time in next((ways[one] for one in ways if one in name), of_command):
        one, other = (of_one(program, way, at_a_time, requests) for program in (before, after))
        print(f"| {way} | {at_a_time} | {one:.0f} | {other:.0f} | {100 * (other / one - 1):+.1f} % |", flush=True)


main()

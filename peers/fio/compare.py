#!/usr/bin/env python3
"""Runs the same job with fio and with `coreshard bench block`, turn by turn, and prints a table.

CPU time is that of the whole process with the kernel's threads on its behalf, as wait4(2) tells it, and so
the same for both. Usage: compare.py CORESHARD ROUNDS SECONDS FILE [CASE ...]
"""

import json
import os
import statistics
import subprocess
import sys

coreshard, rounds, seconds, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
wanted = sys.argv[5:]

# Name: words for both, words for fio alone, words for coreshard alone.
FILE = [f"--filename={path}", "--size=512m", "--rw=randread", "--bs=4k", "--iodepth=64"]
CASES = {
    "io_uring-1": (FILE + ["--direct=1", "--numjobs=1"], ["--ioengine=io_uring"], ["--ioengine=io_uring"]),
    "io_uring-2": (FILE + ["--direct=1", "--numjobs=2"], ["--ioengine=io_uring"], ["--ioengine=io_uring"]),
    "registered-1": (
        FILE + ["--direct=1", "--numjobs=1", "--fixedbufs"],
        ["--ioengine=io_uring", "--registerfiles"],
        ["--ioengine=io_uring"],
    ),
    "registered-2": (
        FILE + ["--direct=1", "--numjobs=2", "--fixedbufs"],
        ["--ioengine=io_uring", "--registerfiles"],
        ["--ioengine=io_uring"],
    ),
    "psync-1": (FILE + ["--direct=1", "--numjobs=1"], ["--ioengine=psync"], ["--ioengine=psync"]),
    "auto-1": (FILE + ["--direct=1", "--numjobs=1"], ["--ioengine=io_uring"], ["--ioengine=auto"]),
    "auto-2": (FILE + ["--direct=1", "--numjobs=2"], ["--ioengine=io_uring"], ["--ioengine=auto"]),
    "null-1": (["--size=512m", "--rw=randread", "--bs=4k", "--iodepth=64"], ["--ioengine=null"], ["--ioengine=null"]),
    "null-2": (
        ["--size=512m", "--rw=randread", "--bs=4k", "--iodepth=64", "--numjobs=2"],
        ["--ioengine=null"],
        ["--ioengine=null"],
    ),
}


def measure(command):
    """Requests a second, and nanoseconds of CPU time for each."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = process.stdout.read()
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: {error.decode()}")
    text = out.decode()
    jobs = json.loads(text[text.index("{"):])["jobs"]
    ios = sum(job["read"]["total_ios"] + job["write"]["total_ios"] for job in jobs)
    iops = sum(job["read"]["iops"] + job["write"]["iops"] for job in jobs)
    return iops, (usage.ru_utime + usage.ru_stime) * 1e9 / ios


def shown(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


print("| case | fio IOPS | coreshard IOPS | ratio of IOPS | fio CPU ns/IO | coreshard CPU ns/IO | ratio of CPU |")
print("|---|---|---|---|---|---|---|")
for name, (both, fio_words, our_words) in CASES.items():
    if wanted and name not in wanted:
        continue
    common = ["--name=compare", f"--runtime={seconds}", "--time_based"] + both
    fio = ["fio"] + fio_words + common + ["--thread", "--group_reporting", "--output-format=json"]
    ours = [coreshard, "bench", "block"] + common + our_words + ["--json=-"]
    runs = [(measure(fio), measure(ours)) for _ in range(rounds)]
    ratios = [[theirs[at] and mine[at] / theirs[at] for theirs, mine in runs] for at in (0, 1)]
    cells = [[shown([run[who][at] for run in runs]) for who in (0, 1)] for at in (0, 1)]
    ratio = [f"{statistics.median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in ratios]
    print(f"| {name} | {cells[0][0]} | {cells[0][1]} | {ratio[0]} | {cells[1][0]} | {cells[1][1]} | {ratio[1]} |", flush=True)

#!/usr/bin/env python3
"""Runs job files with fio and with `coreshard bench block`, and compares what both have done: bytes written and read,
blocks touched, the size of the file, and the time.

Usage: words.py CORESHARD [WORD ...]    WORD: only the jobs whose words contain it

Prints a table, and exits with 1 if a difference is not explained. Each job writes to a file of zeros of its own, so that
the blocks that it has touched can be seen. Times are compared if a word bounds them: `runtime`, `rate_iops`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

BLOCK = 4096
# The words of a job, with bs=4k and an engine, on an existing file of 1 MiB, or on a new one with file=none; `verify` stands for
# each program's own kind. Then the permitted differences: a largest relative one, a rule (see `differs`), or a reason.
JOBS = [
    ("rw=write", {}),
    ("rw=write runtime=60", {}),
    ("rw=write size=512k", {}),
    ("rw=write size=25%", {}),
    ("rw=write size=33%", {}),
    ("rw=write size=50% offset=75%", {}),
    ("rw=write size=50% offset=25%", {}),
    ("rw=write offset=33%", {}),
    ("rw=write offset=256k", {}),
    ("rw=write offset=256k size=512k", {}),
    ("rw=write io_size=256k", {}),
    ("rw=write io_size=1536k", {}),
    ("rw=write io_size=50%", {}),
    ("rw=write size=50% io_size=50%", {}),
    ("rw=write io_size=10000", {}),
    (
        "rw=write size=10000",
        {what: "reason: fio writes past size if the file has room" for what in ("written", "blocks")},
    ),
    ("rw=write loops=3", {}),
    ("rw=write loops=2 io_size=256k", {}),
    ("rw=write number_ios=10", {}),
    ("rw=write number_ios=1000", {}),
    ("rw=write number_ios=10 loops=2", {}),
    ("rw=write numjobs=2", {}),
    ("rw=write numjobs=2 group_reporting", {}),
    ("rw=write numjobs=2 number_ios=10", {}),
    ("rw=write time_based", {}),
    ("rw=write runtime=1 time_based", {"written": "speed"}),
    ("rw=write runtime=1 time_based loops=2", {"written": "speed"}),
    ("rw=write runtime=1 time_based number_ios=10", {"written": "speed"}),
    ("rw=write rate_iops=256", {}),
    ("rw=write rate_iops=64 runtime=1", {"written": 0.1, "blocks": 0.1}),
    ("rw=write rate_iops=256 ramp_time=500ms", {"written": 0.1}),
    ("rw=randwrite", {}),
    ("rw=randwrite norandommap=0", {}),
    ("rw=randwrite norandommap", {"blocks": 0.1}),
    ("rw=randwrite randrepeat=0", {}),
    ("rw=randwrite randseed=77", {}),
    ("rw=randwrite io_size=512k", {}),
    ("rw=randwrite io_size=1536k", {}),
    ("rw=randwrite loops=2 io_size=256k", {}),
    ("rw=randwrite runtime=1 time_based", {"written": "speed"}),
    ("rw=randwrite rate_iops=1000 runtime=1 time_based", {"written": 0.1}),
    (
        "rw=randwrite rate_iops=100 ramp_time=1 runtime=1 time_based",
        {"written": 0.1, "blocks": "reason: fio may begin the order again after the ramp"},
    ),
    ("rw=randwrite bssplit=4k/50:16k/50", {}),
    ("rw=write bssplit=4k/50:16k/50", {}),
    ("rw=write bssplit=4k/20:16k/:32k/", {}),
    ("rw=randrw rwmixread=25", {"written": 0.2, "read": 0.2, "blocks": "mixed"}),
    ("rw=randrw rate_iops=128", {"blocks": "mixed", "written": 0.05, "read": 0.05}),
    ("rw=rw rwmixread=25 rate_iops=200,100", {"blocks": "mixed", "written": 0.05, "read": 0.05}),
    ("rw=randwrite verify", {}),
    ("rw=write verify loops=2", {}),
    ("rw=randwrite verify norandommap", {"read": 0.1, "blocks": 0.1}),
    (
        "rw=randwrite verify runtime=1 time_based",
        {"written": "speed", "read": "reason: fio verifies nothing then, and says so; coreshard verifies every block"},
    ),
    ("rw=write ioengine=libaio iodepth=8", {}),
    ("rw=randread iodepth=8", {}),
    ("rw=read loops=2", {}),
    ("rw=write size=1m file=none", {}),
    ("rw=write size=1m offset=256k file=none", {}),
]


def blocks_of(path):
    """Returns the blocks that are not all zeros."""
    with open(path, "rb") as file:
        data = file.read()
    return sum(1 for at in range(0, len(data), BLOCK) if any(data[at : at + BLOCK])), len(data)


def run(command, folder, words, verify):
    """Runs a job file. Returns the bytes written, bytes read, blocks, size of the file, and seconds."""
    path, jobs = os.path.join(folder, "file"), os.path.join(folder, "job.fio")
    if os.path.exists(path):
        os.remove(path)
    lines = [word for word in words.split() if not word.startswith(("file=", "verify"))]
    if "verify" in words.split():
        lines.append(verify)
    if "file=none" not in words:
        with open(path, "wb") as file:
            file.truncate(1 << 20)
    if "ioengine" not in words:
        lines.append("ioengine=psync")
    with open(jobs, "w", encoding="ascii") as file:
        file.write("[job]\nbs=4k\nfilename={}\n{}\n".format(path, "\n".join(lines)))
    began = time.monotonic()
    # fio leaves the state of its verification in the current folder.
    done = subprocess.run(command + [jobs], cwd=folder, capture_output=True, text=True, check=False)
    wall = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(f"{words}: {' '.join(command)}: {done.stdout[:400]}{done.stderr[:400]}")
    found = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    total = lambda way: sum(job[way]["io_bytes"] for job in found)
    read = total("read") + sum(job.get("verified_bytes", 0) for job in found)
    runtime = max(max(job["read"]["runtime"], job["write"]["runtime"]) for job in found)
    blocks, size = blocks_of(path)
    return {"written": total("write"), "read": read, "blocks": blocks, "file": size, "ms": runtime, "wall": wall}


def differs(what, theirs, ours, allowed):
    """Returns a difference between the two results that is not permitted, if any."""
    if what not in allowed:
        return theirs[what] != ours[what]
    kind = allowed[what]
    if kind == "speed":
        # Depends on the program's speed: at least one full pass.
        return min(theirs[what], ours[what]) < 1 << 20
    if kind == "mixed":
        return ours["blocks"] * BLOCK != ours["written"]
    if isinstance(kind, str):
        return False
    return abs(theirs[what] - ours[what]) > kind * max(theirs[what], ours[what])


def main():
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(__doc__)
    coreshard, wanted = [os.path.abspath(sys.argv[1]), "bench", "block", "--allow-overwrite", "--json=-"], sys.argv[2:]
    fio = ["fio", "--output-format=json"]
    print("| job, with bs=4k | written: fio, coreshard | read | blocks | file | ms | |")
    print("|---|--:|--:|--:|--:|--:|---|")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for words, allowed in JOBS:
            if wanted and not any(word in words for word in wanted):
                continue
            theirs = run(fio, folder, words, "verify=crc32c")
            ours = run(coreshard, folder, words, "verify=pattern")
            columns = ["written", "read", "file"]
            # A file that coreshard lays out is marked as its own, and holds no zeros.
            if "file=none" not in words:
                columns.append("blocks")
            bad = [what for what in columns if differs(what, theirs, ours, allowed)]
            # Such a word is a lower bound of the time; a busy machine takes longer.
            if ("rate_iops" in words or "time_based" in words and "runtime" in words) and theirs["ms"] > 100:
                if ours["ms"] < 0.9 * theirs["ms"]:
                    bad.append("ms")
            wrong += bool(bad)
            cells = [f"{theirs[what]:,}, {ours[what]:,}" for what in ("written", "read", "blocks", "file", "ms")]
            reasons = {kind for kind in allowed.values() if isinstance(kind, str) and kind.startswith("reason: ")}
            verdict = "differ: " + ", ".join(bad) if bad else " ".join(reasons) or "same"
            print(f"| {words} | {' | '.join(cells)} | {verdict} |", flush=True)
    print(f"\n{wrong} jobs differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

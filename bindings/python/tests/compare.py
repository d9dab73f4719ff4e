"""Coreshard's executor beside the standard library's: interleaved, each figure with its range over the runs.

Usage: python tests/compare.py [--quick] [--runs N] [--json FILE]

flood        calls of a function that does nothing: submitted by one thread, then all results are asked for
latency      one call at a time: from before submit to after result
map-zlib     map of zlib.compress over blocks, which releases Python's lock
map-sha256   the same with hashlib.sha256
switches     context switches of the process, of both kinds, during a flood, for each 1,000 calls
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import platform
import resource
import statistics
import sys
import sysconfig
import time
import zlib

import coreshard


def nothing():
    pass


def switches():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


def flood(executor, calls):
    before, begun = switches(), time.perf_counter()
    futures = [executor.submit(nothing) for _ in range(calls)]
    for future in futures:
        future.result()
    took = time.perf_counter() - begun
    return {"flood, calls/s": calls / took, "flood, switches/1000 calls": (switches() - before) * 1000 / calls}


def latency(executor, calls):
    took = []
    before = switches()
    for _ in range(calls):
        begun = time.perf_counter_ns()
        executor.submit(nothing).result()
        took.append(time.perf_counter_ns() - begun)
    took.sort()
    return {
        "latency, median, us": took[calls // 2] / 1000,
        "latency, p99, us": took[calls * 99 // 100] / 1000,
        "latency, switches/1000 calls": (switches() - before) * 1000 / calls,
    }


def mapped(name, function, blocks):
    def run(executor, _calls):
        before, begun = switches(), time.perf_counter()
        for _ in executor.map(function, blocks):
            pass
        took = time.perf_counter() - begun
        return {
            f"map {name}, calls/s": len(blocks) / took,
            f"map {name}, switches/1000 calls": (switches() - before) * 1000 / len(blocks),
        }

    return run


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--json")
    chosen = options.parse_args()
    runs = 2 if chosen.quick else chosen.runs
    scale = 20 if chosen.quick else 1
    block = bytes(range(256)) * 256
    blocks = [block[i % 256:] + block[: i % 256] for i in range(400 // scale)]
    small = [os.urandom(16384) for _ in range(4000 // scale)]
    kinds = {
        "ThreadPoolExecutor": concurrent.futures.ThreadPoolExecutor,
        "coreshard": coreshard.Executor,
    }
    tasks = [
        (flood, 100_000 // scale),
        (latency, 5_000 // scale),
        (mapped("zlib 64 KiB", zlib.compress, blocks), 0),
        (mapped("sha256 16 KiB", lambda data: hashlib.sha256(data).digest(), small), 0),
    ]
    figures = {kind: {} for kind in kinds}
    for run in range(runs):
        for task, calls in tasks:
            # In turns, so that what else the machine does falls on both.
            for kind in sorted(kinds, reverse=run % 2 == 1):
                with kinds[kind]() as executor:
                    for _ in executor.map(abs, range(100)):
                        pass
                    for figure, value in task(executor, calls).items():
                        figures[kind].setdefault(figure, []).append(value)
    gil = "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with the lock"
    print(f"Python {platform.python_version()} ({gil}), {len(os.sched_getaffinity(0))} CPUs, {runs} runs: median (range)")
    print(f"{'':36} {'ThreadPoolExecutor':>30} {'coreshard':>30} {'ratio':>7}")
    for figure in figures["coreshard"]:
        cells, medians = [], []
        for kind in kinds:
            values = figures[kind][figure]
            medians.append(statistics.median(values))
            cells.append(f"{medians[-1]:,.1f} ({min(values):,.1f} to {max(values):,.1f})")
        ratio = medians[1] / medians[0] if medians[0] else float("nan")
        print(f"{figure:36} {cells[0]:>30} {cells[1]:>30} {ratio:7.2f}")
    if chosen.json:
        with open(chosen.json, "x", encoding="utf-8") as file:
            json.dump({"python": sys.version, "figures": figures}, file, indent=1)


if __name__ == "__main__":
    main()

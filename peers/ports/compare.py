#!/usr/bin/env python3
"""The programs of this folder in turns: Coreshard, then the other, then the other way round.

Usage: compare.py jobs|nested|http|service [--turns N] [--seconds S] [--json FILE] [--only PATTERN]

Build first: cargo build --release, here and, for oxipng, in oxipng-on-coreshard, both into one target folder:
    export CARGO_TARGET_DIR=peers/ports/target
http needs wrk and h2load (Debian: wrk, nghttp2-client). All traffic stays on 127.0.0.1.

A figure is the median of the turns with the smallest and the largest; a ratio is Coreshard's figure over the
other's, turn by turn.
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

PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parent / "target")) / "release"
TICK = os.sysconf("SC_CLK_TCK")

JOBS = {
    "grep": ["grep"],
    "grep, literal": ["grep", "--pattern", "panic panic"],
    "walk": ["walk"],
    "thumbnails": ["thumbnails"],
    "oxipng -o1": ["oxipng", "-o", "1"],
    "oxipng -o4": ["oxipng", "-o", "4"],
    "oxipng -o1, one by one": ["oxipng", "-o", "1", "--one-by-one"],
    "oxipng -o4, one by one": ["oxipng", "-o", "4", "--one-by-one", "--pictures", "3"],
}


def nested_cases():
    cases = {}
    for lock in ("none", "own", "level"):
        for shape, size in (
            ("scope-chain", 1000),
            ("scope-tree", 16),
            ("join-chain-first", 1000),
            ("join-chain-second", 1000),
            ("join-tree", 16),
        ):
            # Long enough for a clock, and for the sampler of threads.
            times = 3 if size == 16 else 30
            name = f"{shape} {size}" + ("" if lock == "none" else f", lock {lock}")
            cases[name] = ["nested", shape, None, str(size), "--lock", lock, "--times", str(times)]
    for depth, work in ((10, 100_000), (6, 40_000_000)):
        for shape in ("scope-tree", "join-tree"):
            for lock in ("none", "level"):
                name = f"{shape} {depth}, leaves of {work / 1e6:g} ms" + ("" if lock == "none" else f", lock {lock}")
                cases[name] = ["nested", shape, None, str(depth), "--lock", lock, "--work", str(work)]
    for shape in ("under-mutex", "other-pool", "under-once", "under-rw-lock", "three-loops"):
        for inner in ("join", "loop", "scope"):
            for outer in ("", "--outer-items"):
                name = f"{shape}, inner {inner}" + (", outer items" if outer else "")
                cases[name] = ["nested", shape, None, "5000", "--inner", inner] + ([outer] if outer else [])
    return cases


def command(case, executor):
    program, *rest = case
    if program == "oxipng":
        return [PROGRAMS / f"oxipng-on-{executor}", *rest]
    if None in rest:
        return [PROGRAMS / program, *(executor if word is None else word for word in rest)]
    return [PROGRAMS / program, executor, *rest]


def run_job(case, executor, limit):
    words = [str(word) for word in command(case, executor)] + ["--limit-s", str(limit)]
    output = subprocess.run(words, stdout=subprocess.PIPE, check=False).stdout
    return json.loads(output)


def spread(values, form="{:.2f}"):
    if not values:
        return "–"
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{form.format(middle)} ({form.format(low)}–{form.format(high)})"


def jobs(cases, arguments):
    results = {name: {"coreshard": [], "rayon": []} for name in cases}
    for turn in range(arguments.turns):
        for name, case in cases.items():
            order = ["coreshard", "rayon"] if turn % 2 == 0 else ["rayon", "coreshard"]
            for executor in order:
                runs = results[name][executor]
                # A job that hung twice is not run again.
                if sum(not run["ended"] for run in runs) < 2:
                    runs.append(run_job(case, executor, arguments.limit))
    print("| job | bytes | wall, ms | wall ÷ rayon's | CPU ÷ rayon's | threads | rayon's | memory, MiB | ÷ rayon's |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, both in results.items():
        ours, theirs = both["coreshard"], both["rayon"]
        hung = [f"{sum(not run['ended'] for run in runs)} of {len(runs)}" for runs in (ours, theirs)]
        pairs = [(one, other) for one, other in zip(ours, theirs) if one["ended"] and other["ended"]]
        hashes = {run["hash"] for run in ours + theirs if run["ended"]}
        equal = "equal" if len(hashes) == 1 else "differ" if hashes else "–"
        if not all(run["ended"] for run in ours + theirs):
            equal = f"hung: {hung[0]}, rayon {hung[1]}"
        ratio = lambda key: spread([one[key] / max(other[key], 1e-9) for one, other in pairs])
        walls = [run["wall_s"] * 1000 for run in ours if run["ended"]]
        print(
            f"| {name} | {equal} | {spread(walls, '{:.1f}')} | {ratio('wall_s')} | {ratio('cpu_s')}"
            f" | {max(run['peak_threads'] for run in ours)} | {max(run['peak_threads'] for run in theirs)}"
            f" | {statistics.median(run['peak_rss_kib'] for run in ours) / 1024:.1f}"
            f" | {statistics.median(run['peak_rss_kib'] for run in ours) / statistics.median(run['peak_rss_kib'] for run in theirs):.2f} |"
        )
    return results


class Server:
    """One of the programs that serve until their standard input ends."""

    def __init__(self, words):
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline())

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def status(self, name):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])

    def switches(self):
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)[1])
        return total

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


def seconds(text):
    """Parses a time that wrk printed. Not a number if there was no answer."""
    match = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text)
    if not match:
        return float("nan")
    number, unit = match.groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[unit]


def load_http(protocol, port, duration, connections):
    """Requests a second, and the latencies at the median and of the slowest hundredth."""
    if protocol == 1:
        words = ["wrk", "-t1", f"-c{connections}", f"-d{duration}s", "--latency", f"http://127.0.0.1:{port}/"]
        text = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout
        count, took = re.search(r"(\d+) requests in ([\d.]+\w+)", text).groups()
        failed = re.search(r"Socket errors|Non-2xx", text)
        p50, p99 = (seconds(re.search(rf"{part}%\s+(\S+)", text)[1]) for part in (50, 99))
        return {"requests": int(count), "seconds": seconds(took), "p50_s": p50, "p99_s": p99, "failed": bool(failed)}
    log = Path(os.environ.get("TMPDIR", "/tmp")) / f"h2load-{os.getpid()}.log"
    log.unlink(missing_ok=True)
    words = ["h2load", "-t1", f"-c{connections}", "-m16", f"-D{duration}", f"--log-file={log}"]
    text = subprocess.run(
        words + [f"http://127.0.0.1:{port}/"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    latencies = sorted(int(line.split("\t")[2]) for line in log.read_text().splitlines())
    log.unlink()
    failed = int(re.search(r"(\d+) failed", text)[1])
    count = int(re.search(r"(\d+) succeeded", text)[1])
    at = lambda part: latencies[min(len(latencies) - 1, int(len(latencies) * part))] / 1e6
    return {"requests": count, "seconds": duration, "p50_s": at(0.5), "p99_s": at(0.99), "failed": failed > 0}


def http(arguments):
    executors = arguments.executors or ["tokio", "coreshard", "coreshard-driven", "tokio-one-thread"]
    cases = [(1, 32, 0), (1, 256, 0), (1, 32, 20_000), (2, 8, 0), (2, 8, 20_000)]
    results = {}
    for turn in range(arguments.turns):
        for protocol, connections, work in cases:
            name = f"HTTP/{protocol}, {connections} connections" + (f", {work / 1000:g} µs of work" if work else "")
            if not re.search(arguments.only or "", name):
                continue
            at = turn % len(executors)
            for executor in executors[at:] + executors[:at]:
                server = Server([PROGRAMS / "http", executor, str(protocol), "--work", str(work)])
                load_http(protocol, server.port, 1, connections)
                cpu, switches = server.cpu_s(), server.switches()
                run = load_http(protocol, server.port, arguments.seconds, connections)
                if not run["requests"]:
                    print(f"{name}: {executor} gave no answer in turn {turn}", file=sys.stderr)
                    run.update(failed=True, requests=1)
                run["cpu_us_each"] = (server.cpu_s() - cpu) / run["requests"] * 1e6
                run["switches_each"] = (server.switches() - switches) / run["requests"]
                run["threads"] = server.status("Threads")
                run["peak_rss_kib"] = server.status("VmHWM")
                run["rate"] = run["requests"] / run["seconds"]
                server.end()
                results.setdefault(name, {}).setdefault(executor, []).append(run)
    print("| case | executor | requests a second | ÷ tokio's | CPU each, µs | ÷ tokio's | p50, µs | p99, µs | voluntary switches each | threads |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, by_executor in results.items():
        for executor, runs in by_executor.items():
            ratio = lambda key: spread([one[key] / other[key] for one, other in zip(runs, by_executor["tokio"])])
            of = lambda key, factor=1, form="{:.1f}": spread([run[key] * factor for run in runs], form)
            failed = ", failures" if any(run["failed"] for run in runs) else ""
            print(
                f"| {name} | {executor}{failed} | {of('rate', form='{:.0f}')} | {ratio('rate')} | {of('cpu_us_each')}"
                f" | {ratio('cpu_us_each')} | {of('p50_s', 1e6, '{:.0f}')} | {of('p99_s', 1e6, '{:.0f}')}"
                f" | {of('switches_each', form='{:.2f}')} | {max(run['threads'] for run in runs)} |"
            )
    return results


def service(arguments):
    executors = arguments.executors or ["coreshard", "spawn-blocking", "rayon", "inline"]
    cpus = len(os.sched_getaffinity(0))
    capacity = cpus / 2e-3
    print(f"Offered load in parts of {capacity:.0f} requests a second: {cpus} CPUs, 2 ms each.\n")
    results = {}
    for turn in range(arguments.turns):
        for percent in arguments.percents:
            at = turn % len(executors)
            for executor in executors[at:] + executors[:at]:
                server = Server([PROGRAMS / "service", "server", executor])
                words = [PROGRAMS / "service", "load", server.port, capacity * percent / 100]
                words += ["--seconds", arguments.seconds]
                cpu = server.cpu_s()
                output = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True).stdout
                run = json.loads(output)
                run["cpu_s"] = server.cpu_s() - cpu
                run["threads"] = server.status("Threads")
                run["peak_rss_kib"] = server.status("VmHWM")
                server.end()
                results.setdefault(percent, {}).setdefault(executor, []).append(run)
    print("| offered, % | executor | goodput, a second | p50, ms | p99, ms | refused, % | late or dropped | threads | memory, MiB | CPU each good one, ms |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for percent, by_executor in results.items():
        for executor, runs in by_executor.items():
            refused = [100 * run["refused"] / run["sent"] for run in runs]
            bad = sum(run["late"] + run["dropped"] + run["failed"] for run in runs)
            cpu = [run["cpu_s"] / max(run["goodput"] * run["seconds"], 1) * 1000 for run in runs]
            print(
                f"| {percent} | {executor} | {spread([run['goodput'] for run in runs], '{:.0f}')}"
                f" | {spread([run['p50_us'] / 1000 for run in runs], '{:.1f}')}"
                f" | {spread([run['p99_us'] / 1000 for run in runs], '{:.1f}')}"
                f" | {spread(refused, '{:.0f}')} | {bad} | {max(run['threads'] for run in runs)}"
                f" | {max(run['peak_rss_kib'] for run in runs) / 1024:.1f} | {spread(cpu)} |"
            )
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["jobs", "nested", "http", "service"])
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--seconds", type=int, default=3, help="of load in each turn")
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a job counts as hung")
    parser.add_argument("--only", help="cases whose names this regular expression is found in")
    parser.add_argument("--executors", nargs="+", help="of http and service; http needs tokio among them")
    parser.add_argument("--percents", nargs="+", type=int, default=[10, 50, 80, 100, 150, 200], help="of service")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.what in ("jobs", "nested"):
        cases = JOBS if arguments.what == "jobs" else nested_cases()
        cases = {name: case for name, case in cases.items() if re.search(arguments.only or "", name)}
        results = jobs(cases, arguments)
    else:
        results = (http if arguments.what == "http" else service)(arguments)
    if arguments.json:
        document = {"what": arguments.what, "turns": arguments.turns, "time": time.time(), "results": results}
        arguments.json.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

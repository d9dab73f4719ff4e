#!/usr/bin/env python3
"""Does `coreshard contend` predict this machine's own contention?

    lab/contend_host.py measure [--command target/release/coreshard] [--rounds N] --into FILE
    lab/contend_host.py compare [--command target/release/coreshard] --machine FILE --with FILE

`measure` runs 20 small programs with real threads on 1 and 2 CPUs, one program after the other in each round, and appends the
figures to the file. `compare` predicts them on a machine file that `coreshard calibrate -o FILE` wrote here, and prints a table in
Markdown: medians over all rounds, the range of the rounds, both models' predictions, and how many are within 25 %. A row's own
noise is the share of its rounds within 25 % of their median: no prediction can be right more often.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CLOSE = 0.25
THREADS = "1,2"
# Placement matters: threads on one CPU do not contend.
HEAD = 'placement = "spread"\n'
LOCKED = '{ %s = "lock", writes = ["a"], inside_ns = %d }'
PROGRAMS = {
    "add": 'outside_ns = 0\nsteps = [{ add = "a" }]',
    "add, 100 ns outside": 'outside_ns = 100\nsteps = [{ add = "a" }]',
    "add, 500 ns outside": 'outside_ns = 500\nsteps = [{ add = "a" }]',
    "three adds, 200 ns outside": 'outside_ns = 200\nsteps = [{ add = "a" }, { add = "b" }, { add = "c" }]',
    "three adds on one line, 200 ns outside":
        'lines = [["a", "b", "c"]]\noutside_ns = 200\nsteps = [{ add = "a" }, { add = "b" }, { add = "c" }]',
    "own words on one line": 'per_thread = ["a"]\noutside_ns = 50\nsteps = [{ add = "a" }]',
    "compare-exchange": 'outside_ns = 0\nsteps = [{ cas = "a", retry = "at-once" }]',
    "compare-exchange with pause": 'outside_ns = 0\nsteps = [{ cas = "a", retry = "pause" }]',
    "compare-exchange, 200 ns outside": 'outside_ns = 200\nsteps = [{ cas = "a" }]',
    "store, 100 ns outside": 'outside_ns = 100\nsteps = [{ store = "a" }]',
    "load, and a rare store": 'outside_ns = 50\nsteps = [{ load = "a" }, { store = "a", every = 64 }]',
    "load, and an add to its line": 'lines = [["a", "b"]]\noutside_ns = 100\nsteps = [{ load = "a" }, { add = "b", every = 4 }]',
    "spin lock": "outside_ns = 200\nsteps = [" + LOCKED % ("spin-lock", 20) + "]",
    "spin lock with back-off":
        'outside_ns = 200\nsteps = [{ spin-lock = "lock", retry = "back-off", writes = ["a"], inside_ns = 20 }]',
    "spin lock, data on its line":
        'lines = [["lock", "a"]]\noutside_ns = 200\nsteps = [' + LOCKED % ("spin-lock", 20) + "]",
    "spin lock held for long": "outside_ns = 300\nsteps = [" + LOCKED % ("spin-lock", 300) + "]",
    "ticket lock": "outside_ns = 200\nsteps = [" + LOCKED % ("ticket-lock", 20) + "]",
    "queue lock": "outside_ns = 200\nsteps = [" + LOCKED % ("queue-lock", 20) + "]",
    "readers of a lock": 'outside_ns = 200\nsteps = [{ read-lock = "lock", reads = ["a"], inside_ns = 50 }]',
    "combining lock": "outside_ns = 200\nsteps = [" + LOCKED % ("combine", 20) + "]",
}


def contend(command, text, arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(HEAD + text)
        file.flush()
        done = subprocess.run([command, "contend", file.name, "--threads", THREADS, "--json", *arguments],
                              capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"lab/contend_host.py: {text}: {done.stderr}")
    return json.loads(done.stdout)


def rates(report, model="run"):
    return {str(point["threads"]): point[model]["per_sec"] for point in report["points"]}


def measure(arguments):
    file = Path(arguments.into)
    kept = json.loads(file.read_text()) if file.exists() else {}
    for number in range(arguments.rounds):
        for name, text in PROGRAMS.items():
            report = contend(arguments.command, text, [])
            for threads, rate in rates(report).items():
                kept.setdefault(name, {}).setdefault(threads, []).append(rate)
        file.write_text(json.dumps(kept))
        print(f"round {number + 1} of {arguments.rounds}", flush=True)


def compare(arguments):
    measured = json.loads(Path(arguments.measured).read_text())
    print("| program | threads | measured, M/s | simulated | over | queueing | over | rounds within 25 % |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    right = {"simulated": {}, "queueing": {}, "covered": {}}
    itself = []
    for name, text in PROGRAMS.items():
        report = contend(arguments.command, text, ["--machine", arguments.machine, "--seeds", str(arguments.seeds)])
        models = {"simulated": rates(report), "queueing": rates(report, "queueing")}
        for threads, rounds in measured[name].items():
            median = statistics.median(rounds)
            over = {model: figures[threads] / median for model, figures in models.items()}
            for model, ratio in over.items():
                right[model].setdefault(threads, []).append(abs(ratio - 1) <= CLOSE)
            right["covered"].setdefault(threads, []).append(min(over.values()) <= 1 <= max(over.values()))
            stable = sum(abs(rate / median - 1) <= CLOSE for rate in rounds)
            itself.append(stable / len(rounds))
            print(f"| {name} | {threads} | {median / 1e6:.2f} ({min(rounds) / 1e6:.2f}–{max(rounds) / 1e6:.2f}) | "
                  f"{models['simulated'][threads] / 1e6:.2f} | {over['simulated']:.2f} | "
                  f"{models['queueing'][threads] / 1e6:.2f} | {over['queueing']:.2f} | {stable} of {len(rounds)} |")
    print()
    for model, by_threads in right.items():
        parts = [f"{sum(them)} of {len(them)} with {threads} thread{'s' if threads != '1' else ''}"
                 for threads, them in by_threads.items()]
        print(f"{model}{' within 25 %' if model != 'covered' else ' by the range of both'}: {', '.join(parts)}")
    print(f"rounds within 25 % of their own median: {100 * statistics.mean(itself):.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("measure", measure), ("compare", compare)):
        sub = commands.add_parser(name)
        sub.set_defaults(run=run)
        sub.add_argument("--command", default="target/release/coreshard")
        if name == "measure":
            sub.add_argument("--rounds", type=int, default=5)
            sub.add_argument("--into", required=True)
        else:
            sub.add_argument("--machine", required=True)
            sub.add_argument("--with", dest="measured", required=True)
            sub.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()

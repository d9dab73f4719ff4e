#!/usr/bin/env python3
"""Is memory bounded while many threads make very many accesses, and does a sample of them give the same result as all?

Builds lab/many_threads.c for the engine tsan, records it whole and in windows, replays both, and holds the five costliest
lines against each other. Writes what was recorded, how much memory the command took at most, and both lists.

Usage: lab/many_threads.py [PATH-OF-coreshard [THREADS [ROUNDS [SAMPLE [MACHINE]]]]]

A round of a thread is some 70 accesses; 64 threads of 225000 make 10^9, and a recording of about a gigabyte.
"""

import json
import os
import subprocess
import sys
import tempfile


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def most_memory(command):
    """Runs a command. Returns the peak memory of it or of the program that it ran, in MB, and the processor time."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: status {status}")
    return usage.ru_maxrss // 1024, usage.ru_utime + usage.ru_stime


def replayed(command, trace, machine):
    file = trace + ".json"
    memory, seconds = most_memory([command, "replay", trace, "--machine", machine, "--json", file])
    report = json.load(open(file))
    return report, memory, seconds


def main():
    command = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/coreshard")
    threads, rounds, sample, machine = (sys.argv[2:] + ["64", "1000", "20/200", "epyc-9654-2s"][len(sys.argv) - 2:])[:4]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "many_threads.c")
    lists = []
    print("| recorded | accesses | file, MB | recording: memory, MB | replay: processor s | memory, MB | million a second |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "many_threads")
        flags = run([command, "record", "--flags", "c"]).split()
        run(["gcc", "-O2", "-pthread", source, *flags, "-o", program])
        for what, options in (("all", []), (f"sample {sample}", ["--sample", sample])):
            trace = os.path.join(folder, "it.trace")
            memory, _ = most_memory([command, "record", *options, "-o", trace, "--", program, threads, rounds])
            size = os.path.getsize(trace) // 2**20
            report, replay_memory, seconds = replayed(command, trace, machine)
            print(f"| {what} | {report['accesses']:,} | {size} | {memory} | {seconds:.1f} | {replay_memory} | "
                  f"{report['accesses'] / seconds / 1e6:.1f} |")
            lists.append([(line["object"], line["sharing"]) for line in report["lines"][:5]])
            os.remove(trace)
    print(f"\nall: {'; '.join(' '.join(line) for line in lists[0])}\nsample: {'; '.join(' '.join(line) for line in lists[1])}")
    if [name for name, _ in lists[0]] != [name for name, _ in lists[1]]:
        raise SystemExit("the sample has other first five lines, or another order")
        # Only threads that run in the same window can collide: mostly true sharing may be both in a sample, but never the opposite.
    if any({one, other} == {"true", "false"} for (_, one), (_, other) in zip(*lists)):
        raise SystemExit("the sample confuses true and false sharing")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Does a replay predict the gain of a better layout that this machine measures?

Uses the textbook cases of false sharing in lab/padding/: two threads and two counters, in a C struct, as std::atomic, as Rust
atomics, and in an array from the heap. Each case is built unchanged and fixed, and both are run in turns on two CPUs of this
machine. Separate programs calibrate the cost of a cache line between these CPUs, the time for which a CPU keeps it, and the
number of stores that a CPU can buffer while it waits for a line. Both builds also run with one thread, to measure the pace of the
loop. The unchanged program is recorded, and its proposed layout is replayed on the measured machine.

Rounds with an interruption do not count, so other work on the machine costs rounds but does not change the figures. A host may move
the CPUs of a virtual machine, which changes the cost of a line. So both threads add to one word before and after each run, and only
the runs with the longest such times count, provided that there are some of each program: then the CPUs belong to two cores.

Prints a table in Markdown. Fails if a gain is off by more than GOAL.

Usage: lab/predict_padding.py [PATH-OF-coreshard [TURNS]]

Needs two CPUs, gcc, g++, rustc and qemu-x86_64.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

GOAL = 0.25
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "padding")
ROUNDS, TIMES = 100, 20000
RECORDED = 1000000
CASES = {"struct of C": "struct.c", "array from the heap": "array.c", "std::atomic": "atomic.cc", "Rust's atomics": "atomic.rs"}
PLAIN = ("struct of C", "array from the heap")
CALIBRATIONS = {"add to one word": 0, "to and fro": 1, "add to its own": 2, "plain, to its own": 3, "plain, to one word": 4}
# The largest value in a machine's file.
MOST_AHEAD = 4096
# Runs whose adds to one word differ by at most this share were made at the same place on the host.
SAME_PLACE = 0.2
TRIES = 20


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def build(folder, name, source, options):
    """Builds a program from the harness and a source in one of the three languages."""
    program, part = os.path.join(folder, name), os.path.join(folder, name + ".o")
    path = os.path.join(HERE, source)
    if source.endswith(".rs"):
        part = os.path.join(folder, "lib" + name + ".a")
        options = [option.replace("-DMENDED", "--cfg=mended") for option in options]
        run(["rustc", "--edition=2024", "-O", "-g", "--crate-type=staticlib", "-Awarnings", *options, path, "-o", part])
    else:
        run(["g++" if source.endswith(".cc") else "gcc", "-O2", "-g", *options, "-c", path, "-o", part])
    run(["gcc", "-O2", "-g", "-pthread", os.path.join(HERE, "harness.c"), part, "-ldl", "-lm", "-o", program])
    return program


def rounds_of(command_line):
    return [float(line) for line in run(command_line).split()]


def is_near(one, other):
    return abs(one / other - 1) <= SAME_PLACE


class Places:
    """Runs of programs, each with the cost of adds to one word before and after it."""

    def __init__(self, runs):
        self.runs, self.seen, self.last = runs, {key: [] for key in runs}, None

    def mark(self):
        rounds = rounds_of(self.runs["add to one word"])
        return statistics.median(rounds) if rounds else None

    def measure(self, key):
        """Keeps a run during which the host has probably not moved the CPUs."""
        for _ in range(TRIES):
            # The measurement after the last run is also the one before this run.
            before, rounds = self.last or self.mark(), rounds_of(self.runs[key])
            self.last = after = self.mark()
            if before and after and rounds and is_near(before, after):
                self.seen[key].append(((before + after) / 2, rounds))
                return

    def rounds(self):
        """Returns the rounds at the place with the costliest line, among the places that have runs of every program."""
        marks = sorted({mark for runs in self.seen.values() for mark, _ in runs}, reverse=True)
        if not marks:
            raise SystemExit("no run without an interruption; the machine is too busy, or has one CPU")
        for place in marks:
            found = {key: [round for mark, rounds in runs if is_near(mark, place) for round in rounds]
                     for key, runs in self.seen.items()}
            if all(found.values()):
                return found
        raise SystemExit(f"adds to one word take {marks[-1]:.1f} to {marks[0]:.1f} ns: a host moves this machine's CPUs, and "
                         "they did not stay anywhere for long enough; more turns may help")


def without(machine, *tables):
    """Returns a machine's file without these tables of costs."""
    for table in tables:
        machine = re.sub(rf"^\[costs\.{table}\]\n(?:(?!\[).*\n?)*", "", machine, flags=re.M)
    return machine


class Machine:
    """This machine, from `coreshard calibrate`, except for the costs of lines, which are measured here without interruptions."""

    def __init__(self, command, folder, median):
        self.folder, self.file = folder, os.path.join(folder, "here.toml")
        run([command, "calibrate", "--rounds", "1", "-o", self.file])
        # Contention is measured here, and interruptions are excluded.
        self.text = without(open(self.file).read(), "arbitration", "variation")
        # A replay's cost of the loop: two instructions, a quarter of a cycle each.
        self.cycle = float(re.search(r"\[costs.cycle\]\nns = ([\d.]+)", self.text)[1])
        self.loop = 2 * self.cycle / 4
        self.way, atomic, contended = median["to and fro"], median["add to its own"], median["add to one word"]
        # A CPU's turn is the transfer of the line plus the time that the CPU keeps it. It makes as many adds as fit into that
        # time, plus the one that waited.
        room = contended / atomic - 2
        self.hold = max(0.0, (2 * self.way - contended) / room) if room > 0 else 0.0
        self.ahead, self.pace, self.factor = MOST_AHEAD, 0.0, 1.0

    def write(self):
        """Writes its file, with the costs of hits and instructions scaled by `factor`."""
        inner = self.factor * max(self.pace - self.loop, 0.02)
        text = re.sub(r"(\[costs.latency_matrix\]\nns = )\[.*?\n\]",
                      rf"\g<1>[[0.0, {self.way:.2f}], [{self.way:.2f}, 0.0]]", self.text, flags=re.S)
        text = re.sub(r"(\[costs.cycle\]\nns = )[\d.]+", rf"\g<1>{self.factor * self.cycle:.4f}", text)
        text = re.sub(r"(\[costs.atomic\]\nns = )[\d.]+", rf"\g<1>{inner:.4f}", text)
        # A counter's load and its store.
        text = re.sub(r"(\[costs.l1_hit\]\nns = )[\d.]+", rf"\g<1>{inner / 2:.4f}", text)
        text += (f"\n[costs.arbitration]\nhold_ns = {self.hold:.2f}\nloads_take_dirty_lines = true\n"
                 f"stores_ahead = {self.ahead}\nsource = \"measured: two CPUs that add to one word\"\n")
        with open(self.file, "w") as out:
            out.write(text)
        return self.file

    def replayed(self, command, traces):
        """Returns the time of one iteration of the loop."""
        times = [json.loads(run([command, "replay", trace, "--machine", self.write(), "--json", "-"]))["virtual_ns"]
                 for trace in traces]
        return (times[1] - times[0]) / RECORDED

    def fit_pace(self, command, program, more, pace):
        """How much a CPU does at once is the program's: what hits and instructions take, for a replay of `program`, whose
        lines are nobody else's, to take as long as it took."""
        traces = recordings(command, self.folder, program, "own", more)
        self.pace = pace
        low, high = 0.02, 4.0
        for _ in range(12):
            self.factor = (low * high) ** 0.5
            low, high = (self.factor, high) if self.replayed(command, traces) < pace else (low, self.factor)

    def fit_stores(self, command, program, contended):
        """The number of stores ahead with which a replay takes as long as the program took, or nearest to it: more of them
        never make it longer."""
        traces = recordings(command, self.folder, program, "plain")
        times = {}

        def off(ahead):
            if ahead not in times:
                self.ahead = ahead
                times[ahead] = self.replayed(command, traces) - contended
            return times[ahead]

        low, high = 1, MOST_AHEAD
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if off(middle) <= 0 else (middle + 1, high)
        self.ahead = min((max(low - 1, 1), low), key=lambda ahead: abs(off(ahead)))
        if off(1) >= 0:
            return
        # If even a CPU without a store buffer would take less time when it keeps the line as long as with atomics, the line
        # must be kept for a shorter time: a CPU whose stores wait in its buffer gives the line up sooner.
        self.ahead, least, most = 1, 0.0, self.hold
        for _ in range(10):
            self.hold = (least + most) / 2
            least, most = (self.hold, most) if self.replayed(command, traces) > contended else (least, self.hold)


def recordings(command, folder, program, name, more=()):
    """Records this many rounds and twice as many: the difference excludes the start."""
    traces = [os.path.join(folder, f"{name}{times}.trace") for times in (1, 2)]
    for times, trace in zip((1, 2), traces):
        run([command, "record", "--engine", "qemu", "-o", trace, "--", program, "1", str(times * RECORDED), *more])
    return traces


def predicted(command, folder, program, file):
    """Returns the time with the current layout and with the best proposal."""
    found = []
    for trace in recordings(command, folder, program, "it"):
        types = json.loads(run([command, "layout", "--replay", trace, "--machine", file, "--json"]))
        if not types:
            raise SystemExit(f"{program}: no layout was proposed")
        # Layouts that gain less than a hundredth are not proposed.
        best = types[0]["proposals"][0]["after_ns"] if types[0]["proposals"] else types[0]["before_ns"]
        found.append((types[0]["name"], types[0]["before_ns"], best))
    (name, before, after), (_, more_before, more_after) = found
    return name, (more_before - before) / RECORDED, (more_after - after) / RECORDED


def main():
    command = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/coreshard")
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with tempfile.TemporaryDirectory() as folder:
        programs = {}
        for number, (case, source) in enumerate(CASES.items()):
            programs[case, "before"] = build(folder, f"before{number}", source, [])
            programs[case, "mended"] = build(folder, f"mended{number}", source, ["-DMENDED"])
        for name, what in CALIBRATIONS.items():
            programs[name] = build(folder, f"calibration{what}", "calibration.c", [f"-DWHAT={what}"])
        runs = {key: [program, str(ROUNDS), str(TIMES)] for key, program in programs.items()}
        runs.update({(case, what + " alone"): [*runs[case, what], "alone"] for case in CASES for what in ("before", "mended")})
        places = Places(runs)
        for _ in range(turns):
            for key in runs:
                places.measure(key)
        measured = places.rounds()
        median = {key: statistics.median(rounds) for key, rounds in measured.items()}
        here = Machine(command, folder, median)
        here.fit_pace(command, programs["plain, to its own"], (), median["plain, to its own"])
        hold_of_atomics = here.hold
        here.fit_stores(command, programs["plain, to one word"], median["plain, to one word"])
        hold_of_stores = here.hold
        print(f"{turns} turns of {ROUNDS} rounds of {TIMES}; " + "; ".join(
            f"{name} {median[name]:.2f} ns ({len(measured[name])} rounds)" for name in CALIBRATIONS) + f"; kept for {hold_of_atomics:.1f} ns, by plain stores {hold_of_stores:.1f} ns; {here.ahead} stores ahead\n")
        print("| case | named | alone, ns | before, ns | mended, at that pace, ns | gain measured | predicted: before | mended | gain | off by |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        far = []
        for case in CASES:
            alone, before, mended, other = (median[case, what] for what in ("before alone", "before", "mended", "mended alone"))
            # The fixed program is another build, which a single thread may run at another pace: that is not an effect of the layout.
            mended *= alone / other
            here.hold = hold_of_stores if case in PLAIN else hold_of_atomics
            here.fit_pace(command, programs[case, "before"], ("alone",), alone)
            name, now, then = predicted(command, folder, programs[case, "before"], here.write())
            gain, foretold = before / mended, now / max(then, 1e-9)
            off = foretold / gain - 1
            if abs(off) > GOAL:
                far.append(case)
            print(f"| {case} | {name} | {alone:.2f} | {before:.2f} | {mended:.2f} | {gain:.2f} | {now:.2f} | {then:.2f} | {foretold:.2f} | {off:+.0%} |")
    if far:
        raise SystemExit(f"off by more than {GOAL:.0%}: {', '.join(far)}")


if __name__ == "__main__":
    main()

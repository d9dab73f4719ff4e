#!/usr/bin/env python3
"""Compares the simulator with published tables: lab/predictions/*.toml.

    lab/validate.py [--command target/release/coreshard] [--contention target/release/examples/contention]
                    [--only NAME] [--used WAY] [--svg FILE] [--score FILE [--renew]]

Each file is a table: its source, the machine, its use for the model ("fitted": numbers in the machine's file were chosen by it;
"in view": it was known while the model was made; "unseen": neither), and its rows. Predicted figures are printed beside the
published ones. Four things are scored:

- pairs of rows whose published figures differ by more than 10 %: predicted in the same order;
- ratios: a row's figure over that of the table's `over` row (or over the published figure itself, for tables in nanoseconds),
  predicted within 25 %;
- turning points, of tables by the number of threads: the first row within 5 % of the highest throughput, predicted there or at
  a neighbouring row;
- gains of at least 10 %, of tables of variants: their logarithm predicted within half. "No effect" is no gain.

Two models that know less are scored beside the simulator: a flat one, in which the first row's throughput never changes, and the
queueing model of `coreshard contend`, for the programs that it can express. A model that is worth its effort beats both. For
these programs, it is also said how many published figures lie within the range of the seeds and of the queueing model.

A score file has a line for each table with the simulator's score. With --score, exits with status 1 if a table scores less than
its line, has no line, or no longer exists; --renew writes the file.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

CLOSE = 0.25
TOGETHER = 0.10
TOP = 0.95
# A gain's logarithm is right within this share of the published one.
GAIN = 0.5
# The first thread to arrive is random, and may decide between two self-sustaining patterns.
SEEDS = 5
# A prediction that takes more CPU time fails: all its ratios are wrong. CPU time does not depend on other work of the machine.
LIMIT_CPU_S = 600
WAYS = ("fitted", "in view", "unseen")


class TakesTooLong(Exception):
    pass


def run(command):
    done = subprocess.run(["prlimit", f"--cpu={LIMIT_CPU_S}", *command], capture_output=True, text=True)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise TakesTooLong
    done.check_returncode()
    return done.stdout


def contention(table, program):
    """Returns a curve for each seed."""
    command = [program, table["machine"], "--operation", table["operation"]]
    command += ["--threads", ",".join(row["at"] for row in table["row"])]
    if "outside_ns" in table:
        command += ["--outside", str(table["outside_ns"])]
    command += [f"--{flag}" for flag in ("everyone", "scattered") if table.get(flag)]
    runs = [run([*command, "--seed", str(seed)]).split() for seed in range(1, 1 + SEEDS)]
    return [[float(word.split(":")[1]) for word in words if ":" in word] for words in runs]


@cache
def kernel(program, name, machine, threads):
    command = [program, "bench", "kernel", name, "--machine", machine, "--json", "-"]
    cells = json.loads(run([*command, "--threads", str(threads)]))["results"]
    return {f"{cell['setting']} {cell['variant']}": cell["ops_per_sec"] for cell in cells}


@cache
def transcode(program, machine, stage_us):
    """Frames per second by the priority index's rung."""
    command = [program, "bench", "rt", "transcode", "--sim", "--machine", machine, "--costs", "in-kernel", "--frames", "20"]
    command += ["--stage-us", str(stage_us), "--variants", "packed,padded,split,per-llc", "--priority", "99", "--json", "-"]
    return {each["variant"]: each["frames_per_sec"] for each in json.loads(run(command))}


def predictions(table, arguments):
    """Returns the figures of each run."""
    try:
        if table["program"] == "contention":
            return contention(table, arguments.contention)
        if table["program"] == "transcode":
            frames = transcode(arguments.command, table["machine"], table["stage_us"])
            return [[frames[row["at"]] for row in table["row"]]]
        cells = kernel(arguments.command, table["program"], table["machine"], table["threads"])
        return [[cells[row["at"]] for row in table["row"]]]
    except TakesTooLong:
        return [[float("nan") for _ in table["row"]]]


def medians(curves):
    return [statistics.median(points) for points in zip(*curves)]


def covered(published, curves):
    """Returns how many published figures are within the range of these predictions."""
    return sum(min(points) <= truth <= max(points) for truth, points in zip(published, zip(*curves)))


# The descriptions of the contention programs, for `coreshard contend`. A program that is missing here is not expressible.
FIVE = '["a", "b", "c", "d", "e"]'
STEPS = {
    "atomic add": '{ add = "word" }',
    "compare-exchange loop": '{ cas = "word" }',
    "ticket lock": '{ ticket-lock = "word", writes = ["count"] }',
    "spin lock": '{ spin-lock = "word", retry = "at-once", writes = ["count"] }',
    "spin lock with pause": '{ spin-lock = "word", writes = ["count"] }',
    "mutex": '{ mutex = "word", writes = ["owner", "count"] }',
    "mutex with its data": '{ mutex = "word", writes = ["owner"] }',
    "mutex of three states": '{ mutex = "word", writes = ["count"] }',
    "mutex over five lines": '{ mutex = "word", writes = ["owner", "a", "b", "c", "d", "e"] }',
    "micro spin lock over five lines": f'{{ spin-lock = "word", writes = {FIVE} }}',
    "five adds": ", ".join(f'{{ add = "{word}" }}' for word in "abcde"),
    "reader of a spin lock": '{ read-lock = "word" }',
    "writer of a spin lock": '{ write-lock = "word", writes = ["other"] }',
}


def by_queueing(table, program):
    """The queueing model's figures; None if it cannot express the program."""
    steps = STEPS.get(table.get("operation"))
    if table["program"] != "contention" or steps is None:
        return None
    threads = [int(row["at"]) for row in table["row"]]
    placement = "spread" if table.get("scattered") else f"0-{max(threads) - 1}"
    text = f"""
lines = [["word", "owner", "other"]]
outside_ns = {table.get("outside_ns", 0)}
placement = "{placement}"
steps = [{steps}]
"""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        command = [program, "contend", file.name, "--machine", table["machine"], "--model", "queueing", "--json"]
        report = json.loads(run([*command, "--threads", ",".join(map(str, threads))]))
    per_sec = {point["threads"]: point["queueing"]["per_sec"] for point in report["points"]}
    return [count * 1e9 / per_sec[count] for count in threads]


def is_by_threads(table):
    return table["program"] == "contention" and all(row["at"].isdecimal() for row in table["row"])


def is_per_thread(table):
    """Whether the figures are nanoseconds per operation and thread; those of queues are per message."""
    return is_by_threads(table) and not table["operation"].startswith(("queue by", "queue under", "round trip"))


def flat(table, published):
    """The figures if the first row's throughput never changed."""
    if not is_per_thread(table):
        return [published[0] for _ in published]
    threads = [int(row["at"]) for row in table["row"]]
    return [published[0] * count / threads[0] for count in threads]


def pairs(published, predicted):
    """Returns how many pairs are in the right order, and of how many."""
    both = [(i, j) for i in range(len(published)) for j in range(i)]
    apart = [(i, j) for i, j in both if max(published[i], published[j]) > (1 + TOGETHER) * min(published[i], published[j])]
    return sum((predicted[i] - predicted[j]) * (published[i] - published[j]) > 0 for i, j in apart), len(apart)


def ratios(table, published, predicted):
    """Returns the relative error of each ratio. The row that others are compared with has none."""
    over = table.get("over")
    if over is None:
        return [guess / truth - 1 for guess, truth in zip(predicted, published)]
    at = [row["at"] for row in table["row"]].index(over)
    both = [pair for place, pair in enumerate(zip(predicted, published)) if place != at]
    return [(guess / predicted[at]) / (truth / published[at]) - 1 for guess, truth in both]


def turning_point(table, figures):
    """The first row within 5 % of the highest throughput."""
    threads = [int(row["at"]) for row in table["row"]]
    throughput = [(count if is_per_thread(table) else 1) / ns for count, ns in zip(threads, figures)]
    return next((at for at, it in enumerate(throughput) if it >= TOP * max(throughput)), len(figures))


def turns(table, published, predicted):
    """Returns whether the turning point is right, and whether there is one."""
    if not is_by_threads(table) or len(published) < 3:
        return 0, 0
    return int(abs(turning_point(table, published) - turning_point(table, predicted)) <= 1), 1


def gains(table, published, predicted):
    """Returns how many gains are right, and of how many."""
    if is_by_threads(table) or table.get("over") is None:
        return 0, 0
    at = [row["at"] for row in table["row"]].index(table["over"])
    gain = lambda figures, row: math.log(figures[row] / figures[at])  # noqa: E731
    real = [row for row in range(len(published)) if abs(gain(published, row)) >= math.log(1 + TOGETHER)]
    return sum(abs(gain(predicted, row) / gain(published, row) - 1) <= GAIN for row in real), len(real)


@dataclass
class Score:
    """How much of a table is right, and of how much."""

    pairs: int = 0
    of_pairs: int = 0
    close: int = 0
    of_close: int = 0
    turns: int = 0
    of_turns: int = 0
    gains: int = 0
    of_gains: int = 0

    @classmethod
    def of(cls, table, published, predicted):
        off = ratios(table, published, predicted)
        close = sum(abs(part) <= CLOSE for part in off)
        return cls(*pairs(published, predicted), close, len(off), *turns(table, published, predicted),
                   *gains(table, published, predicted))

    def __add__(self, other):
        return Score(*(one + two for one, two in zip(astuple(self), astuple(other))))

    def loses_to(self, held):
        return self.pairs < held.pairs or self.close < held.close or self.turns < held.turns or self.gains < held.gains

    def is_like(self, held):
        return astuple(self)[1::2] == astuple(held)[1::2]

    def __str__(self):
        parts = [(self.pairs, self.of_pairs, "pairs"), (self.close, self.of_close, "ratios"),
                 (self.turns, self.of_turns, "turning points"), (self.gains, self.of_gains, "gains")]
        return ", ".join(f"{right} of {count} {what}" for right, count, what in parts if count)


def scatter(points, path):
    colours = {"fitted": "#999", "in view": "#3b78c2", "unseen": "#c2503b"}
    dots = "".join(
        f'<circle cx="{100 + 100 * math.log10(truth):.1f}" cy="{900 - 100 * math.log10(guess):.1f}" r="4" fill="{colours[used]}"/>'
        for used, truth, guess in points if guess > 0)
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 960"><line x1="100" y1="900" x2="900" y2="100" '
        f'stroke="#ccc"/>{dots}<text x="100" y="940">published (decades), predicted upwards; grey: fitted, blue: in view, '
        'red: unseen</text></svg>\n')


HEADINGS = ["table", "used", "pairs", "of", "ratios within 25 %", "of", "turning points", "of", "gains", "of"]


def read_score(path):
    lines = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return {name: (used, Score(*map(int, numbers))) for name, used, *numbers in lines}


def write_score(path, scores):
    rows = [HEADINGS, *([name, used, *map(str, astuple(score))] for name, (used, score) in sorted(scores.items()))]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def worse(scores, held, are_all):
    """Reports tables that were better before, or that cannot be compared."""
    if are_all:
        yield from (f"{name}: the table no longer exists" for name in held if name not in scores)
    for name, (used, score) in scores.items():
        if name not in held:
            yield f"{name}: it has no line"
            continue
        used_once, before = held[name]
        if used != used_once or not score.is_like(before):
            yield f"{name}: the table differs from that of its line"
        elif score.loses_to(before):
            yield f"{name}: {score}; before: {before}"


def read_table(path):
    """Reads a table. Exits with a message if it is invalid."""
    table = tomllib.loads(path.read_text())
    wrong = f"lab/validate.py: {path.name}: "
    if table.get("used") not in WAYS:
        sys.exit(f"{wrong}used is {table.get('used')!r}: expected one of {', '.join(WAYS)}")
    for row in table["row"]:
        if not (math.isfinite(row["published"]) and row["published"] > 0):
            sys.exit(f"{wrong}{row['at']}: published is {row['published']}: expected a figure above 0")
    if table.get("over", table["row"][0]["at"]) not in [row["at"] for row in table["row"]]:
        sys.exit(f"{wrong}over is {table['over']!r}: expected the name of a row")
    return table


def shown(table, figures):
    """Turns the figures of a table into ratios if the published figures are ratios."""
    over = table.get("over")
    if over is None:
        return figures
    at = [row["at"] for row in table["row"]].index(over)
    return [figure / figures[at] for figure in figures] if table["row"][at]["published"] == 1 else figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="target/release/coreshard")
    parser.add_argument("--contention", default="target/release/examples/contention")
    parser.add_argument("--only", default="")
    parser.add_argument("--used", choices=WAYS)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--score", type=Path)
    parser.add_argument("--renew", action="store_true")
    arguments = parser.parse_args()
    held = {}
    if arguments.score and (arguments.score.exists() or not arguments.renew):
        held = read_score(arguments.score)
    paths = sorted(Path(__file__).with_name("predictions").glob("*.toml"))
    tables = {path.stem: read_table(path) for path in paths if arguments.only in path.stem}
    tables = {name: table for name, table in tables.items() if arguments.used in (None, table["used"])}
    if not tables:
        sys.exit("lab/validate.py: no table has this name and use")
    are_all = len(tables) == len(paths)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            all_runs = list(pool.map(lambda table: predictions(table, arguments), tables.values()))
        all_queueing = [by_queueing(table, arguments.command) for table in tables.values()]
    except subprocess.CalledProcessError as error:
        sys.exit(f"lab/validate.py: {' '.join(map(str, error.cmd))}: {error.stderr}")
    scores, points = {}, []
    # By model, and by what its tables are: each use; and by the queueing model's tables, for the simulator also.
    sums = {way: {model: Score() for model in ("simulator", "flat", "queueing", "simulator there")} for way in WAYS}
    within = dict.fromkeys(WAYS, (0, 0))
    for (name, table), runs, queueing in zip(tables.items(), all_runs, all_queueing):
        published = [float(row["published"]) for row in table["row"]]
        predicted = shown(table, medians(runs))
        queueing = None if queueing is None else shown(table, queueing)
        score, used = Score.of(table, published, predicted), table["used"]
        print(f"\n{name} ({used}): {table['title']}")
        for at, (row, truth, guess) in enumerate(zip(table["row"], published, predicted)):
            digits = 1 if truth >= 10 else 3
            beside = "" if queueing is None else f"  queueing {queueing[at]:>12,.{digits}f}  {queueing[at] / truth:.2f}"
            print(f"  {row['at']:>24}  published {truth:>12,.{digits}f}  predicted {guess:>12,.{digits}f}  {guess / truth:.2f}"
                  + beside)
        print(f"  {score}")
        scores[name] = (used, score)
        sums[used]["simulator"] += score
        sums[used]["flat"] += Score.of(table, published, flat(table, published))
        if queueing is not None:
            sums[used]["queueing"] += Score.of(table, published, queueing)
            sums[used]["simulator there"] += score
            inside, rows = within[used]
            curves = [*(shown(table, run) for run in runs), queueing]
            within[used] = inside + covered(published, curves), rows + len(published)
        points += [(used, truth, guess) for truth, guess in zip(published, predicted)]
    print()
    for way, models in sums.items():
        for model, score in models.items():
            if score.of_pairs or score.of_close:
                print(f"{way}, {model}: {score}")
    for way, (inside, rows) in within.items():
        if rows:
            print(f"{way}, published figures within the range of both models: {inside} of {rows}")
    if arguments.svg:
        scatter(points, arguments.svg)
    if arguments.score:
        if arguments.renew:
            write_score(arguments.score, scores if are_all else held | scores)
        elif lost := list(worse(scores, held, are_all)):
            sys.exit("less than the score held: " + "; ".join(lost))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares the simulator with published tables: lab/predictions/*.toml.

    lab/validate.py [--command target/release/coreshard] [--contention target/release/examples/contention]
                    [--only NAME] [--used WAY] [--svg FILE] [--score FILE [--renew]]

Each file is a table: its source, the machine, its use for the model ("fitted": numbers in the machine's file were chosen by it;
"in view": it was known while the model was made; "unseen": neither), and its rows. Predicted figures are printed beside the
published ones. A table's rank order is right if the prediction reverses no two rows whose published figures differ by more than
10 %; without such rows, a table has no rank order. A ratio is a row's figure over that of the table's `over` row (or over the
published figure itself, for tables in nanoseconds). The last lines are the scores, one for each use of tables.

A score file has a line for each table: its name, its use, whether its rank order is right, how many ratios are within 25 %, and of
how many. With --score, exits with status 1 if a table scores less than its line, has no line, or no longer exists; --renew writes
the file.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

CLOSE = 0.25
TOGETHER = 0.10
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
    command = [program, table["machine"], "--operation", table["operation"]]
    command += ["--threads", ",".join(row["at"] for row in table["row"])]
    if "outside_ns" in table:
        command += ["--outside", str(table["outside_ns"])]
    command += [f"--{flag}" for flag in ("everyone", "scattered") if table.get(flag)]
    runs = [run([*command, "--seed", str(seed)]).split() for seed in range(1, 1 + SEEDS)]
    curves = [[float(word.split(":")[1]) for word in words if ":" in word] for words in runs]
    return [statistics.median(points) for points in zip(*curves)]


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
    try:
        if table["program"] == "contention":
            return contention(table, arguments.contention)
        if table["program"] == "transcode":
            frames = transcode(arguments.command, table["machine"], table["stage_us"])
            return [frames[row["at"]] for row in table["row"]]
        cells = kernel(arguments.command, table["program"], table["machine"], table["threads"])
        return [cells[row["at"]] for row in table["row"]]
    except TakesTooLong:
        return [float("nan") for _ in table["row"]]


def ranks_are_right(published, predicted):
    """None if the published figures have no order."""
    pairs = [(i, j) for i in range(len(published)) for j in range(i)]
    apart = [(i, j) for i, j in pairs if max(published[i], published[j]) > (1 + TOGETHER) * min(published[i], published[j])]
    if not apart:
        return None
    return all((predicted[i] - predicted[j]) * (published[i] - published[j]) > 0 for i, j in apart)


def ratios(table, published, predicted):
    """Returns the relative error of each ratio. The row that others are compared with has none."""
    over = table.get("over")
    if over is None:
        return [guess / truth - 1 for guess, truth in zip(predicted, published)]
    at = [row["at"] for row in table["row"]].index(over)
    pairs = [pair for place, pair in enumerate(zip(predicted, published)) if place != at]
    return [(guess / predicted[at]) / (truth / published[at]) - 1 for guess, truth in pairs]


def scatter(points, path):
    colours = {"fitted": "#999", "in view": "#3b78c2", "unseen": "#c2503b"}
    dots = "".join(
        f'<circle cx="{100 + 100 * math.log10(truth):.1f}" cy="{900 - 100 * math.log10(guess):.1f}" r="4" fill="{colours[used]}"/>'
        for used, truth, guess in points if guess > 0)
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 960"><line x1="100" y1="900" x2="900" y2="100" '
        f'stroke="#ccc"/>{dots}<text x="100" y="940">published (decades), predicted upwards; grey: fitted, blue: in view, '
        'red: unseen</text></svg>\n')


RANKS = {"right": True, "wrong": False, "none": None}


def word(right):
    return next(word for word, value in RANKS.items() if value is right)


def read_score(path):
    lines = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return {name: (used, RANKS[rank], int(close), int(count)) for name, used, rank, close, count in lines}


def write_score(path, scores):
    lines = [f"{name}\t{used}\t{word(right)}\t{close}\t{count}\n"
             for name, (used, right, close, count) in sorted(scores.items())]
    path.write_text("table\tused\trank order\tratios within 25 %\tof\n" + "".join(lines))


def worse(scores, held, are_all):
    """Reports tables that were better before, or that cannot be compared."""
    if are_all:
        yield from (f"{name}: the table no longer exists" for name in held if name not in scores)
    for name, (used, right, close, count) in scores.items():
        if name not in held:
            yield f"{name}: it has no line"
            continue
        used_once, right_once, close_once, count_once = held[name]
        if (used, right is None, count) != (used_once, right_once is None, count_once):
            yield f"{name}: the table differs from that of its line"
        elif (right_once and not right) or close < close_once:
            yield f"{name}: rank order {word(right)}, {close} of {count} ratios"


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
            all_predicted = list(pool.map(lambda table: predictions(table, arguments), tables.values()))
    except subprocess.CalledProcessError as error:
        sys.exit(f"lab/validate.py: {' '.join(map(str, error.cmd))}: {error.stderr}")
    scores, points = {}, []
    for (name, table), predicted in zip(tables.items(), all_predicted):
        published = [float(row["published"]) for row in table["row"]]
        predicted = shown(table, predicted)
        right, off = ranks_are_right(published, predicted), ratios(table, published, predicted)
        print(f"\n{name} ({table['used']}): {table['title']}")
        for row, truth, guess in zip(table["row"], published, predicted):
            digits = 1 if truth >= 10 else 3
            print(f"  {row['at']:>24}  published {truth:>12,.{digits}f}  predicted {guess:>12,.{digits}f}  {guess / truth:.2f}")
        close = sum(abs(part) <= CLOSE for part in off)
        order = word(right) if right is not False else "WRONG"
        print(f"  rank order {order}; {close} of {len(off)} ratios within 25 %")
        scores[name] = (table["used"], right, close, len(off))
        points += [(table["used"], truth, guess) for truth, guess in zip(published, predicted)]
    print()
    for way in WAYS:
        of_way = [score for score in scores.values() if score[0] == way]
        ranks = [right for _, right, _, _ in of_way if right is not None]
        close, count = sum(score[2] for score in of_way), sum(score[3] for score in of_way)
        print(f"{way}: rank order right in {sum(ranks)} of {len(ranks)} tables, {close} of {count} ratios within 25 %")
    if arguments.svg:
        scatter(points, arguments.svg)
    if arguments.score:
        if arguments.renew:
            write_score(arguments.score, scores if are_all else held | scores)
        elif lost := list(worse(scores, held, are_all)):
            sys.exit("less than the score held: " + "; ".join(lost))


if __name__ == "__main__":
    main()

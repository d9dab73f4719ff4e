#!/usr/bin/env python3
"""Holds the simulator against published tables: lab/predictions/*.toml.

    lab/validate.py [--command target/release/coreshard] [--contention target/release/examples/contention]
                    [--only NAME] [--svg FILE] [--least-ranks SHARE] [--least-ratios SHARE]

Each file is a table: where it was published, on which machine, what of it served the model ("fitted": numbers of the machine's
file were chosen by it; "in view": it was known while the model was made; "unseen": neither), and its rows. Predicted figures
stand beside published ones. A table's rank order is right where no two rows that differ by more than 10 % as published stand
the other way round; a ratio is each row's over the table's `over` row (or over the published figure itself, for tables in
nanoseconds). The last lines are the score, for each way in which tables were used. Ends with status 1 where the tables that
were not fitted score less than is asked for.
"""
import argparse
import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

CLOSE = 0.25
TOGETHER = 0.10


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@cache
def contention(program, machine):
    found = {}
    for line in run([program, machine]).splitlines():
        words = line.split()
        points = [word.split(":") for word in words if ":" in word]
        name = " ".join(word for word in words if ":" not in word)
        found[name] = {int(cpus): float(ns) for cpus, ns in points}
    return found


@cache
def kernel(program, name, machine, threads):
    command = [program, "bench", "kernel", name, "--machine", machine, "--json", "-"]
    cells = json.loads(run([*command, "--threads", str(threads)]))["results"]
    return {f"{cell['setting']} {cell['variant']}": cell["ops_per_sec"] for cell in cells}


def predictions(table, arguments):
    if table["program"] == "contention":
        curve = contention(arguments.contention, table["machine"])[table["operation"]]
        return [curve[int(row["at"])] for row in table["row"]]
    cells = kernel(arguments.command, table["program"], table["machine"], table["threads"])
    return [cells[row["at"]] for row in table["row"]]


def ranks_are_right(published, predicted):
    pairs = [(i, j) for i in range(len(published)) for j in range(i)]
    apart = [(i, j) for i, j in pairs if abs(published[i] / published[j] - 1) > TOGETHER]
    return all((published[i] > published[j]) == (predicted[i] > predicted[j]) for i, j in apart)


def ratios(table, published, predicted):
    """How far each ratio is off, as a part; the row that others are held against has none."""
    over = table.get("over")
    if over is None:
        return [guess / truth - 1 for guess, truth in zip(predicted, published)]
    at = [row["at"] for row in table["row"]].index(over)
    pairs = [pair for place, pair in enumerate(zip(predicted, published)) if place != at]
    return [(guess / predicted[at]) / (truth / published[at]) - 1 for guess, truth in pairs]


def scatter(points, path):
    from math import log10
    colours = {"fitted": "#999", "in view": "#3b78c2", "unseen": "#c2503b"}
    dots = "".join(
        f'<circle cx="{100 + 100 * log10(truth):.1f}" cy="{900 - 100 * log10(guess):.1f}" r="4" fill="{colours[used]}"/>'
        for used, truth, guess in points if truth > 0 and guess > 0)
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 960"><line x1="100" y1="900" x2="900" y2="100" '
        f'stroke="#ccc"/>{dots}<text x="100" y="940">published (decades), predicted upwards; grey: fitted, blue: in view, '
        'red: unseen</text></svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="target/release/coreshard")
    parser.add_argument("--contention", default="target/release/examples/contention")
    parser.add_argument("--only", default="")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--least-ranks", type=float, default=0.0)
    parser.add_argument("--least-ratios", type=float, default=0.0)
    arguments = parser.parse_args()
    scores, points = {}, []
    for path in sorted(Path(__file__).with_name("predictions").glob("*.toml")):
        if arguments.only not in path.stem:
            continue
        table = tomllib.loads(path.read_text())
        published = [float(row["published"]) for row in table["row"]]
        predicted = predictions(table, arguments)
        right, off = ranks_are_right(published, predicted), ratios(table, published, predicted)
        print(f"\n{path.stem} ({table['used']}): {table['title']}")
        for row, truth, guess in zip(table["row"], published, predicted):
            print(f"  {row['at']:>24}  published {truth:>12,.1f}  predicted {guess:>12,.1f}")
        close = sum(abs(part) <= CLOSE for part in off)
        print(f"  rank order {'right' if right else 'WRONG'}; {close} of {len(off)} ratios within 25 %")
        score = scores.setdefault(table["used"], [0, 0, 0, 0])
        for place, more in enumerate((1, right, len(off), close)):
            score[place] += more
        points += [(table["used"], truth, guess) for truth, guess in zip(published, predicted)]
    print()
    for used, (tables, right, count, close) in sorted(scores.items()):
        print(f"{used}: rank order right in {right} of {tables} tables, {close} of {count} ratios within 25 %")
    if arguments.svg:
        scatter(points, arguments.svg)
    held_out = [score for used, score in scores.items() if used != "fitted"]
    tables, right, count, close = (sum(column) for column in zip(*held_out)) if held_out else (1, 1, 1, 1)
    if right / tables < arguments.least_ranks or close / count < arguments.least_ratios:
        sys.exit(f"the score of tables that were not fitted is less than asked for: {right / tables:.2f}, {close / count:.2f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Scores the simulator without each parameter of `[costs.arbitration]`, and counts the keys of machine files.

    lab/parameters.py [--contention target/release/examples/contention] [--seeds N] [--keys LIST] [--rows]

For each key, every machine file of lab/predictions is rewritten without it (a missing key is 0 or false), and the tables of
contention programs whose machine has it are predicted again. A key whose line is no worse than that of the whole model says
nothing about these tables. The files are rewritten in a temporary folder.
"""
import argparse
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import validate

ROOT = Path(__file__).resolve().parent.parent
KEYS = ("hold_ns", "locked_ns", "request_ns", "reach_ns", "far_atomic_ns",
        "loads_take_dirty_lines", "load_and_store_exclusive", "pair_prefetch", "misses_at_once")
# Parts of keys that are not numbers of the machine.
NO_NUMBERS = ("source", "title", "synthetic")


def without(text, key):
    return re.sub(rf"^{key} = .*\n", "", text, flags=re.MULTILINE)


def keys_of(text):
    """The number of keys with a number or a flag, each named once."""
    found = re.findall(r"^(\w+) = (?!\{)", text, re.MULTILINE) + re.findall(r"^(\w+) = \{", text, re.MULTILINE)
    found = [key for key in found if key not in (*NO_NUMBERS, "ns")]
    # A table with only a source stands for typical numbers.
    return len({*found, *re.findall(r"^\[costs\.(\w+)\]\n(?:ns|source)", text, re.MULTILINE)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contention", default="target/release/examples/contention")
    parser.add_argument("--seeds", type=int, default=validate.SEEDS)
    parser.add_argument("--keys", default=",".join(KEYS))
    parser.add_argument("--rows", action="store_true")
    arguments = parser.parse_args()
    validate.SEEDS = arguments.seeds
    asked = SimpleNamespace(contention=arguments.contention, command=None)
    paths = sorted((ROOT / "lab/predictions").glob("*.toml"))
    tables = {path.stem: validate.read_table(path) for path in paths}
    tables = {name: table for name, table in tables.items() if table["program"] == "contention"}
    texts = {table["machine"]: (ROOT / table["machine"]).read_text() for table in tables.values()}
    for machine, text in texts.items():
        print(f"{Path(machine).stem}: {keys_of(text)} keys", flush=True)

    def predicted(change, which):
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            for machine, text in texts.items():
                (Path(folder) / Path(machine).name).write_text(change(text))
            moved = [table | {"machine": str(Path(folder) / Path(table["machine"]).name)} for table in which.values()]
            return dict(zip(which, pool.map(lambda table: validate.medians(validate.predictions(table, asked)), moved)))

    def sums(figures):
        scores = {way: validate.Score() for way in validate.WAYS}
        for name, table in tables.items():
            published = [float(row["published"]) for row in table["row"]]
            scores[table["used"]] += validate.Score.of(table, published, validate.shown(table, figures[name]))
        return scores

    def row(name, count, figures):
        cells = [f"{score.pairs}, {score.close}, {score.turns}" for score in sums(figures).values()]
        print(f"| {name} | {count} | " + " | ".join(cells) + " |", flush=True)

    of = {way: sum(table["used"] == way for table in tables.values()) for way in validate.WAYS}
    print("\n| without | tables | " + " | ".join(f"{way} ({count} tables): pairs, ratios, turning points" for way, count in of.items())
          + " |\n|---|--:|" + "---|" * len(of))
    whole = predicted(lambda text: text, tables)
    row("–", len(tables), whole)
    if arguments.rows:
        for name, figures in whole.items():
            table = tables[name]
            published = [float(it["published"]) for it in table["row"]]
            each = " ".join(f"{it['at']}:{truth:g}:{guess / truth:.2f}" for it, truth, guess in
                            zip(table["row"], published, validate.shown(table, figures)))
            print(f"# {name} ({table['used']}): {each}", file=sys.stderr)
    for key in arguments.keys.split(","):
        has = {machine for machine, text in texts.items() if without(text, key) != text}
        which = {name: table for name, table in tables.items() if table["machine"] in has}
        try:
            row(key, len(which), whole | predicted(lambda text: without(text, key), which))
        except validate.subprocess.CalledProcessError as error:
            print(f"| {key} | {len(which)} | {error.stderr.strip()} |", flush=True)


if __name__ == "__main__":
    main()

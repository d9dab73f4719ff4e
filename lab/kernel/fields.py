#!/usr/bin/env python3
"""Prints where replays' reports have some fields: the place of each field's line among all, its cost, and who shares it.

Usage: fields.py REPORT.json... FIELD...

Reports are made by `coreshard replay --json`; of several, a table has a column for each. A field is a part of a path, such as
pri_to_cpu[0].count.
"""

import json
import sys


def main(paths, wanted):
    reports = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    if len(reports) > 1:
        side_by_side(paths, reports, wanted)
    for report in reports if len(reports) == 1 else []:
        one(report, wanted)


def one(report, wanted):
    lines, whole = report["lines"], cost(report)
    print(f"{report['machine']}: {report['accesses']:,} accesses, {report['shared_lines']:,} shared lines")
    print(f"of the cost of the first 20 lines, {named(report):.0f} % has a type or a symbol, and a field")
    print(f"{'line':>4}  {'cost µs':>9}  {'share':>6}  {'false':>6}  {'CPUs':>4}  field, in object")
    for field in wanted:
        found = [number for number, line in enumerate(lines) if has(line, field)]
        for number in found[:4]:
            line = lines[number]
            both = (line["true_ns"] + line["false_ns"]) or 1.0
            threads = set()
            for word in line["words"]:
                if field in word["field"]:
                    threads.update(word["threads"])
            print(
                f"{number + 1:>4}  {line['cost_ns'] / 1000:>9.1f}  {100 * line['cost_ns'] / whole:>5.1f}%  "
                f"{100 * line['false_ns'] / both:>5.0f}%  {len(threads):>4}  {field}, in {line['object']}"
            )
        if not found:
            print(f"   –  {'–':>9}  {'–':>6}  {'–':>6}  {'–':>4}  {field}: not among the first {len(lines)} lines")


def side_by_side(paths, reports, wanted):
    """Each field's first line in each report, and its share of the cost of all objects."""
    width = max(len(field) for field in wanted)
    heads = [path.split("/")[-2] for path in paths]
    print(f"{'field':<{width}}" + "".join(f"  {head:>16}" for head in heads))
    for field in wanted:
        row = f"{field:<{width}}"
        for report in reports:
            found = [number for number, line in enumerate(report["lines"]) if has(line, field)]
            text = "–"
            if found:
                text = f"{found[0] + 1} ({100 * report['lines'][found[0]]['cost_ns'] / cost(report):.1f} %)"
            row += f"  {text:>16}"
        print(row)
    print(f"{'named':<{width}}" + "".join(f"  {named(report):>14.0f} %" for report in reports))


def cost(report):
    return sum(item["cost_ns"] for item in report["objects"]) or 1.0


def named(report):
    """The part of the first 20 lines' cost that has a type or a symbol, and a field, in percent."""
    first = report["lines"][:20]
    whole = sum(line["cost_ns"] for line in first) or 1.0
    return 100 * sum(line["cost_ns"] for line in first if is_named(line)) / whole


def has(line, field):
    return any(field in word["field"] for word in line["words"])


def is_named(line):
    """Whether the object is known, and a field of it where it has any."""
    is_known = "unknown origin" not in line["object"] and not line["object"].endswith(" object")
    costliest = max(line["words"], key=lambda word: word["misses"], default=None)
    return is_known and costliest is not None and not costliest["field"].startswith("+")


if __name__ == "__main__":
    files = [word for word in sys.argv[1:] if word.endswith(".json")]
    fields = [word for word in sys.argv[1:] if not word.endswith(".json")]
    if not files or not fields:
        sys.exit(__doc__)
    main(files, fields)

#!/usr/bin/env python3
"""Prints where a replay's report has some fields: the place of each field's line among all, its cost, and who shares it.

Usage: fields.py REPORT.json FIELD...

REPORT is made by `coreshard replay --json`. A field is a part of a path, such as pri_to_cpu[0].count.
"""

import json
import sys


def main(path, wanted):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    lines = report["lines"]
    whole = sum(item["cost_ns"] for item in report["objects"]) or 1.0
    print(f"{report['machine']}: {report['accesses']:,} accesses, {report['shared_lines']:,} shared lines")
    named = sum(line["cost_ns"] for line in lines[:20] if is_named(line))
    first = sum(line["cost_ns"] for line in lines[:20]) or 1.0
    print(f"of the cost of the first 20 lines, {100 * named / first:.0f} % has a type or a symbol, and a field")
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


def has(line, field):
    return any(field in word["field"] for word in line["words"])


def is_named(line):
    """Whether the object is known, and a field of it where it has any."""
    is_known = "unknown origin" not in line["object"] and not line["object"].endswith(" object")
    costliest = max(line["words"], key=lambda word: word["misses"], default=None)
    return is_known and costliest is not None and not costliest["field"].startswith("+")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])

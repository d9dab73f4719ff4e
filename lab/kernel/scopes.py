#!/usr/bin/env python3
"""Prints the predicted speed of each affinity scope beside the published one, and where the lines of its counts stand; then how
long pools' locks are held, and the gain if a worker is woken after the unlock.

Usage: scopes.py FOLDER ITEMS

FOLDER has the replays workqueue-SCOPE.json and workqueue-SCOPE-early.json; ITEMS is how many items all CPUs queued in each.
"""

import json
import os
import statistics
import sys

SCOPES = ["cpu", "smt", "cache_shard", "cache", "numa", "system"]
# One NVIDIA Grace, 72 CPUs behind one cache; items a second.
PUBLISHED = {"cpu": 3_433_158, "cache_shard": 2_939_917, "cache": 602_096}
# The same machine: gains of waking after the unlock, in percent, of the first version with 8 producers and as merged.
GAINS = {"cpu": (17.9, -2.6), "cache_shard": (39.4, 7.5), "cache": (34.7, 10.8), "system": (17.2, 10.7)}
FIELDS = [
    ("node's nr_active", "struct wq_node_nr_active", "nr"),
    ("queue's nr_active", "struct pool_workqueue", "nr_active"),
]


def main(folder, items):
    reports, early = read(folder, ""), read(folder, "-early")
    speeds = {scope: items * 1e9 / time(report) for scope, report in reports.items()}
    heads = ", ".join(head for head, _, _ in FIELDS)
    print(
        f"{'scope':<12} {'items/s':>10} {'/ cache':>8} {'published':>10} {'/ cache':>8} {'waiting':>8}  place of pool lock among "
        f"locks; line of {heads}"
    )
    for scope, report in reports.items():
        known = PUBLISHED.get(scope)
        # Time that the CPUs waited for the pools' locks, of their time.
        waited = sum(lock["waited_ns"] for lock in pool_locks(report))
        whole = sum(thread["ended_ns"] for thread in report["threads"]) or 1.0
        places = [str(place(report, of, field) or "–") for _, of, field in FIELDS]
        print(
            f"{scope:<12} {speeds[scope]:>10,.0f} {ratio(speeds, scope):>8} {f'{known:,}' if known else '–':>10} "
            f"{ratio(PUBLISHED, scope):>8} {100 * waited / whole:>7.1f}%  {lock_place(report)}; {', '.join(places)}"
        )
    print()
    print(f"{'scope':<12} {'lock held':>10} {'woken after':>12} {'gain':>8}  published gain, first version and as merged")
    for scope in early:
        before, after = held(reports[scope]), held(early[scope])
        gain = 100 * (time(reports[scope]) / time(early[scope]) - 1)
        published = " and ".join(f"{its:+.1f} %" for its in GAINS.get(scope, ())) or "–"
        print(f"{scope:<12} {before:>10} {after:>12} {gain:>+7.1f}%  {published}")


def read(folder, variant):
    reports = {}
    for scope in SCOPES:
        path = os.path.join(folder, f"workqueue-{scope}{variant}.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                reports[scope] = json.load(file)
    return reports


def time(report):
    """When the median CPU has run its events. The first one also starts the producers, and some balance the load for others."""
    return statistics.median(thread["ended_ns"] for thread in report["threads"])


def lock_place(report):
    """The number of the first pool's lock among those that CPUs waited for, the longest first."""
    places = [number for number, lock in enumerate(report["locks"]) if "worker_pool" in lock["object"]]
    return places[0] + 1 if places else "–"


def pool_locks(report):
    return [lock for lock in report["locks"] if "worker_pool" in lock["object"]]


def held(report):
    """How long a pool's lock is held on average, of the locks that CPUs waited for."""
    locks = pool_locks(report)
    count = sum(lock["holds"] for lock in locks)
    return f"{sum(lock['held_ns'] for lock in locks) / count:,.0f} ns" if count else "–"


def ratio(speeds, scope):
    return f"{speeds[scope] / speeds['cache']:.2f}" if scope in speeds and "cache" in speeds else "–"


def place(report, of, field):
    """The number of the first line with this field of an object."""
    for number, line in enumerate(report["lines"]):
        if of in line["object"] and any(word["field"] == field for word in line["words"]):
            return number + 1
    return None


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]))

"""Machines, benchmarks and simulations as tables, ready to plot.

Each function runs the command `coreshard` and reads its JSON output. The command is found by the variable
`CORESHARD_COMMAND`, or on the PATH. A machine is a preset's name, a description or a file, as for `--machine`; `None`
is this machine.

A table is a `pandas.DataFrame` if pandas is installed, and otherwise a list of dicts; `frame=False` requests the latter.

>>> import coreshard
>>> table = coreshard.topology("pack:2 l3:1 core:4 pu:2", scope="cache", frame=False)  # doctest: +SKIP
>>> [pod["cpus"] for pod in table]  # doctest: +SKIP
['0-7', '8-15']
"""

import json
import os
import shutil
import subprocess

__all__ = ["CommandError", "bench", "c2c", "simulate", "topology", "tune"]


class CommandError(RuntimeError):
    """The command `coreshard` was not found or has failed. The message is that of the command."""


def command():
    """Returns the path of the command `coreshard`."""
    found = os.environ.get("CORESHARD_COMMAND") or shutil.which("coreshard")
    if not found:
        raise CommandError(
            "the command coreshard was not found: build it (cargo build --release -p coreshard-cli), and put it on the "
            "PATH or its path into CORESHARD_COMMAND"
        )
    return found


def run(*arguments):
    """Returns the output of the command with these arguments."""
    done = subprocess.run([command(), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(done.stderr.strip() or f"coreshard ended with status {done.returncode}")
    return done.stdout


def table(records, frame):
    """Returns a frame of the records, or the records."""
    if frame is False:
        return records
    try:
        import pandas
    except ImportError:
        if frame:
            raise
        return records
    return pandas.DataFrame.from_records(records)


def options(**given):
    """Formats options for the command: lists with commas, without options that were not given."""
    words = []
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words += [f"--{name.replace('_', '-')}", value]
    return words


def topology(machine=None, *, scope=None, shard_size=None, frame=None):
    """Returns a machine's pods of one scope or of all, one per row: scope, pod, cpus, node."""
    found = json.loads(run("topo", "--json", *options(machine=machine, shard_size=shard_size)))
    rows = [
        {"scope": name, "pod": pod["id"], "cpus": pod["cpus"], "node": pod["node"]}
        for name, of_scope in found["scopes"].items()
        for pod in of_scope["pods"]
        if scope in (None, name)
    ]
    if not rows:
        raise CommandError(f"invalid scope {scope!r}: expected one of {', '.join(found['scopes'])}")
    return table(rows, frame)


def _queue(words, frame):
    found = json.loads(run("bench", "queue", "--json", "-", *words))
    about = {"machine": found["machine"], "platform": found["platform"], "threads": found["threads"]}
    return table([{**about, **row} for row in found["results"]], frame)


def bench(*, scopes=None, wake=None, intake=None, threads=None, items=None, runs=None, outstanding=None,
          shard_size=None, frame=None):
    """Runs `coreshard bench queue` on this machine; one row per combination of variants."""
    return _queue(
        options(scopes=scopes, wake=wake, intake=intake, threads=threads, items=items, runs=runs,
                outstanding=outstanding, shard_size=shard_size),
        frame,
    )


def simulate(machine, *, seed=0, seeds=None, scopes=None, wake=None, intake=None, threads=None, items=None, runs=None,
             outstanding=None, shard_size=None, costs=None, frame=None):
    """Runs it on a simulated machine, in virtual time, with `seeds` seeds from `seed` on. Equal seeds give equal tables."""
    words = options(machine=machine, seed=seed, seeds=seeds, scopes=scopes, wake=wake, intake=intake, threads=threads, items=items,
                    runs=runs, outstanding=outstanding, shard_size=shard_size, costs=costs)
    return _queue(["--sim", *words], frame)


def c2c(machine, *, seed=0, scope=None, wake=None, intake=None, items=None, frame=None):
    """Returns the cache lines that CPUs of a simulated machine contend for, by line, field and function."""
    words = options(machine=machine, seed=seed, scope=scope, wake=wake, intake=intake, items=items)
    return table(json.loads(run("c2c", "--json", "-", *words)), frame)


def tune(machine=None, *, seed=None, seeds=None, items=None, rounds=None, frame=None):
    """Recommends an affinity scope and a shard size for a machine; one row per candidate. `advice` is "best", "as good" (not
    distinguishable from it) or empty. `worth` is the share of the best throughput under the load that suits the
    candidate less, at most 1."""
    found = json.loads(run("tune", "--json", *options(machine=machine, seed=seed, seeds=seeds, items=items, rounds=rounds)))
    rows = []
    for place, candidate in enumerate(found["candidates"]):
        cores = candidate["shard_cores"]
        name = candidate["scope"] + (f" of {cores}" if cores else "")
        advice = "best" if place == found["best"] else "as good" if place in found["as_good"] else ""
        row = {"candidate": name, "advice": advice}
        row |= {key: candidate[key] for key in ("scope", "shard_cores", "pods", "worth")}
        for load in ("even", "lopsided"):
            row |= {f"{load}_{key}": figure for key, figure in candidate[load].items()}
        rows.append(row)
    return table(rows, frame)

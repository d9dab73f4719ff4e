"""The lab from Python: machines, benchmarks and simulations as tables, ready to plot.

Each function runs the command `coreshard` and reads what it writes as JSON. The command is found by the variable
`CORESHARD_COMMAND`, or else on the PATH. A machine is a preset's name, a description, or a file, as `--machine` takes them; `None`
is the one that this runs on.

A table is a `pandas.DataFrame` where pandas is installed, and otherwise a list of dicts; `frame=False` asks for the latter.

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
    """The command `coreshard` is not there, or has failed; the message is its own."""


def command():
    """The path of the command `coreshard`."""
    found = os.environ.get("CORESHARD_COMMAND") or shutil.which("coreshard")
    if not found:
        raise CommandError(
            "the command coreshard was not found: build it (cargo build --release -p coreshard-cli), and put it on the "
            "PATH or its path into CORESHARD_COMMAND"
        )
    return found


def run(*arguments):
    """What the command writes with these arguments."""
    done = subprocess.run([command(), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(done.stderr.strip() or f"coreshard ended with status {done.returncode}")
    return done.stdout


def table(records, frame):
    """A frame of the records, or the records."""
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
    """As the command takes them: lists with commas, nothing for what was not given."""
    words = []
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words += [f"--{name.replace('_', '-')}", value]
    return words


def topology(machine=None, *, scope=None, shard_size=None, frame=None):
    """A machine's pods, a row each: scope, pod, cpus, node. Of one scope, or of all."""
    found = json.loads(run("topo", "--json", *options(machine=machine, shard_size=shard_size)))
    rows = [
        {"scope": name, "pod": pod["id"], "cpus": pod["cpus"], "node": pod["node"]}
        for name, of_scope in found["scopes"].items()
        for pod in of_scope["pods"]
        if scope in (None, name)
    ]
    if not rows:
        raise CommandError(f"scope={scope!r}: one of {', '.join(found['scopes'])}")
    return table(rows, frame)


def _queue(words, frame):
    found = json.loads(run("bench", "queue", "--json", "-", *words))
    about = {"machine": found["machine"], "platform": found["platform"], "threads": found["threads"]}
    return table([{**about, **row} for row in found["results"]], frame)


def bench(*, scopes=None, wake=None, intake=None, threads=None, items=None, runs=None, outstanding=None,
          shard_size=None, frame=None):
    """`coreshard bench queue` on this machine, a row for each combination of rungs."""
    return _queue(
        options(scopes=scopes, wake=wake, intake=intake, threads=threads, items=items, runs=runs,
                outstanding=outstanding, shard_size=shard_size),
        frame,
    )


def simulate(machine, *, seed=0, seeds=None, scopes=None, wake=None, intake=None, threads=None, items=None, runs=None,
             outstanding=None, shard_size=None, costs=None, frame=None):
    """The same on a simulated machine, in virtual time, with `seeds` seeds from `seed` on: equal seeds give equal tables."""
    words = options(machine=machine, seed=seed, seeds=seeds, scopes=scopes, wake=wake, intake=intake, threads=threads, items=items,
                    runs=runs, outstanding=outstanding, shard_size=shard_size, costs=costs)
    return _queue(["--sim", *words], frame)


def c2c(machine, *, seed=0, scope=None, wake=None, intake=None, items=None, frame=None):
    """Which cache lines the CPUs of a simulated machine take from one another, by line, field and function."""
    words = options(machine=machine, seed=seed, scope=scope, wake=wake, intake=intake, items=items)
    return table(json.loads(run("c2c", "--json", "-", *words)), frame)


def tune(machine=None, *, seed=None, seeds=None, items=None, rounds=None, frame=None):
    """Which affinity scope and size of shards suit a machine, a row for each candidate. `advice` is "best", "as good" (not told
    apart from it) or nothing; `worth` is what it reaches of the best under the load that suits it less, at most 1."""
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

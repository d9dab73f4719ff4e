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
import re
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


def _table(records, frame):
    if frame is False:
        return records
    try:
        import pandas
    except ImportError:
        if frame:
            raise
        return records
    return pandas.DataFrame.from_records(records)


def _options(**options):
    """As the command takes them: lists with commas, nothing for what was not given."""
    words = []
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words += [f"--{name.replace('_', '-')}", value]
    return words


def topology(machine=None, *, scope=None, shard_size=None, frame=None):
    """A machine's pods, a row each: scope, pod, cpus, node. Of one scope, or of all."""
    found = json.loads(run("topo", "--format", "json", *_options(machine=machine, shard_size=shard_size)))
    rows = [
        {"scope": name, "pod": pod["id"], "cpus": pod["cpus"], "node": pod["node"]}
        for name, of_scope in found["scopes"].items()
        for pod in of_scope["pods"]
        if scope in (None, name)
    ]
    if not rows:
        raise CommandError(f"scope={scope!r}: one of {', '.join(found['scopes'])}")
    return _table(rows, frame)


def _queue(words, frame):
    found = json.loads(run("bench", "queue", "--json", "-", *words))
    about = {"machine": found["machine"], "platform": found["platform"], "threads": found["threads"]}
    return _table([{**about, **row} for row in found["results"]], frame)


def bench(*, scopes=None, wake=None, intake=None, threads=None, items=None, runs=None, outstanding=None,
          shard_size=None, frame=None):
    """`coreshard bench queue` on this machine, a row for each combination of rungs."""
    return _queue(
        _options(scopes=scopes, wake=wake, intake=intake, threads=threads, items=items, runs=runs,
                 outstanding=outstanding, shard_size=shard_size),
        frame,
    )


def simulate(machine, *, seed=0, scopes=None, wake=None, intake=None, threads=None, items=None, runs=None,
             outstanding=None, shard_size=None, costs=None, frame=None):
    """The same on a simulated machine, in virtual time: equal seeds give equal tables."""
    words = _options(machine=machine, seed=seed, scopes=scopes, wake=wake, intake=intake, threads=threads, items=items,
                     runs=runs, outstanding=outstanding, shard_size=shard_size, costs=costs)
    return _queue(["--sim", *words], frame)


def c2c(machine, *, seed=0, scope=None, wake=None, intake=None, items=None, frame=None):
    """Which cache lines the CPUs of a simulated machine take from one another, by line, field and function."""
    words = _options(machine=machine, seed=seed, scope=scope, wake=wake, intake=intake, items=items)
    return _table(json.loads(run("c2c", "--json", "-", *words)), frame)


_CANDIDATE = re.compile(
    r"^([*~ ]) (\S.*?)\s+(\d+)\s+(\d+)\s+([\d.]+) µs\s+(\d+)\s+([\d.]+) µs\s+(\d+) %\s*$", re.MULTILINE
)


def tune(machine=None, *, seed=None, items=None, rounds=None, frame=None):
    """Which affinity scope and size of shards suit a machine, a row for each candidate. `advice` is "best", "as good" (not told
    apart from it) or nothing; `worth_percent` is what it reaches of the best under the load that suits it less."""
    text = run("tune", *_options(machine=machine, seed=seed, items=items, rounds=rounds))
    rows = [
        {
            "candidate": name,
            "advice": {"*": "best", "~": "as good"}.get(mark, ""),
            "pools": int(pools),
            "even_items_per_sec": float(even),
            "even_p99_us": float(even_p99),
            "lopsided_items_per_sec": float(lopsided),
            "lopsided_p99_us": float(lopsided_p99),
            "worth_percent": int(worth),
        }
        for mark, name, pools, even, even_p99, lopsided, lopsided_p99, worth in _CANDIDATE.findall(text)
    ]
    if not any(row["advice"] == "best" for row in rows):
        raise CommandError(f"no candidate was found in what coreshard tune said:\n{text}")
    return _table(rows, frame)

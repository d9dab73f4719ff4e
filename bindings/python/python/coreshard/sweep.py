"""Studies of many simulated runs, on the engines that a site has: Dask, or HyperQueue. There is no scheduler here.

    python -m coreshard.sweep plan STUDY.json FOLDER        the runs, one line each; FOLDER is made
    python -m coreshard.sweep run FOLDER NUMBER             one of them, as HyperQueue's jobs do
    python -m coreshard.sweep dask FOLDER [ADDRESS]         all that are left, on a Dask cluster, or on two local workers
    python -m coreshard.sweep hyperqueue FOLDER             writes FOLDER/jobs.toml, for `hq job submit-file`
    python -m coreshard.sweep gather FOLDER                 FOLDER/results.jsonl, once all are there

A study is a JSON object of lists: `machines`, and if need be `scopes`, `shard_sizes`, `wakes`, `seeds`; and `items`, a number. Its
runs are all combinations, in the order of the lists.

Each run writes a file of its own, under its name only when it is whole: so a sweep that was broken off, or whose worker was
killed, goes on with what is missing. The simulations depend on nothing but the run's options; `results.jsonl` has them in the
study's order, so its bytes do not tell how many workers there were. What a folder holds of another study is not overwritten.
"""

import itertools
import json
import os
import sys
import tempfile

from . import lab

__all__ = ["Study", "gather", "hyperqueue", "missing", "plan", "run_number", "with_dask"]

_LISTS = {
    "machines": None,
    "scopes": ["cache_shard"],
    "shard_sizes": [8],
    "wakes": ["coalesced"],
    "seeds": [0],
}


class Study:
    """What is to be run.

    >>> from coreshard.sweep import Study
    >>> study = Study(machines=["pocket"], scopes=["cpu", "system"], seeds=range(3))
    >>> len(study.runs())
    6
    >>> study.runs()[4]["scope"], study.runs()[4]["seed"]
    ('system', 1)
    """

    def __init__(self, *, items=100, **lists):
        unknown = sorted(set(lists) - set(_LISTS))
        if unknown:
            raise ValueError(f"a study has no {', '.join(unknown)}; it has {', '.join(_LISTS)}, items")
        self.lists = {name: list(lists.get(name) or default or []) for name, default in _LISTS.items()}
        self.items = int(items)
        if not self.lists["machines"]:
            raise ValueError("a study needs at least one machine")

    def runs(self):
        """The options of each run, in order."""
        names = ["machine", "scope", "shard_size", "wake", "seed"]
        return [
            {**dict(zip(names, values)), "items": self.items} for values in itertools.product(*self.lists.values())
        ]

    def to_json(self):
        return json.dumps({**self.lists, "items": self.items}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text):
        read = json.loads(text)
        if not isinstance(read, dict):
            raise ValueError("a study is an object of lists")
        return cls(**read)


def _write(path, text):
    """A file appears under its name when it is whole, over nothing but its equal."""
    folder = os.path.dirname(path)
    handle, unfinished = tempfile.mkstemp(dir=folder, prefix=".unfinished-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(unfinished, path)
        except FileExistsError:
            with open(path, encoding="utf-8") as file:
                if file.read() != text:
                    raise FileExistsError(f"{path} is there, and is of something else: it stays as it is") from None
    finally:
        os.unlink(unfinished)


def plan(study, folder):
    """Makes the folder of a study, or finds it made; gives the number of runs."""
    os.makedirs(os.path.join(folder, "runs"), exist_ok=True)
    _write(os.path.join(folder, "study.json"), study.to_json())
    return len(study.runs())


def _study(folder):
    with open(os.path.join(folder, "study.json"), encoding="utf-8") as file:
        return Study.from_json(file.read())


def _path(folder, number):
    return os.path.join(folder, "runs", f"{number:06}.json")


def missing(folder):
    """The numbers of the runs that have no result yet."""
    return [number for number in range(len(_study(folder).runs())) if not os.path.exists(_path(folder, number))]


def _line(run):
    """A run's options and results, as a line."""
    rows = lab.simulate(
        run["machine"],
        seed=run["seed"],
        scopes=[run["scope"]],
        wake=[run["wake"]],
        intake=["lock-free"],
        shard_size=run["shard_size"],
        items=run["items"],
        runs=1,
        frame=False,
    )
    return json.dumps({"run": run, "results": rows}, sort_keys=True) + "\n"


def run_number(folder, number):
    """Runs one, unless it has its result; gives its number."""
    runs = _study(folder).runs()
    if not 0 <= number < len(runs):
        raise ValueError(f"run {number}: the study has runs 0 to {len(runs) - 1}")
    if not os.path.exists(_path(folder, number)):
        _write(_path(folder, number), _line(runs[number]))
    return number


def gather(folder):
    """Writes `results.jsonl` and gives its path. Fails where runs are missing, and names the first."""
    left = missing(folder)
    if left:
        raise FileNotFoundError(f"{len(left)} runs have no result yet, the first is {left[0]}")
    parts = []
    for number in range(len(_study(folder).runs())):
        with open(_path(folder, number), encoding="utf-8") as file:
            parts.append(file.read())
    path = os.path.join(folder, "results.jsonl")
    _write(path, "".join(parts))
    return path


def with_dask(folder, client, progress=None):
    """Runs what is missing on a `distributed.Client`'s workers, which see the same folder. `progress` is called with the number of
    runs that are there and of all. A worker that dies is Dask's to replace; its runs are begun again."""
    from distributed import as_completed

    folder = os.path.abspath(folder)
    left, all_runs = missing(folder), len(_study(folder).runs())
    there = all_runs - len(left)
    futures = [client.submit(run_number, folder, number, pure=False, retries=3) for number in left]
    for future in as_completed(futures):
        future.result()
        there += 1
        if progress is not None:
            progress(there, all_runs)
    return gather(folder)


def hyperqueue(folder):
    """Writes `jobs.toml`, a task for each run that is missing; `hq job submit-file` takes it."""
    folder = os.path.abspath(folder)
    lines = ['name = "coreshard-sweep"\n']
    for number in missing(folder):
        words = [sys.executable, "-m", "coreshard.sweep", "run", folder, str(number)]
        # A string of JSON is one of TOML's basic strings.
        lines.append(f"[[task]]\nid = {number}\ncommand = {json.dumps(words, ensure_ascii=False)}\n")
    path = os.path.join(folder, "jobs.toml")
    if os.path.exists(path):
        os.unlink(path)
    _write(path, "\n".join(lines))
    return path


def _tell(there, all_runs):
    if there == all_runs or there % max(1, all_runs // 20) == 0:
        print(f"{there} of {all_runs} runs", file=sys.stderr)


def main(words):
    """`python -m coreshard.sweep`; gives the exit status."""
    try:
        match words:
            case ["plan", study, folder]:
                with open(study, encoding="utf-8") as file:
                    print(f"{plan(Study.from_json(file.read()), folder)} runs")
            case ["run", folder, number]:
                run_number(folder, int(number))
            case ["dask", folder, *address]:
                from distributed import Client

                options = {"address": address[0]} if address else {"n_workers": 2, "threads_per_worker": 1}
                with Client(**options, dashboard_address=None) as client:
                    print(with_dask(folder, client, _tell))
            case ["hyperqueue", folder]:
                print(hyperqueue(folder))
            case ["gather", folder]:
                print(gather(folder))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (OSError, ValueError, lab.CommandError) as error:
        print(f"coreshard.sweep: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Studies of many simulated runs, on Dask's workers. There is no scheduler here.

    python -m coreshard.sweep FOLDER [ADDRESS]

runs what a study's folder lacks on a Dask cluster, or on two local workers, and prints where the results are. The folder, its
runs and the one file of results are the command's, `coreshard sweep`: so Dask, HyperQueue and a shell may have a part each, one
after the other or at once, and `results.jsonl` has the same bytes.
"""

import json
import os
import sys

from . import lab

__all__ = ["gather", "hyperqueue", "missing", "plan", "results", "run", "with_dask"]


def plan(folder, machines, *, scopes=None, shard_sizes=None, wake=None, intake=None, seed=None, seeds=None, items=None):
    """Makes the folder of a study, or finds it made; gives the number of its runs: machines × scopes × shard sizes × wake-ups ×
    intakes × seeds, of which there are `seeds`, from `seed` on."""
    words = [word for machine in machines for word in ("--machines", machine)]
    words += lab.options(scopes=scopes, shard_sizes=shard_sizes, wake=wake, intake=intake, seed=seed, seeds=seeds, items=items)
    return int(lab.run("sweep", "plan", folder, *words).split()[0])


def _status(folder):
    return json.loads(lab.run("sweep", "status", folder, "--json"))


def missing(folder):
    """The numbers of the runs that have no results yet."""
    return _status(folder)["missing"]


def run(folder, *numbers):
    """Runs some, unless they have their results; says what came of each."""
    if not numbers:
        return []
    return lab.run("sweep", "run", folder, *numbers).splitlines()


def gather(folder):
    """Writes `results.jsonl` and gives its path. Fails where runs are missing, and names the first."""
    lab.run("sweep", "gather", folder)
    return os.path.join(folder, "results.jsonl")


def hyperqueue(folder):
    """Writes `jobs.toml`, a task for each run that is missing, and gives its path; `hq job submit-file` takes it."""
    lab.run("sweep", "hyperqueue", folder)
    return os.path.join(folder, "jobs.toml")


def results(folder, frame=None):
    """What was gathered as a table, a row for each run."""
    with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as file:
        return lab.table([json.loads(line) for line in file], frame)


def with_dask(folder, client, progress=None):
    """Runs what is missing on a `distributed.Client`'s workers, which see the same folder and have the command; gathers. `progress`
    is called with the number of runs that are there and of all. A worker that dies is Dask's to replace; its runs are begun again."""
    from distributed import as_completed

    folder, status = os.path.abspath(folder), _status(folder)
    left, all_runs = status["missing"], status["runs"]
    there = all_runs - len(left)
    futures = [client.submit(run, folder, number, pure=False, retries=3) for number in left]
    for future in as_completed(futures):
        future.result()
        there += 1
        if progress is not None:
            progress(there, all_runs)
    return gather(folder)


def _tell(there, all_runs):
    if there == all_runs or there % max(1, all_runs // 20) == 0:
        print(f"{there} of {all_runs} runs", file=sys.stderr)


def main(words):
    """`python -m coreshard.sweep`; gives the exit status."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        from distributed import Client

        options = {"address": words[1]} if words[1:] else {"n_workers": 2, "threads_per_worker": 1}
        with Client(**options, dashboard_address=None) as client:
            print(with_dask(words[0], client, _tell))
    except (ImportError, OSError, lab.CommandError) as error:
        print(f"coreshard.sweep: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

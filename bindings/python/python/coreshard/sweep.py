"""Studies of many simulated runs, on Dask's workers. It contains no scheduler.

    python -m coreshard.sweep FOLDER [ADDRESS]

runs the missing runs of a study's folder on a Dask cluster, or on two local workers, and prints the path of the results.
The folder, its runs and the results file are those of `coreshard sweep`. Dask, HyperQueue and a shell may each run a
part, one after the other or at once, and `results.jsonl` has the same bytes.
"""

import json
import os
import sys

from . import lab

__all__ = ["gather", "hyperqueue", "missing", "plan", "results", "run", "with_dask"]


def plan(folder, machines, *, scopes=None, shard_sizes=None, wake=None, intake=None, seed=None, seeds=None, items=None):
    """Creates the folder of a study, or accepts an existing one. Returns the number of its runs: machines × scopes × shard
    sizes × wake-ups × intakes × `seeds` seeds, from `seed` on."""
    words = [word for machine in machines for word in ("--machines", machine)]
    words += lab.options(scopes=scopes, shard_sizes=shard_sizes, wake=wake, intake=intake, seed=seed, seeds=seeds, items=items)
    return int(lab.run("sweep", "plan", folder, *words).split()[0])


def _status(folder):
    return json.loads(lab.run("sweep", "status", folder, "--json"))


def missing(folder):
    """Returns the numbers of the runs without results."""
    return _status(folder)["missing"]


def run(folder, *numbers):
    """Runs some, except those with results. Returns a message about each."""
    if not numbers:
        return []
    return lab.run("sweep", "run", folder, *numbers).splitlines()


def gather(folder):
    """Writes `results.jsonl` and returns its path. Fails if runs are missing, and names the first."""
    lab.run("sweep", "gather", folder)
    return os.path.join(folder, "results.jsonl")


def hyperqueue(folder):
    """Writes `jobs.toml` for `hq job submit-file`, with a task for each missing run, and returns its path."""
    lab.run("sweep", "hyperqueue", folder)
    return os.path.join(folder, "jobs.toml")


def results(folder, frame=None):
    """Returns the gathered results as a table, one row per run."""
    with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as file:
        return lab.table([json.loads(line) for line in file], frame)


def with_dask(folder, client, progress=None):
    """Runs missing runs on a `distributed.Client`'s workers, which must see the same folder and have the command, and
    gathers. `progress` is called with the number of finished runs and of all. Dask replaces workers that die, and
    repeats their runs."""
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
    """Runs `python -m coreshard.sweep` and returns the exit status."""
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

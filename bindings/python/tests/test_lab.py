"""The lab's functions and sweeps. Left out where the command `coreshard` is not there."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import support

import coreshard
from coreshard import lab, sweep

support.watch()
MACHINE = "pack:2 numa:1 l3:1 core:4 pu:1"
HAS_DASK = importlib.util.find_spec("distributed") is not None


def has_command():
    try:
        lab.command()
    except lab.CommandError:
        return False
    return True


@unittest.skipUnless(has_command(), "SKIPPED: the command coreshard is not there")
class Tables(unittest.TestCase):
    def test_topology(self):
        rows = coreshard.topology(MACHINE, scope="cache", frame=False)
        self.assertEqual([(row["cpus"], row["node"]) for row in rows], [("0-3", 0), ("4-7", 1)])
        with self.assertRaisesRegex(lab.CommandError, "invalid scope 'room'"):
            coreshard.topology(MACHINE, scope="room")

    def test_simulations_of_equal_seeds_are_equal(self):
        def table(seed):
            return coreshard.simulate(
                MACHINE, seed=seed, scopes=["cpu", "system"], wake="coalesced", intake="lock-free", items=20, runs=1,
                frame=False,
            )

        self.assertEqual([row["scope"] for row in table(1)], ["cpu", "system"])
        self.assertEqual(table(1), table(1))
        # Two seeds may agree in so short a run.
        self.assertGreater(len({str(table(seed)) for seed in range(5)}), 1)

    def test_lines_and_advice(self):
        rows = coreshard.c2c(MACHINE, items=20, frame=False)
        self.assertTrue(any(row["field"].startswith("Pool.") for row in rows))
        rows = coreshard.tune(MACHINE, items=20, frame=False)
        self.assertEqual([row["advice"] for row in rows].count("best"), 1)
        self.assertIn("system", [row["candidate"] for row in rows])

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "SKIPPED: pandas is not installed")
    def test_frames(self):
        table = coreshard.topology(MACHINE)
        self.assertEqual(list(table.columns), ["scope", "pod", "cpus", "node"])
        self.assertEqual((table.scope == "cpu").sum(), 8)

    def test_what_the_command_says_is_told(self):
        with self.assertRaisesRegex(lab.CommandError, "nowhere"):
            coreshard.simulate("nowhere")


@unittest.skipUnless(has_command(), "SKIPPED: the command coreshard is not there")
class Sweeps(unittest.TestCase):
    STUDY = {"scopes": ["cpu", "cache"], "shard_sizes": [2, 4], "seeds": 25, "items": 5}
    MACHINES = ["pocket", MACHINE]

    def bytes_of(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_what_cannot_be_is_refused_with_a_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(lab.CommandError, "nowhere"):
                sweep.plan(folder, ["nowhere"])
            sweep.plan(folder, ["pocket"])
            with self.assertRaisesRegex(lab.CommandError, "holds another study"):
                sweep.plan(folder, ["grace"])

    def test_a_study_is_gone_on_with_and_is_a_table(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(sweep.plan(folder, ["pocket"], scopes=["cpu"], seeds=4, items=5), 4)
            self.assertEqual(len(sweep.run(folder, 3, 1)), 2)
            self.assertEqual(sweep.missing(folder), [0, 2])
            self.assertEqual(sweep.run(folder), [])
            with self.assertRaisesRegex(lab.CommandError, "2 runs have no results, first 0"):
                sweep.gather(folder)
            sweep.run(folder, *sweep.missing(folder))
            sweep.gather(folder)
            rows = sweep.results(folder, frame=False)
            self.assertEqual([(row["run"], row["seed"], row["scope"]) for row in rows], [(n, n, "cpu") for n in range(4)])

    @unittest.skipUnless(HAS_DASK and sys.version_info >= (3, 11), "SKIPPED: distributed or tomllib is not installed")
    def test_dask_and_the_commands_of_hyperqueues_file_give_the_same_bytes(self):
        import tomllib
        from distributed import Client

        results = []
        for is_dask in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                sweep.plan(folder, self.MACHINES, scopes=["cpu", "cache_shard"], seeds=5, items=5)
                with open(sweep.hyperqueue(folder), encoding="utf-8") as file:
                    tasks = tomllib.loads(file.read())["task"]
                self.assertEqual([task["id"] for task in tasks], list(range(20)))
                if is_dask:
                    # Dask runs the second half, since the first is finished: each runs only missing runs.
                    sweep.run(folder, *range(7))
                    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
                        sweep.with_dask(folder, client)
                else:
                    for task in reversed(tasks):
                        subprocess.run(task["command"], check=True, stdout=subprocess.DEVNULL)
                results.append(self.bytes_of(sweep.gather(folder)))
        self.assertEqual(results[0], results[1])

    @unittest.skipUnless(HAS_DASK, "SKIPPED: distributed is not installed")
    def test_two_workers_of_dask_of_which_one_is_killed(self):
        from distributed import Client, LocalCluster

        results = []
        for workers, kills in ((1, False), (2, True)):
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(sweep.plan(folder, self.MACHINES, **self.STUDY), 200)
                with LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None
                ) as cluster, Client(cluster) as client:
                    killed = threading.Event()

                    def kill_half_way(there, all_runs, client=client, killed=killed, kills=kills):
                        if kills and there >= all_runs // 2 and not killed.is_set():
                            killed.set()
                            victim = sorted(client.run(os.getpid).values())[0]
                            os.kill(victim, signal.SIGKILL)

                    results.append(self.bytes_of(sweep.with_dask(folder, client, kill_half_way)))
                    self.assertEqual(killed.is_set(), kills)
        self.assertEqual(results[0], results[1])
        self.assertEqual(len(results[0].splitlines()), 200)
        self.assertEqual(json.loads(results[0].splitlines()[199])["seed"], 24)


if __name__ == "__main__":
    unittest.main()

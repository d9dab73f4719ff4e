"""The lab's functions and sweeps. Left out where the command `coreshard` is not there."""

import importlib.util
import json
import os
import signal
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
        with self.assertRaisesRegex(lab.CommandError, "scope='room'"):
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


class Studies(unittest.TestCase):
    def test_what_cannot_be_is_refused_with_a_reason(self):
        with self.assertRaisesRegex(ValueError, "no colours"):
            sweep.Study(machines=["pocket"], colours=["red"])
        with self.assertRaisesRegex(ValueError, "at least one machine"):
            sweep.Study(scopes=["cpu"])
        with tempfile.TemporaryDirectory() as folder:
            sweep.plan(sweep.Study(machines=["pocket"]), folder)
            with self.assertRaisesRegex(FileExistsError, "study.json is there"):
                sweep.plan(sweep.Study(machines=["grace"]), folder)

    def test_a_job_file_of_hyperqueue(self):
        with tempfile.TemporaryDirectory() as folder:
            sweep.plan(sweep.Study(machines=["pocket"], seeds=range(3)), folder)
            with open(sweep.hyperqueue(folder), encoding="utf-8") as file:
                text = file.read()
            try:
                import tomllib
            except ImportError:
                self.assertEqual(text.count("[[task]]"), 3)
                return
            tasks = tomllib.loads(text)["task"]
            self.assertEqual([task["id"] for task in tasks], [0, 1, 2])
            self.assertEqual(tasks[2]["command"][1:], ["-m", "coreshard.sweep", "run", folder, "2"])


@unittest.skipUnless(has_command(), "SKIPPED: the command coreshard is not there")
class Sweeps(unittest.TestCase):
    STUDY = sweep.Study(
        machines=["pocket", MACHINE], scopes=["cpu", "cache"], shard_sizes=[2, 4], seeds=range(25), items=5
    )

    def bytes_of(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_a_sweep_that_was_broken_off_goes_on(self):
        study = sweep.Study(machines=["pocket"], seeds=range(4), items=5)
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            for folder, order in ((one, [0, 1, 2, 3]), (other, [3, 1])):
                self.assertEqual(sweep.plan(study, folder), 4)
                for number in order:
                    sweep.run_number(folder, number)
            self.assertEqual(sweep.missing(other), [0, 2])
            with self.assertRaisesRegex(FileNotFoundError, "2 runs have no result yet, the first is 0"):
                sweep.gather(other)
            for number in sweep.missing(other):
                self.assertEqual(sweep.main(["run", other, str(number)]), 0)
            self.assertEqual(self.bytes_of(sweep.gather(one)), self.bytes_of(sweep.gather(other)))

    @unittest.skipUnless(HAS_DASK, "SKIPPED: distributed is not installed")
    def test_two_workers_of_dask_of_which_one_is_killed(self):
        from distributed import Client, LocalCluster

        runs = len(self.STUDY.runs())
        self.assertEqual(runs, 200)
        results = []
        for workers, kills in ((1, False), (2, True)):
            with tempfile.TemporaryDirectory() as folder:
                sweep.plan(self.STUDY, folder)
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
        self.assertEqual(len(results[0].splitlines()), runs)
        self.assertEqual(json.loads(results[0].splitlines()[199])["run"]["seed"], 24)


if __name__ == "__main__":
    unittest.main()

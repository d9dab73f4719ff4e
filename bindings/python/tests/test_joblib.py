"""The backend of joblib, and Dask's `pool=`. Left out where joblib or Dask is not installed."""

import importlib.util
import multiprocessing
import os
import threading
import time
import unittest

import support

import coreshard

support.watch()
HAS_JOBLIB = importlib.util.find_spec("joblib") is not None
HAS_DASK = importlib.util.find_spec("dask") is not None


class Running:
    """A call that counts how many of it run at once."""

    def __init__(self):
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def __call__(self, _=None):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.002)
        with self.lock:
            self.now -= 1
        return 1


@unittest.skipUnless(HAS_JOBLIB, "SKIPPED: joblib is not installed")
class Backend(unittest.TestCase):
    def setUp(self):
        import coreshard.joblib

        coreshard.joblib.register()

    def test_results_are_in_order(self):
        from joblib import Parallel, delayed, parallel_backend

        with parallel_backend("coreshard", n_jobs=3):
            self.assertEqual(Parallel()(delayed(pow)(n, 2) for n in range(200)), [n * n for n in range(200)])

    def test_nested_loops_run_no_more_calls_than_cpus(self):
        from joblib import Parallel, delayed, parallel_backend

        leaf = Running()

        def inner(depth):
            if depth == 0:
                return leaf()
            return sum(Parallel(n_jobs=4)(delayed(inner)(depth - 1) for _ in range(4)))

        with parallel_backend("coreshard", n_jobs=4):
            self.assertEqual(sum(Parallel()(delayed(inner)(2) for _ in range(4))), 64)
        self.assertLessEqual(leaf.most, len(os.sched_getaffinity(0)))
        self.assertGreaterEqual(leaf.most, 1)

    def test_an_exception_ends_the_loop(self):
        from joblib import Parallel, delayed, parallel_backend

        begun = []

        def fail(n):
            begun.append(n)
            raise LookupError(n)

        with parallel_backend("coreshard", n_jobs=2), self.assertRaises(LookupError):
            Parallel(pre_dispatch="all")(delayed(fail)(n) for n in range(10_000))
        self.assertLess(len(begun), 10_000)

    def test_a_loop_after_a_failed_one_has_results_of_its_own(self):
        from joblib import Parallel, delayed

        def fail_late(n):
            if n == 5:
                raise LookupError(n)
            time.sleep(0.01)
            return -1

        with Parallel(n_jobs=3, backend="coreshard") as parallel:
            for _ in range(5):
                with self.assertRaises(LookupError):
                    parallel(delayed(fail_late)(n) for n in range(20))
                self.assertEqual(parallel(delayed(abs)(n) for n in range(20)), list(range(20)))

    def test_the_calls_of_a_loop_that_timed_out_hold_no_places(self):
        from joblib import Parallel, delayed

        import coreshard.joblib

        go_on, begun, running = threading.Event(), [], coreshard.joblib._shared_executor()

        def wait(n):
            begun.append(n)
            go_on.wait(600)

        cpus = len(os.sched_getaffinity(0))
        # More often than once: places do not get lost, nor too many.
        for _ in range(3):
            with self.assertRaises(multiprocessing.TimeoutError):
                Parallel(n_jobs=cpus + 2, backend="coreshard", timeout=0.2, pre_dispatch="all")(
                    delayed(wait)(n) for n in range(cpus + 20)
                )
            self.assertEqual(
                Parallel(n_jobs=cpus + 2, backend="coreshard")(delayed(abs)(n) for n in range(50)), list(range(50))
            )
        count = len(begun)
        go_on.set()
        # As many run at once as before.
        calls = Running()
        while any(future.running() for future in [running.submit(int)]):
            time.sleep(0.001)
        Parallel(n_jobs=cpus + 2, backend="coreshard")(delayed(calls)(n) for n in range(50))
        self.assertLessEqual(calls.most, cpus)
        # No call that had not started has started since.
        self.assertEqual(len(begun), count)

    def test_a_nested_loop_times_out_inside_of_one_that_goes_on(self):
        from joblib import Parallel, delayed

        go_on = threading.Event()

        def outer(n):
            try:
                Parallel(n_jobs=2, backend="coreshard", timeout=0.1)(delayed(go_on.wait)(600) for _ in range(4))
            except multiprocessing.TimeoutError:
                return n

        found = Parallel(n_jobs=4, backend="coreshard")(delayed(outer)(n) for n in range(4))
        go_on.set()
        self.assertEqual(found, list(range(4)))


@unittest.skipUnless(HAS_DASK, "SKIPPED: dask is not installed")
class Dask(unittest.TestCase):
    def test_pool(self):
        import dask

        with coreshard.Executor(3, thread_name_prefix="dask") as executor, dask.config.set(pool=executor):
            names = [dask.delayed(lambda _: threading.current_thread().name)(n) for n in range(20)]
            for name in dask.compute(*names, scheduler="threads"):
                self.assertRegex(name, "^dask_")

    def test_a_computation_inside_of_one(self):
        import dask

        def nested(depth, width):
            if depth == 0:
                return 1
            parts = [dask.delayed(nested)(depth - 1, width) for _ in range(width)]
            return sum(dask.compute(*parts, scheduler="threads"))

        for workers in 1, 3:
            with coreshard.Executor(workers) as executor, dask.config.set(pool=executor):
                for _ in range(3):
                    self.assertEqual(nested(3, 4), 64)
                # The places that were lent are back.
                calls = Running()
                list(executor.map(calls, range(50)))
                self.assertLessEqual(calls.most, workers)


if __name__ == "__main__":
    unittest.main()

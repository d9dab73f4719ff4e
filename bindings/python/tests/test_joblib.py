"""The backend of joblib, and Dask's `pool=`. Left out where joblib or Dask is not installed."""

import importlib.util
import os
import threading
import time
import unittest

import support

import coreshard

support.watch()
HAS_JOBLIB = importlib.util.find_spec("joblib") is not None
HAS_DASK = importlib.util.find_spec("dask") is not None


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

        lock, running, most = threading.Lock(), 0, 0

        def leaf():
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.002)
            with lock:
                running -= 1
            return 1

        def inner(depth):
            nonlocal running
            if depth == 0:
                return leaf()
            return sum(Parallel(n_jobs=4)(delayed(inner)(depth - 1) for _ in range(4)))

        with parallel_backend("coreshard", n_jobs=4):
            self.assertEqual(sum(Parallel()(delayed(inner)(2) for _ in range(4))), 64)
        self.assertLessEqual(most, len(os.sched_getaffinity(0)))
        self.assertGreaterEqual(most, 1)

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


@unittest.skipUnless(HAS_DASK, "SKIPPED: dask is not installed")
class Dask(unittest.TestCase):
    def test_pool(self):
        import dask

        with coreshard.Executor(3, thread_name_prefix="dask") as executor, dask.config.set(pool=executor):
            names = [dask.delayed(lambda _: threading.current_thread().name)(n) for n in range(20)]
            for name in dask.compute(*names, scheduler="threads"):
                self.assertRegex(name, "^dask_")


if __name__ == "__main__":
    unittest.main()

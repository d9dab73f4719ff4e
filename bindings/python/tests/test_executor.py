"""`coreshard.Executor` and `coreshard.Future`, beyond what the standard library's own tests ask."""

import asyncio
import concurrent.futures
import ctypes
import gc
import itertools
import re
import sys
import threading
import time
import unittest
import weakref

import support

import coreshard

support.watch()


class Calls(unittest.TestCase):
    def test_a_future_is_one_of_pythons(self):
        with coreshard.Executor() as executor:
            future = executor.submit(pow, 2, 10)
            self.assertIsInstance(future, concurrent.futures.Future)
            self.assertIsInstance(executor, concurrent.futures.Executor)
            self.assertEqual(future.result(), 1024)
            self.assertRegex(repr(future), "state=finished returned int")

    def test_as_many_calls_as_workers_are_in_progress_at_once(self):
        for workers in (1, 2, 7, 40):
            with self.subTest(workers=workers), coreshard.Executor(workers) as executor:
                barrier = threading.Barrier(workers)
                running = [executor.submit(barrier.wait, 60) for _ in range(workers)]
                self.assertEqual(sorted(future.result() for future in running), list(range(workers)))

    def test_executors_that_wait_keep_no_others_from_beginning(self):
        # More than one pool's workers, of one executor and of several.
        for executors, workers in ((1, 600), (4, 150)):
            with self.subTest(executors=executors):
                barrier = threading.Barrier(executors * workers)
                made = [coreshard.Executor(workers) for _ in range(executors)]
                waits = [executor.submit(barrier.wait, 60) for executor in made for _ in range(workers)]
                self.assertEqual(sorted(wait.result() for wait in waits), list(range(executors * workers)))
                for executor in made:
                    executor.shutdown()

    def test_map_reads_no_more_than_its_buffer(self):
        read = []

        def numbers():
            for n in itertools.count():
                read.append(n)
                yield n

        with coreshard.Executor(4) as executor:
            results = executor.map(pow, numbers(), itertools.repeat(2), buffersize=3)
            self.assertEqual(read, [0, 1, 2])
            for n in range(20):
                self.assertEqual(next(results), n * n)
                self.assertEqual(len(read), n + 4)
            results.close()
            self.assertEqual(list(executor.map(abs, range(5), buffersize=100)), list(range(5)))
            self.assertEqual(list(executor.map(abs, [], buffersize=1)), [])
            failing = executor.map(divmod, [1, 1], [1, 0], buffersize=2)
            self.assertEqual(next(failing), (1, 0))
            with self.assertRaises(ZeroDivisionError):
                next(failing)
            go_on = threading.Event()
            with self.assertRaises(concurrent.futures.TimeoutError):
                list(executor.map(lambda _: go_on.wait(60), range(8), buffersize=6, timeout=0.05))
            go_on.set()
            for wrong, error in ((0, ValueError), (-1, ValueError), ("1", TypeError), (1.5, TypeError)):
                with self.subTest(buffersize=wrong), self.assertRaisesRegex(error, "buffersize=.*at least 1"):
                    executor.map(abs, [1], buffersize=wrong)
        # The executor is collected: submitted calls complete, and no more are accepted.
        executor = coreshard.Executor(1)
        results = executor.map(abs, itertools.count(), buffersize=2)
        del executor
        gc.collect()
        self.assertEqual(list(results), [0, 1])

    def test_subclasses_have_arguments_of_their_own(self):
        class Named(coreshard.Executor):
            def __init__(self, *, name):
                super().__init__(max_workers=3)
                self.name = name

        class Unmade(coreshard.Executor):
            def __init__(self):
                pass

        with Named(name="mail") as executor:
            self.assertEqual((executor.name, executor._max_workers), ("mail", 3))
            self.assertEqual(executor.submit(int).result(), 0)
            with self.assertRaisesRegex(RuntimeError, "already initialized"):
                executor.__init__(name="again")
        for call in (lambda: Unmade().submit(int), lambda: Unmade().shutdown()):
            with self.assertRaisesRegex(RuntimeError, r"super\(\).__init__"):
                call()

    def test_no_more_calls_than_workers_are_in_progress_at_once(self):
        lock, now, most = threading.Lock(), 0, 0

        def count():
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.002)
            with lock:
                now -= 1

        for computes in (False, True):
            with self.subTest(computes=computes), coreshard.Executor(3, computes=computes) as executor:
                for future in [executor.submit(count) for _ in range(60)]:
                    future.result()
                self.assertLessEqual(most, 3)

    def test_a_call_that_waits_for_one_that_has_not_begun_runs_it(self):
        with coreshard.Executor(1) as executor:

            def depth(left):
                return 0 if left == 0 else executor.submit(depth, left - 1).result() + 1

            self.assertEqual(executor.submit(depth, 30).result(), 30)

    def test_executors_that_wait_for_one_another(self):
        with coreshard.Executor(1) as one, coreshard.Executor(1) as other:
            come = threading.Event()
            waits = one.submit(come.wait, 60)
            other.submit(come.set).result()
            self.assertTrue(waits.result())

    def test_threads_are_named_and_keep_their_locals(self):
        local = threading.local()

        def visit():
            local.visits = getattr(local, "visits", 0) + 1
            return threading.current_thread().name, threading.get_ident(), local.visits

        with coreshard.Executor(1, thread_name_prefix="mail") as executor:
            seen = {}
            for _ in range(50):
                name, thread, visits = executor.submit(visit).result()
                self.assertRegex(name, r"^mail_\d+$")
                self.assertEqual(visits, seen.get(thread, 0) + 1)
                seen[thread] = visits

    def test_an_initializer_comes_before_the_calls_of_each_thread(self):
        ready = threading.local()

        def make_ready(value):
            ready.value = value

        with coreshard.Executor(4, initializer=make_ready, initargs=(17,)) as executor:
            self.assertEqual(set(executor.map(lambda _: ready.value, range(100))), {17})

    def test_stacks_are_as_large_as_those_of_pythons_threads(self):
        def size():
            libc, attributes, found = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_size_t()
            libc.pthread_self.restype = ctypes.c_void_p
            libc.pthread_getattr_np(ctypes.c_void_p(libc.pthread_self()), attributes)
            libc.pthread_attr_getstacksize(attributes, ctypes.byref(found))
            libc.pthread_attr_destroy(attributes)
            return found.value

        def of_each():
            found = []
            thread = threading.Thread(target=lambda: found.append(size()))
            thread.start()
            thread.join()
            with coreshard.Executor(2) as executor, coreshard.Workqueue("stacks") as queue:
                return found[0], executor.submit(size).result(), queue.submit(size).result()

        for asked in (0, 32 << 20):
            before = threading.stack_size(asked)
            try:
                threads, executors, queues = of_each()
            finally:
                threading.stack_size(before)
            # Up to guard pages, which some count and some do not.
            self.assertGreaterEqual(executors, threads - (64 << 10))
            self.assertGreaterEqual(queues, threads - (64 << 10))

    def test_a_recursion_without_end_is_an_error(self):
        # The interpreter's own bound of recursion in C counts on the stack that it gives to threads.
        code, out, err = support.run_program("""
import coreshard, sys
sys.setrecursionlimit(1000000 if sys.version_info >= (3, 12) else 6000)
class Deep:
    def __call__(self):
        return self()
with coreshard.Executor(2) as executor:
    print(type(executor.submit(Deep()).exception()).__name__)
""")
        self.assertEqual((code, out, err), (0, "RecursionError\n", ""))

    def test_calls_are_traced_and_profiled_where_new_threads_are(self):
        seen = []

        def traced():
            return sys.gettrace(), sys.getprofile()

        def note(frame, event, _argument):
            if frame.f_code is traced.__code__ and event == "call":
                seen.append(event)

        threading.settrace(note)
        threading.setprofile(note)
        try:
            with coreshard.Executor(2) as executor:
                self.assertEqual(executor.submit(traced).result(), (note, note))
        finally:
            threading.settrace(None)
            threading.setprofile(None)
        self.assertEqual(seen, ["call", "call"])
        with coreshard.Executor(2) as executor:
            self.assertEqual(set(executor.map(lambda _: traced(), range(50))), {(None, None)})

    def test_asyncio_waits_for_it(self):
        async def main(executor):
            loop = asyncio.get_running_loop()
            sums = [loop.run_in_executor(executor, sum, range(n)) for n in range(20)]
            return await asyncio.gather(*sums)

        with coreshard.Executor() as executor:
            self.assertEqual(asyncio.run(main(executor)), [sum(range(n)) for n in range(20)])

    def test_futures_of_both_kinds_are_waited_for_together(self):
        with coreshard.Executor() as ours, concurrent.futures.ThreadPoolExecutor() as theirs:
            mixed = [executor.submit(abs, -n) for n in range(50) for executor in (ours, theirs)]
            done, left = concurrent.futures.wait(mixed, timeout=60)
            self.assertEqual((len(done), len(left)), (100, 0))
            again = sorted(future.result() for future in concurrent.futures.as_completed(mixed, timeout=60))
            self.assertEqual(again, sorted(list(range(50)) * 2))

    def test_a_wait_by_pythons_means_misses_no_end(self):
        # The condition is asked for while the calls run.
        with coreshard.Executor(4) as executor:
            for _ in range(200):
                futures = [executor.submit(int) for _ in range(5)]
                done, left = concurrent.futures.wait(futures, timeout=60)
                self.assertFalse(left)
                self.assertEqual(len(done), 5)

    def test_exceptions_come_with_their_traceback(self):
        def fails():
            raise LookupError("no such thing")

        with coreshard.Executor() as executor:
            future = executor.submit(fails)
            names = []
            try:
                future.result()
            except LookupError as error:
                self.assertIs(future.exception(), error)
                traceback = error.__traceback__
            while traceback:
                names.append(traceback.tb_frame.f_code.co_name)
                traceback = traceback.tb_next
            self.assertIn("fails", names)

    def test_what_ends_the_interpreter_elsewhere_is_a_result_here(self):
        with coreshard.Executor() as executor:
            for kind in (SystemExit, KeyboardInterrupt, GeneratorExit):
                with self.assertRaises(kind):
                    executor.submit(lambda kind=kind: (_ for _ in ()).throw(kind)).result()
            self.assertEqual(executor.submit(int).result(), 0)


class Cancelling(unittest.TestCase):
    def test_what_waits_is_cancelled_and_what_runs_is_not(self):
        with coreshard.Executor(1) as executor:
            begun, go_on = threading.Event(), threading.Event()

            def hold():
                begun.set()
                go_on.wait(60)

            running = executor.submit(hold)
            begun.wait(60)
            waiting = executor.submit(int)
            told = []
            waiting.add_done_callback(told.append)
            self.assertFalse(running.cancel())
            self.assertTrue(waiting.cancel())
            self.assertTrue(waiting.cancel())
            self.assertEqual(told, [waiting])
            go_on.set()
            with self.assertRaises(concurrent.futures.CancelledError):
                waiting.result()
            self.assertIsNone(running.result())

    def test_a_million_cancelled_futures_are_gone(self):
        import resource

        def round_of(count):
            go_on = threading.Event()
            with coreshard.Executor(1) as executor:
                executor.submit(go_on.wait, 60)
                for _ in range(count // 1000):
                    for future in [executor.submit(int) for _ in range(1000)]:
                        assert future.cancel() or future.done()
                go_on.set()

        def memory():
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * resource.getpagesize()

        round_of(1_000_000)
        before = memory()
        round_of(1_000_000)
        # A future takes some 200 bytes: were they kept, 200 MB.
        self.assertLess(memory() - before, 20e6)

    def test_shutdown_cancels_what_waits(self):
        executor = coreshard.Executor(1)
        begun, go_on = threading.Event(), threading.Event()

        def hold():
            begun.set()
            return go_on.wait(60)

        running = executor.submit(hold)
        begun.wait(60)
        waiting = [executor.submit(int) for _ in range(10)]
        executor.shutdown(wait=False, cancel_futures=True)
        with self.assertRaisesRegex(RuntimeError, "cannot schedule new futures after shutdown"):
            executor.submit(int)
        go_on.set()
        self.assertTrue(running.result())
        done, left = concurrent.futures.wait(waiting, timeout=60)
        self.assertFalse(left)
        # At most one, because a worker was on its way for it.
        self.assertGreaterEqual(sum(future.cancelled() for future in done), 9)


class Memory(unittest.TestCase):
    def test_arguments_and_results_go_with_the_future(self):
        class Thing:
            pass

        with coreshard.Executor() as executor:
            argument = Thing()
            gone = weakref.ref(argument)
            future = executor.submit(lambda thing: (Thing(), None)[0], argument)
            result = weakref.ref(future.result())
            del argument
            gc.collect()
            self.assertIsNone(gone())
            self.assertIsNotNone(result())
            del future
            gc.collect()
            self.assertIsNone(result())

    def test_circles_are_collected(self):
        class Holder:
            pass

        gone = []
        for _ in range(3):
            holder = Holder()
            holder.executor = coreshard.Executor(1, initializer=Holder)
            holder.future = holder.executor.submit(lambda holder=holder: holder)
            holder.future.result()
            gone.append(weakref.ref(holder))
            holder.executor.shutdown()
            del holder
        gc.collect()
        self.assertEqual([ref() for ref in gone], [None] * 3)

    def test_an_executor_that_is_dropped_runs_what_it_took(self):
        done = []
        executor = coreshard.Executor(2)
        futures = [executor.submit(done.append, n) for n in range(100)]
        del executor
        concurrent.futures.wait(futures, timeout=60)
        self.assertEqual(sorted(done), list(range(100)))

    def test_nothing_is_kept_of_many_calls(self):
        import tracemalloc

        with coreshard.Executor() as executor:

            def some():
                for future in [executor.submit(dict, a=n) for n in range(5000)]:
                    future.result()

            some()
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            some()
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            self.assertLess(after - before, 50_000)


class Arguments(unittest.TestCase):
    def test_what_cannot_be_is_refused_with_a_reason(self):
        for arguments, why in (((0,), "greater than 0"), ((-3,), "greater than 0")):
            with self.assertRaisesRegex(ValueError, why):
                coreshard.Executor(*arguments)
        with self.assertRaisesRegex(TypeError, "callable"):
            coreshard.Executor(initializer=17)
        with coreshard.Executor() as executor:
            future = executor.submit(int)
            with self.assertRaisesRegex(TypeError, re.escape("number of seconds")):
                executor.submit(time.sleep, 0.2).result(timeout="soon")
            self.assertEqual(future.result(None), 0)

    def test_an_initializer_that_fails_breaks_the_executor(self):
        from concurrent.futures.thread import BrokenThreadPool

        def fail():
            raise LookupError

        logger = concurrent.futures._base.LOGGER
        with self.assertLogs(logger, "CRITICAL"):
            executor = coreshard.Executor(2, initializer=fail)
            future = executor.submit(int)
            with self.assertRaisesRegex(BrokenThreadPool, "initializer"):
                future.result()
        with self.assertRaisesRegex(BrokenThreadPool, "initializer"):
            executor.submit(int)
        executor.shutdown()

    def test_shutdown_inside_of_an_initializer_is_refused(self):
        refused = []

        def initialize():
            with self.assertRaisesRegex(RuntimeError, "inside one of its own calls") as caught:
                executor.shutdown()
            refused.append(caught.exception)

        executor = coreshard.Executor(1, initializer=initialize)
        first = executor.submit(int)
        self.assertEqual(first.result(60), 0)
        executor.shutdown()
        self.assertTrue(refused)

    def test_shutdown_inside_of_a_call_is_refused(self):
        with coreshard.Executor() as executor:
            with self.assertRaisesRegex(RuntimeError, "inside one of its own calls"):
                executor.submit(executor.shutdown).result()


if __name__ == "__main__":
    unittest.main()

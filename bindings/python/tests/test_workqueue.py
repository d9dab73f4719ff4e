"""`coreshard.Workqueue`, `Work` and `Periodic`."""

import gc
import os
import sys
import threading
import time
import unittest
import weakref

import support

import coreshard

support.watch()


class Queues(unittest.TestCase):
    def test_items_run_once_each_and_flush_waits_for_them(self):
        seen = []
        with coreshard.Workqueue("mail") as queue:
            for n in range(1000):
                queue.queue(seen.append, n)
            queue.flush()
            self.assertEqual(sorted(seen), list(range(1000)))
            self.assertEqual((queue.name, queue.capacity), ("mail", None))
            self.assertEqual(queue.stats()["queued"], 1000)
        with self.assertRaisesRegex(RuntimeError, "shut down"):
            queue.queue(int)

    def test_a_call_that_waits_for_its_own_queue_is_told_so(self):
        with coreshard.Workqueue("self") as queue:
            for wait in queue.shutdown, queue.flush, queue.drain:
                with self.assertRaises(RuntimeError):
                    queue.submit(wait).result()
            self.assertEqual(queue.submit(int).result(), 0)

    def test_an_ordered_queue_keeps_the_order(self):
        seen = []
        with coreshard.Workqueue("log", ordered=True) as queue:
            for n in range(2000):
                queue.queue(seen.append, n)
        self.assertEqual(seen, list(range(2000)))

    def test_an_ordered_item_that_waits_for_one_behind_it_is_told_so(self):
        with coreshard.Workqueue("log", ordered=True) as queue:

            def wait(timeout=None):
                behind = queue.submit(int)
                told = []
                for _ in range(2):
                    with self.assertRaisesRegex(RuntimeError, "log.*behind|behind.*log|one at a time"):
                        told.append(behind.result(timeout))
                    with self.assertRaises(RuntimeError):
                        behind.exception(timeout)
                return behind

            for timeout in None, 60:
                behind = queue.submit(wait, timeout).result()
                # It runs all the same, in its turn.
                self.assertEqual(behind.result(), 0)

            own = queue.submit(lambda: own.result())
            with self.assertRaisesRegex(RuntimeError, "itself"):
                own.result()

    def test_an_item_that_waits_for_another_one_lends_its_turn(self):
        with coreshard.Workqueue("turns", max_active=1) as queue:

            def deep(depth):
                return 0 if depth == 0 else 1 + queue.submit(deep, depth - 1).result()

            self.assertEqual(queue.submit(deep, 20).result(), 20)

    def test_an_item_waits_for_another_queue(self):
        with coreshard.Workqueue("first", ordered=True) as first, coreshard.Workqueue("second", ordered=True) as second:
            self.assertEqual(first.submit(lambda: second.submit(sum, [1, 2]).result()).result(), 3)
            self.assertEqual(first.submit(lambda: second.submit(sum, [1, 2]).result(60)).result(), 3)

    def test_submit_gives_a_future(self):
        with coreshard.Workqueue("sums", scope="system", max_active=2) as queue:
            self.assertEqual(queue.submit(sum, [1, 2, 3]).result(), 6)
            with self.assertRaises(ZeroDivisionError):
                queue.submit(divmod, 1, 0).result()

    def test_a_full_queue_refuses_or_waits(self):
        with coreshard.Workqueue("small", capacity=2, max_active=1) as queue:
            begun, go_on = threading.Event(), threading.Event()
            queue.queue(lambda: (begun.set(), go_on.wait(60)))
            begun.wait(60)
            self.assertTrue(queue.try_queue(int) and queue.try_queue(int))
            self.assertFalse(queue.try_queue(int))
            threading.Timer(0.05, go_on.set).start()
            queue.queue(int)

    def test_freeze_and_thaw(self):
        seen = threading.Event()
        with coreshard.Workqueue("held") as queue:
            queue.freeze()
            queue.queue(seen.set)
            self.assertTrue(queue.stats()["is_frozen"])
            self.assertFalse(seen.wait(0.05))
            queue.thaw()
            self.assertTrue(seen.wait(60))

    def test_what_an_item_raises_is_reported(self):
        reported, before = [], sys.unraisablehook
        sys.unraisablehook = lambda report: reported.append(type(report.exc_value))
        try:
            with coreshard.Workqueue() as queue:
                queue.queue(divmod, 1, 0)
        finally:
            sys.unraisablehook = before
        self.assertEqual(reported, [ZeroDivisionError])

    def test_items_run_near_the_cpu_that_is_asked_for(self):
        cpu = min(os.sched_getaffinity(0))
        seen = threading.Event()
        with coreshard.Workqueue("near", scope="cpu", strict=True) as queue:
            queue.queue_on(cpu, seen.set)
            self.assertTrue(seen.wait(60))
            with self.assertRaises(RuntimeError):
                queue.queue_on(100_000, int)

    def test_what_cannot_be_is_refused_with_a_reason(self):
        for attributes, why in (
            ({"scope": "galaxy"}, "scope"),
            ({"shard_size": 0}, "0"),
            ({"cpus": [100_000]}, "CPU"),
        ):
            with self.subTest(**attributes), self.assertRaisesRegex(ValueError, why):
                coreshard.Workqueue("bad", **attributes)
        with coreshard.Workqueue() as queue, self.assertRaisesRegex(ValueError, "invalid delay -1"):
            queue.queue_after(-1, int)

    def test_ctrl_c_ends_a_wait_for_room_and_the_item_is_not_queued(self):
        out = support.run_program(
            """
import coreshard, os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
cpu = min(os.sched_getaffinity(0))
for frozen in False, True:
    with coreshard.Workqueue("small", capacity=1, max_active=1) as queue:
        begun, go_on = threading.Event(), threading.Event()
        if frozen:
            queue.freeze()
        else:
            queue.queue(lambda: (begun.set(), go_on.wait(60)))
            begun.wait(60)
        assert queue.try_queue(print, "taken", flush=True)
        for wait in (
            lambda: queue.queue(print, "refused"),
            lambda: queue.submit(print, "refused"),
            lambda: queue.queue_on(cpu, print, "refused"),
        ):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        assert queue.stats()["capacity_used"] == 1
        go_on.set()
"""
        )
        self.assertEqual(out, (0, "interrupted\n" * 3 + "taken\n" + "interrupted\n" * 3 + "taken\n", ""))

    def test_the_end_of_with_ends_a_freeze(self):
        seen = []
        with self.assertRaises(ZeroDivisionError), coreshard.Workqueue("held") as queue:
            queue.freeze()
            queue.queue(seen.append, 1)
            raise ZeroDivisionError
        self.assertEqual(seen, [1])

    def test_a_queue_that_is_dropped_runs_what_it_took(self):
        seen, last = [], threading.Event()
        queue = coreshard.Workqueue("dropped", max_active=1)
        for n in range(100):
            queue.queue(seen.append, n)
        queue.queue(last.set)
        del queue
        self.assertTrue(last.wait(60))
        self.assertEqual(len(seen), 100)


class Later(unittest.TestCase):
    def test_delayed_work_runs_once_or_is_cancelled(self):
        with coreshard.Workqueue("later") as queue:
            came = threading.Event()
            queue.queue_after(0.01, came.set)
            self.assertTrue(came.wait(60))
            later = queue.queue_after(3600, self.fail)
            self.assertTrue(later.is_pending)
            self.assertTrue(later.cancel())
            self.assertFalse(later.is_pending)
            self.assertFalse(later.cancel())

    def test_work_is_pending_once(self):
        runs = []
        with coreshard.Workqueue("again") as queue:
            work = queue.work(runs.append, 1)
            self.assertTrue(work.queue_after(3600))
            self.assertFalse(work.queue())
            self.assertTrue(work.modify_delay(0.001))
            work.flush()
            self.assertTrue(work.queue())
            work.flush()
            self.assertEqual(runs, [1, 1])
            work.disable()
            with self.assertRaises(RuntimeError):
                work.queue()
            self.assertTrue(work.enable())
            self.assertTrue(work.queue())
            work.cancel_and_wait()
            self.assertFalse(work.is_running or work.is_pending)

    def test_periodic_work_stops(self):
        with coreshard.Workqueue("ticks") as queue:
            third, ticks = threading.Event(), []

            def tick(step):
                ticks.append(step)
                if len(ticks) == 3:
                    third.set()

            with queue.every(0.002, tick, 7, missed="burst"):
                self.assertTrue(third.wait(60))
            count = len(ticks)
            queue.flush()
            self.assertEqual(len(ticks), count)
            self.assertEqual(set(ticks), {7})
            with self.assertRaisesRegex(ValueError, 'invalid missed "never"'):
                queue.every(1, int, missed="never")

    def test_a_circle_with_ticks_is_collected(self):
        class Service:
            def __init__(self, queue):
                self.ticked = threading.Event()
                self.ticks = queue.every(0.0005, self.tick)

            def tick(self):
                self.ticked.set()

        reported, before = [], sys.unraisablehook
        sys.unraisablehook = lambda report: reported.append(report.exc_value)
        try:
            with coreshard.Workqueue("services") as queue:
                for _ in range(50):
                    service = Service(queue)
                    self.assertTrue(service.ticked.wait(60))
                    gc.collect()
                    gone = weakref.ref(service)
                    self.assertTrue(gone() is service)
                    del service
                    for _ in range(100):
                        # One that runs keeps its own.
                        gc.collect()
                        if gone() is None:
                            break
                        time.sleep(0.001)
                    self.assertIsNone(gone())
        finally:
            sys.unraisablehook = before
        self.assertEqual(reported, [])

    def test_a_circle_with_work_is_collected(self):
        class Service:
            def __init__(self, queue):
                self.work = queue.work(self.run)
                self.work.queue()
                self.work.flush()

            def run(self):
                pass

        with coreshard.Workqueue("services") as queue:
            gone = weakref.ref(Service(queue))
            queue.drain()
            gc.collect()
            self.assertIsNone(gone())


class Collected(unittest.TestCase):
    """Garbage that a native thread may still call. The collector clears it object by object, and a weak reference's callback runs
    other threads in between."""

    def of(self, definitions):
        program = (
            """
import coreshard, gc, threading, time, weakref
queue = coreshard.Workqueue("calls")
# Their callbacks run while the collector clears what refers to them.
pauses = []
def pause_in_the_middle(function):
    others = [coreshard.Workqueue("other") for _ in range(3)]
    pauses.extend(weakref.ref(other, lambda _: (paused.set(), time.sleep(0.02))) for other in others)
    others.append(others)
    function.others = others
def scope():
    found = {"coreshard": coreshard, "pause_in_the_middle": pause_in_the_middle, "queue": queue, "called": called}
    exec(DEFINITIONS, found)
    return weakref.ref(found["make"]())
for _ in range(10):
    called, paused = threading.Event(), threading.Event()
    gone = scope()
    while gone() is not None:
        gc.collect()
        time.sleep(0.001)
    assert paused.is_set()
    queue.flush()
print("collected", called.is_set())
""".replace("DEFINITIONS", repr(definitions))
        )
        return support.run_program(program)

    def test_ticks_while_their_call_is_collected(self):
        out = self.of("""
def make():
    def tick():
        called.set()
        len(str(others))
    others = []
    pause_in_the_middle(tick)
    kept = [queue.every(0.0005, tick)]
    kept.append(kept)
    tick.name = "tick"
    called.wait(60)
    return tick
""")
        self.assertEqual(out, (0, "collected True\n", ""))

    def test_work_that_a_finalizer_queues(self):
        out = self.of("""
class Service:
    def __init__(self):
        self.work = queue.work(self.run)
        self.again = 3
        self.own = [self]
        pause_in_the_middle(self)
    def run(self):
        called.set()
        len(str(self.again))
    def __del__(self):
        self.work.queue()
def make():
    return Service()
""")
        self.assertEqual(out, (0, "collected True\n", ""))

    def test_an_initializer_whose_executor_a_finalizer_uses(self):
        out = self.of("""
class Service:
    def __init__(self):
        self.executor = coreshard.Executor(2, initializer=self.begin)
        self.own = [self]
        pause_in_the_middle(self)
    def begin(self):
        called.set()
        len(str(self.own))
    def __del__(self):
        self.executor.submit(self.begin)
def make():
    return Service()
""")
        self.assertEqual(out, (0, "collected True\n", ""))

    def test_a_future_that_a_finalizer_makes(self):
        out = self.of("""
class Service:
    def __init__(self):
        self.own = [self]
        pause_in_the_middle(self)
    def run(self):
        called.set()
        len(str(self.own))
    def __del__(self):
        self.future = queue.submit(self.run)
        self.future.add_done_callback(lambda future: len(str(self.own)))
def make():
    return Service()
""")
        self.assertEqual(out, (0, "collected True\n", ""))


if __name__ == "__main__":
    unittest.main()

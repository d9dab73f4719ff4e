"""The interpreter's end, forks, signals and subinterpreters, each in a separate process."""

import sys
import unittest

import support

support.watch()


class Ends(unittest.TestCase):
    def of(self, program, status=0, **environment):
        code, out, err = support.run_program(program, **environment)
        self.assertEqual(code, status, f"out: {out}\nerr: {err}")
        return out, err

    def test_what_was_taken_is_run_before_the_interpreter_ends(self):
        out, err = self.of("""
import coreshard, time
executor = coreshard.Executor(2)
for n in range(20):
    executor.submit(lambda: (time.sleep(0.01), print("done")))
""")
        self.assertEqual((out.count("done"), err), (20, ""))

    def test_a_call_queues_another_one_while_the_interpreter_ends(self):
        out, err = self.of("""
import coreshard, time
executor = coreshard.Executor(2)
def again():
    time.sleep(0.2)
    try:
        executor.submit(print, "more")
    except RuntimeError as error:
        print(error)
executor.submit(again)
""")
        self.assertEqual((out, err), ("cannot schedule new futures after interpreter shutdown\n", ""))

    def test_queues_and_what_is_due_later_end_with_the_interpreter(self):
        out, err = self.of("""
import coreshard
queue = coreshard.Workqueue("mail")
ticks = queue.every(0.001, int)
later = queue.queue_after(3600, print, "never")
for _ in range(100):
    queue.queue(print, "now")
""")
        # Without Python's lock a line's end may come after another line.
        self.assertEqual((sorted(out), err), (sorted("now\n" * 100), ""))

    def test_what_a_dropped_queue_took_is_run_before_the_interpreter_ends(self):
        out, err = self.of("""
import coreshard, time
def main():
    queue = coreshard.Workqueue("log", ordered=True)
    for n in range(50):
        queue.queue(lambda: (time.sleep(0.005), print("queued")))
    queue.submit(int).add_done_callback(lambda future: print("told", future.result()))
    work = coreshard.Workqueue("again").work(lambda: (time.sleep(0.2), print("worked")))
    work.queue()
    # And one that can no longer be thawed.
    queue = coreshard.Workqueue("held")
    queue.freeze()
    queue.queue(print, "freed")
main()
held = coreshard.Workqueue("held to the end")
held.freeze()
held.queue(print, "thawed at the end")
""")
        counts = [out.count(word) for word in ("queued", "told 0", "worked", "freed", "thawed at the end")]
        self.assertEqual((counts, err), ([50, 1, 1, 1, 1], ""))

    def test_a_queue_that_is_made_too_late_is_refused(self):
        out, err = self.of("""
import atexit, coreshard, threading, time
before = coreshard.Workqueue("before")
def late():
    while True:
        try:
            with coreshard.Workqueue("late") as queue:
                queue.queue(int)
        except RuntimeError as error:
            print(error)
            break
def over():
    try:
        before.queue(int)
    except RuntimeError as error:
        print("shut down" in str(error))
threading.Thread(target=late).start()
atexit.register(over)
atexit.register(late)
""")
        self.assertEqual((out, err), ("cannot take new work after interpreter shutdown\n" * 2 + "True\n", ""))

    def test_odd_orders(self):
        out, err = self.of("""
import atexit, coreshard, gc, threading, weakref
first, second = coreshard.Executor(1), coreshard.Executor(3)
first.submit(second.submit, print, "second").result().result()
second.shutdown(wait=False)
second.shutdown()
second.shutdown(cancel_futures=True)
# An executor that is collected with its own future, in a call of another one.
def drop():
    third = coreshard.Executor(2)
    third.future = third.submit(int)
    third.own = third
first.submit(drop).result()
gc.collect()
# Shut down by a finalizer, by a thread that outlives main, and not at all.
fourth = coreshard.Executor(1)
fourth.submit(int)
weakref.finalize(first, print, "finalized")
threading.Thread(target=lambda: (first.submit(print, "thread").result(), first.shutdown())).start()
atexit.register(fourth.shutdown)
""")
        self.assertEqual((out, err), ("second\nthread\nfinalized\n", ""))

    def test_daemon_threads_inside_of_calls_do_not_break_the_end(self):
        # CPython up to 3.13 ends them where they ask for its lock again.
        program = """
import coreshard, threading, time
executor, queue = coreshard.Executor(2), coreshard.Workqueue("mail")
# Also after the end of the executor.
def again(call):
    while True:
        try:
            call()
        except RuntimeError:
            time.sleep(0)
def calls_back():
    future = executor.submit(time.sleep, 0.001)
    future.add_done_callback(lambda future: sum(range(2000)))
    future.result()
def flushes():
    queue.queue(time.sleep, 0.001)
    queue.flush()
for call in (lambda: executor.submit(int).result(), calls_back, flushes, lambda: executor.submit(time.sleep, 0.002).result()):
    threading.Thread(target=again, args=(call,), daemon=True).start()
time.sleep(0.1)
print("left")
"""
        for _ in range(8):
            self.assertEqual(self.of(program), ("left\n", ""))

    def test_a_result_that_nobody_waits_for_ends_in_silence(self):
        out, err = self.of("""
import coreshard
coreshard.Executor().submit(lambda: 1 / 0)
""")
        self.assertEqual((out, err), ("", ""))

    def test_keyboard_interrupt_ends_a_wait(self):
        out, err = self.of("""
import coreshard, os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
executor = coreshard.Executor(2)
queue = coreshard.Workqueue("slow", max_active=1)
for wait in (lambda future: future.result(), lambda future: executor.shutdown(), lambda future: queue.flush()):
    go_on = threading.Event()
    if wait.__code__.co_names[-1] == "flush":
        queue.queue(go_on.wait, 60)
        future = None
    else:
        future = executor.submit(go_on.wait, 60)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        wait(future)
    except KeyboardInterrupt:
        print("interrupted")
    go_on.set()
""")
        self.assertEqual((out, err), ("interrupted\n" * 3, ""))

    def test_a_signals_handler_runs_in_a_wait(self):
        out, err = self.of("""
import coreshard, os, signal, threading, time
signal.signal(signal.SIGALRM, lambda *_: print("handled", flush=True))
with coreshard.Executor(1) as executor:
    future = executor.submit(time.sleep, 0.5)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    future.result()
    print("over")
""")
        self.assertEqual((out, err), ("handled\nover\n", ""))

    def test_a_forked_process_has_executors_of_its_own(self):
        out, err = self.of("""
import concurrent.futures, coreshard, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
executor = coreshard.Executor(2)
executor.submit(int).result()
go_on = threading.Event()
held = [executor.submit(go_on.wait, 60) for _ in range(4)]
queue = coreshard.Workqueue("parents")
child = os.fork()
if child == 0:
    for attempt in (lambda: executor.submit(int), held[0].result, held[3].result):
        try:
            attempt()
        except concurrent.futures.BrokenExecutor as error:
            print("forked" in str(error), flush=True)
    try:
        queue.queue(int)
    except RuntimeError as error:
        print("fork" in str(error), flush=True)
    executor.shutdown()
    with coreshard.Executor(3) as own:
        print(list(own.map(abs, [-1, -2])), flush=True)
    with coreshard.Workqueue("own") as own:
        own.queue(print, "queued", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
go_on.set()
print([future.result() for future in held])
""")
        self.assertEqual(out, "True\n" * 4 + "[1, 2]\nqueued\n[True, True, True, True]\n", err)

    def test_a_process_is_forked_while_another_thread_makes_an_executor(self):
        out, err = self.of("""
import coreshard, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
try:
    from coreshard.joblib import _shared_executor as shared
except ImportError:
    shared = coreshard.Executor
made = [lambda: coreshard.Executor(3), lambda: coreshard.Executor(40), lambda: coreshard.Executor(computes=True), shared]
children = []
for n in range(40):
    # Each size of a stack is another pool, which takes its time.
    threading.stack_size((1024 + 4 * n) << 10)
    make = made[n % len(made)]
    maker = threading.Thread(target=make)
    maker.start()
    child = os.fork()
    if child == 0:
        os._exit(make().submit(lambda: 7).result())
    children.append(child)
    maker.join()
print({os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children})
""")
        self.assertEqual((out, err), ("{7}\n", ""))

    def test_a_fork_inside_of_a_queues_item_ends_in_the_child(self):
        out, err = self.of("""
import coreshard, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
statuses = []
def fork():
    child = os.fork()
    if child != 0:
        statuses.append(os.waitpid(child, 0)[1])
with coreshard.Workqueue() as queue:
    queue.queue(fork)
    queue.flush()
    queue.work(fork).queue()
    queue.flush()
    ticks = queue.every(0.01, fork)
    while len(statuses) < 3:
        pass
    ticks.stop_and_wait()
with coreshard.Executor(1, initializer=fork) as executor:
    executor.submit(int).result()
print(len(statuses) >= 4, set(statuses))
""")
        self.assertEqual((out, err), ("True {0}\n", ""))

    def test_a_fork_inside_of_a_call_ends_in_the_child(self):
        out, err = self.of("""
import coreshard, os, subprocess, warnings
warnings.simplefilter("ignore", DeprecationWarning)
def fork():
    child = os.fork()
    if child == 0:
        print("child")
        return None
    return os.waitpid(child, 0)[1]
with coreshard.Executor(2) as executor:
    print(executor.submit(fork).result())
    print(executor.submit(subprocess.run, ["true"]).result().returncode)
""")
        self.assertEqual((out, err), ("child\n0\n0\n", ""))

    def test_forked_processes_of_multiprocessing(self):
        out, err = self.of("""
import coreshard, multiprocessing, warnings
warnings.simplefilter("ignore", DeprecationWarning)
executor = coreshard.Executor(4)
list(executor.map(abs, range(100)))
def work(n):
    with coreshard.Executor(2) as own:
        return sum(own.map(abs, range(n)))
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, [10, 20]))
    print(executor.submit(int).result())
""")
        self.assertEqual((out, err), ("[45, 190]\n0\n", ""))

    def test_a_further_interpreter_is_refused_with_a_sentence(self):
        for first in "main", "other":
            with self.subTest(first=first):
                out, _err = self.of(f"""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if {first == "main"}:
    import coreshard
other = interpreters.create()
program = '''
for _ in range(2):
    try:
        import coreshard
    except ImportError as error:
        print("refused:", error, flush=True)
'''
failure = interpreters.run_string(other, program)
assert not failure, failure
interpreters.destroy(other)
import coreshard
print(coreshard.Executor().submit(int).result())
""")
                refused, _, rest = out.rpartition("\n0\n")
                self.assertEqual(refused.count("refused: coreshard needs the main interpreter"), 2, out)
                self.assertEqual((refused.count("\n"), rest), (1, ""))


if __name__ == "__main__":
    unittest.main()

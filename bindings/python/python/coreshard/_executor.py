"""The executor: compiled where calls go by, Python's own where they do not."""

import collections
import concurrent.futures
import itertools
import os
import time
import weakref

from . import _future  # noqa: F401  (it introduces the classes to the compiled half)
from ._native import ExecutorCore


def _usable_cpus():
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0))


class Executor(ExecutorCore, concurrent.futures.Executor):
    """A `concurrent.futures.Executor` on Coreshard's workers.

    It takes `ThreadPoolExecutor`'s place: the same arguments, the same methods, the same exceptions.

    >>> import coreshard
    >>> with coreshard.Executor(max_workers=4) as executor:
    ...     future = executor.submit(sum, [1, 2, 3])
    ...     future.result(timeout=10)
    6

    max_workers: how many calls may be in progress at once; by default the usable CPUs and four more, at most 32, as
        there. With `computes=True`, by default the usable CPUs.
    thread_name_prefix: how `threading.current_thread()` is named in a call, with a number.
    initializer, initargs: called on each thread before its first call. If it fails, the executor is broken.
    computes: the calls use the CPU from begin to end, in native code that releases Python's lock or without such a lock.
        No more workers take calls than `max_workers` at once, and the pools follow the CPUs.

    A call that waits for the result of another one of the same executor, which has not begun, runs it itself: such waits
    do not fill an executor up.
    """

    __slots__ = ()

    def __init__(
        self, max_workers=None, thread_name_prefix="", initializer=None, initargs=(), *, computes=False
    ):
        if max_workers is None:
            cpus = _usable_cpus()
            max_workers = cpus if computes else min(32, cpus + 4)
        self._set_up(max_workers, thread_name_prefix or "coreshard", initializer, tuple(initargs), computes)

    def map(self, fn, *iterables, timeout=None, chunksize=1, buffersize=None):
        """The results of `fn` on each item, in order, as `concurrent.futures.Executor.map`.

        buffersize: how many calls are submitted before their results are asked for; by default all. The rest of the iterables is
            read as results are taken, so they may be long or infinite.
        """
        if buffersize is None:
            return super().map(fn, *iterables, timeout=timeout, chunksize=chunksize)
        if not isinstance(buffersize, int):
            raise TypeError(f"buffersize={buffersize!r}: expected an int, at least 1, or None")
        if buffersize < 1:
            raise ValueError(f"buffersize={buffersize}: expected an int, at least 1, or None")
        end = None if timeout is None else time.monotonic() + timeout
        rest = zip(*iterables)
        ahead = collections.deque(self.submit(fn, *args) for args in itertools.islice(rest, buffersize))
        return _results(ahead, weakref.ref(self), fn, rest, end)


def _results(ahead, executor, fn, rest, end):
    """The results of the calls ahead, each of which makes room for one of the rest. An executor that nobody has any more takes none."""
    try:
        while ahead:
            taker = executor()
            args = None if taker is None else next(rest, None)
            if args is not None:
                ahead.append(taker.submit(fn, *args))
            # Not kept while the caller has the result.
            del taker, args
            yield _take(ahead.popleft(), end)
    finally:
        for future in ahead:
            future.cancel()


def _take(future, end):
    try:
        return future.result(None if end is None else end - time.monotonic())
    finally:
        future.cancel()
        # The exception's traceback leads here.
        del future

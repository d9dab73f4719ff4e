"""The executor: its call path is compiled, and the rest is Python."""

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

    It replaces `ThreadPoolExecutor`, with the same arguments, methods and exceptions.

    >>> import coreshard
    >>> with coreshard.Executor(max_workers=4) as executor:
    ...     future = executor.submit(sum, [1, 2, 3])
    ...     future.result(timeout=10)
    6

    max_workers: maximum number of calls in progress; by default the usable CPUs and four more, at most 32, as
        there. With `computes=True`, by default the usable CPUs.
    thread_name_prefix: prefix of the name of `threading.current_thread()` in a call, before a number.
    initializer, initargs: called on each thread before its first call. If it fails, the executor is broken.
    computes: the calls use the CPU throughout, in native code that releases the GIL or without a GIL. At most
        `max_workers` workers run calls at once, and the pools follow the CPUs.

    A call that waits for another one of the same executor runs it itself if it has not started, so that such waits do
    not exhaust the executor.
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
        """Returns the results of `fn` on each item, in order, as `concurrent.futures.Executor.map`.

        buffersize: number of calls submitted ahead of their results; by default all. The iterables are read as results
            are taken, so they may be long or infinite.
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
    """Yields results and submits one more call for each. Stops submitting once the executor was collected."""
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

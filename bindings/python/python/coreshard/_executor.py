"""The executor: compiled where calls go by, Python's own where they do not."""

import concurrent.futures
import os

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

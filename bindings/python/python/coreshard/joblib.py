"""A joblib backend that runs `Parallel` calls on Coreshard's workers.

>>> import joblib
>>> import coreshard.joblib
>>> coreshard.joblib.register()
>>> with joblib.parallel_backend("coreshard", n_jobs=2):
...     joblib.Parallel()(joblib.delayed(pow)(n, 2) for n in range(4))
[0, 1, 4, 9]

All `Parallel` calls of a process, including nested ones, share one executor, which runs as many calls as there are
usable CPUs. Nested loops therefore do not multiply threads. A call that waits for its own `Parallel` lends its place to
others until they have finished. `n_jobs` limits each `Parallel` call further.
"""

import collections
import contextlib
import os
import queue
import threading

from joblib import register_parallel_backend
from joblib._parallel_backends import (
    FallbackToBackend,
    ParallelBackendBase,
    PoolManagerMixin,
    SequentialBackend,
)

from ._executor import Executor
from ._future import Future

__all__ = ["CoreshardBackend", "register"]

_lock = threading.Lock()
_executors = []


def _begin_anew():
    """Resets the lock in a forked process, as another thread of the parent may have held it."""
    global _lock
    _lock = threading.Lock()
    _executors.clear()


os.register_at_fork(after_in_child=_begin_anew)


def _shared_executor():
    """Returns the executor of the process. A forked process has its own."""
    with _lock:
        if not _executors:
            _executors.append(Executor(thread_name_prefix="joblib", computes=True))
        return _executors[0]


class CoreshardBackend(PoolManagerMixin, ParallelBackendBase):
    """The backend of `parallel_backend("coreshard")`."""

    supports_retrieve_callback = True
    uses_threads = True
    supports_sharedmem = True

    def __init__(self, nesting_level=None, **options):
        super().__init__(nesting_level=nesting_level, **options)
        self._n_jobs = 1
        # For this Parallel: calls held back by its n_jobs, and calls on the executor.
        self._state = threading.Lock()
        self._held = collections.deque()
        self._running = set()

    def configure(self, n_jobs=1, parallel=None, **_options):
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._n_jobs = n_jobs
        return n_jobs

    def submit(self, func, callback=None):
        """Returns a future of the call, which starts when fewer than n_jobs calls of this Parallel are on the executor."""
        call = _Held(func, Future(), callback)
        with self._state:
            if len(self._running) >= self._n_jobs:
                self._held.append(call)
                return call.promise
            self._running.add(call)
        self._start(call)
        return call.promise

    def _start(self, call):
        call.future = _shared_executor().submit(call.func)
        call.future.add_done_callback(lambda future: self._over(call, future))

    def _over(self, call, future):
        with self._state:
            self._running.discard(call)
            following = self._held.popleft() if self._held else None
            if following is not None:
                self._running.add(following)
        if following is not None:
            self._start(following)
        call.end(future)

    def retrieve_result_callback(self, out):
        return out.result()

    def abort_everything(self, ensure_ready=True):
        """Cancels calls that have not started. Running ones continue beside calls of other loops, and their results are
        ignored."""
        self.terminate()
        self._let_running_go(cancels=True)
        # joblib, as of 1.6, keeps items that it took from the iterator and has not dispatched, and would pass them to the next call of
        # the same Parallel, whose results would be among this one's.
        undispatched = getattr(self.parallel, "_ready_batches", None)
        while undispatched is not None:
            try:
                undispatched.get_nowait()
            except queue.Empty:
                break

    def _let_running_go(self, *, cancels):
        """Running calls lend their places to the calls of other loops until they end."""
        with self._state:
            running = [call.future for call in self._running]
        for future in running:
            # None for a call that another thread is about to start.
            if future is not None and not (cancels and future.cancel()):
                _shared_executor()._abandon(future)

    def terminate(self):
        with self._state:
            held = list(self._held)
            self._held.clear()
        for call in held:
            call.promise.cancel()

    def get_nested_backend(self):
        return CoreshardBackend(nesting_level=(self.nesting_level or 0) + 1), None

    @contextlib.contextmanager
    def retrieval_context(self):
        executor = _shared_executor()
        lent = executor._lend()
        try:
            yield
        except BaseException:
            # joblib aborts the loop after this. Waiting for the place below could then block, as the loop's own calls may hold all.
            self._let_running_go(cancels=False)
            raise
        finally:
            if lent:
                executor._reclaim()


class _Held:
    """A call of a Parallel, and joblib's future of it."""

    __slots__ = ("func", "future", "promise")

    def __init__(self, func, promise, callback):
        self.func = func
        # The future of the executor, once submitted.
        self.future = None
        self.promise = promise
        if callback is not None:
            promise.add_done_callback(callback)

    def end(self, future):
        self.func = None
        if future.cancelled():
            self.promise.cancel()
        if not self.promise.set_running_or_notify_cancel():
            return
        error = future.exception()
        if error is None:
            self.promise.set_result(future.result())
        else:
            self.promise.set_exception(error)


def register(make_default=False):
    """Registers the backend with joblib as "coreshard"."""
    register_parallel_backend("coreshard", CoreshardBackend, make_default=make_default)

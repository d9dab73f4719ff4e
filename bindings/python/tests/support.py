"""Shared by the tests: time limits, and programs in separate processes."""

import faulthandler
import os
import signal
import subprocess
import sys

LIMIT = int(os.environ.get("CORESHARD_TEST_LIMIT", "240"))


def watch():
    """Ends this process, with all threads' stacks, where the tests take far too long."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)


def run_program(program, *args, **environment):
    """Returns its exit status, output and errors. Its children end with it."""
    started = subprocess.Popen(
        [sys.executable, "-c", program, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        out, err = started.communicate(timeout=LIMIT / 4)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        out, err = started.communicate()
        err += f"\nnot over after {LIMIT / 4} s"
    return started.returncode, out, err

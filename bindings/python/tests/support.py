"""What the tests share: an end for those that hang, and programs in processes of their own."""

import faulthandler
import os
import subprocess
import sys

LIMIT = int(os.environ.get("CORESHARD_TEST_LIMIT", "240"))


def watch():
    """Ends this process, with all threads' stacks, where the tests take far too long."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)


def run_program(program, *args, **environment):
    """Its exit status, output and errors."""
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr

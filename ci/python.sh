#!/usr/bin/env bash
# Checks bindings/python, which is a separate workspace: its format, its warnings, and a quick part of its tests, with the interpreter
# `python3` (3.10 or later, any build; otherwise skipped with a message). Needs only Python's standard library.
# bindings/python/check.sh tests wheels, the interpreters' own suites, joblib, Dask and the notebook (ci/nightly.sh).
set -euo pipefail
cd "$(dirname "$0")/../bindings/python"

if ! cargo fmt --check; then
  echo "ci/python.sh: some files are not formatted; run: cargo fmt, in bindings/python" >&2
  exit 1
fi
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  echo "SKIPPED bindings/python: $python is no CPython of 3.10 or later"
  exit 0
fi
PYO3_PYTHON=$(command -v "$python")
export PYO3_PYTHON
if [ -n "${CORESHARD_NIGHTLY:-}" ]; then
  # Its dependencies are checked with the workspace.
  cargo clippy -- -D warnings
  exec ./check.sh "$PYO3_PYTHON"
fi
cargo build
target=${CARGO_TARGET_DIR:-target}
# The layout of a wheel.
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
cp -r python/coreshard "$package/"
cp "$target/debug/lib_native.so" "$package/coreshard/_native.abi3.so"
cd tests
export PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1
"$python" -m unittest -q test_executor.Calls test_executor.Memory test_executor.Arguments test_workqueue test_readme
"$python" -m unittest -q test_process.Ends.test_what_was_taken_is_run_before_the_interpreter_ends \
  test_process.Ends.test_what_a_dropped_queue_took_is_run_before_the_interpreter_ends \
  test_process.Ends.test_a_queue_that_is_made_too_late_is_refused \
  test_process.Ends.test_a_process_is_forked_while_another_thread_makes_an_executor \
  test_process.Ends.test_a_forked_process_has_executors_of_its_own test_process.Ends.test_keyboard_interrupt_ends_a_wait

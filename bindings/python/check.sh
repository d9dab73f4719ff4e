#!/usr/bin/env bash
# All that bindings/python is held to: for each interpreter a wheel, the package's tests, the interpreter's own tests of
# executors, joblib's tests with the backend, Dask's with the executor, the notebook, and the types. Needs the network, for Python's packages.
#
# Usage: bindings/python/check.sh [INTERPRETER...]    python3 by default
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${CORESHARD_COMMAND:-}" ]; then
  (cd ../.. && cargo build --release -p coreshard-cli)
  CORESHARD_COMMAND=$(cd ../.. && cargo metadata --format-version 1 --no-deps | grep -o '"target_directory":"[^"]*"' | cut -d'"' -f4)/release/coreshard
fi
export CORESHARD_COMMAND

# has MODULE: for the interpreter at hand.
has() { "$work/$number/bin/python" -c "import $1" 2>/dev/null; }

number=0
for interpreter in "${@:-python3}"; do
  number=$((number + 1))
  echo "=== $("$interpreter" --version)"
  "$interpreter" -m venv "$work/$number"
  python=$work/$number/bin/python
  "$python" -m pip install -q maturin
  "$python" -m maturin build --release -i "$python" -o "$work/wheels-$number"
  "$python" -m pip install -q "$work/wheels-$number"/*.whl
  # What an interpreter has no wheels for is left out by the tests, which say so.
  for package in joblib 'dask[distributed]' pandas pytest mypy 'nbclient ipykernel'; do
    # shellcheck disable=SC2086 # the packages are words
    "$python" -m pip install -q --only-binary :all: $package || echo "SKIPPED: $package cannot be had here"
  done
  (cd tests && "$python" -m unittest -v test_executor test_process test_workqueue test_readme test_joblib test_lab)
  if has test.test_concurrent_futures; then "$python" tests/cpython_suite.py; else echo "SKIPPED: this interpreter is without tests"; fi
  if has joblib && has pytest; then
    # Two of them have the backend's name used in processes of joblib's: it is registered there, too.
    (cd "$work" && PYTHONPATH=$OLDPWD/tests:$OLDPWD/tests/joblib_children "$python" -m pytest -q -p joblib_plug -p no:cacheprovider \
      --pyargs joblib.test.test_parallel -k coreshard)
  fi
  if has dask && has pytest; then
    # Left out are those that fail with a ThreadPoolExecutor as pool, too: they ask what Dask does without one.
    (cd "$work" && PYTHONPATH=$OLDPWD/tests "$python" -m pytest -q -p dask_plug -p no:cacheprovider \
      -k 'not (test_contextvars or array_bag or test_get_scheduler or test_num_workers_config or test_temporary_directory)' --pyargs dask.tests.test_threaded dask.tests.test_delayed dask.tests.test_base dask.bag.tests.test_bag)
  fi
  if has mypy; then "$python" -m mypy --strict tests/types_of_users.py; fi
  if has nbclient; then "$python" docs/execute.py; fi
  "$python" tests/compare.py --quick
done

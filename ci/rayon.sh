#!/usr/bin/env bash
# Runs rayon's published suites on adapters/rayon-core; needs the network. CORESHARD_LONG=1: also demos, other packages' suites and
# third-party programs, which takes two hours. Also tests the adapter without its feature `insight`, which the workspace's tests
# turn on.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test -p rayon-core --test adapter coreshard_environment::
if [ -n "${CORESHARD_LONG:-}" ]; then
  adapters/rayon-core/check.sh all --times 20 --work target/rayon-check
else
  adapters/rayon-core/check.sh core rayon --times 1 --work target/rayon-check
fi

#!/usr/bin/env bash
# What takes longer than a change can wait for: once a night, on main. Each step is a script that runs by
# itself, too. A step that fails does not keep the others from running; the names of those that failed
# stand at the end. Nor does one that hangs: each has its limit (ci/limits.sh).
#
# Usage: ci/nightly.sh [STEP...]    all steps by default, as in: ci/nightly.sh sweep search
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/limits.sh

readonly STEPS='loom memcheck kills sweep search simulated predictions fuzz sanitizers c_sanitizers rayon python aarch64 msrv site commands release newcomer torture layouts traces hyperqueue'

# Steps that a change runs, too, in short, are long at night.
export CORESHARD_NIGHTLY=1

failed=()
for step in ${*:-$STEPS}; do
  if [ ! -x "ci/$step.sh" ]; then
    echo "ci/nightly.sh: there is no step ci/$step.sh; the steps are: $STEPS" >&2
    exit 2
  fi
  printf '\n=== ci/%s.sh\n' "$step"
  started=$SECONDS
  if limited "$(limit_of "$step")" "ci/$step.sh"; then
    printf '=== ci/%s.sh passed in %d s\n' "$step" "$((SECONDS - started))"
  else
    printf '=== ci/%s.sh FAILED after %d s\n' "$step" "$((SECONDS - started))"
    failed+=("$step")
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nfailed: %s\n' "${failed[*]}" >&2
  exit 1
fi

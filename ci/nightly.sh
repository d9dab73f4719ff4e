#!/usr/bin/env bash
# Checks that take too long for each change: run once a night, on main. Each step is a script that also runs by itself. A
# step that fails, or exceeds its limit (ci/limits.sh), does not keep the others from running. The script ends with a
# table of all steps.
#
# Usage: ci/nightly.sh [STEP...]                 all steps by default, as in: ci/nightly.sh sweep search
#        CORESHARD_LONG=1 ci/nightly.sh          the long forms of fuzz, rayon, simulated, sweep and torture: a weekend
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/limits.sh

readonly STEPS='clippy slow_tests loom kills msrv search sweep simulated predictions layouts traces torture memcheck commands site release python sanitizers c_sanitizers rayon aarch64 fuzz newcomer hyperqueue fio_words'

# Steps that each change runs in a short form are long at night.
export CORESHARD_NIGHTLY=1

failed=() table=()
for step in "$@"; do
  if [[ " $STEPS " != *" $step "* ]]; then
    echo "ci/nightly.sh: there is no step '$step'; the steps are: $STEPS" >&2
    exit 2
  fi
done
for step in ${*:-$STEPS}; do
  printf '\n=== ci/%s.sh\n' "$step"
  started=$SECONDS
  if limited "$(limit_of "$step")" "ci/$step.sh"; then
    printf '=== ci/%s.sh passed in %d s\n' "$step" "$((SECONDS - started))"
    table+=("| $step | passed | $((SECONDS - started)) |")
  else
    printf '=== ci/%s.sh FAILED after %d s\n' "$step" "$((SECONDS - started))"
    failed+=("$step")
    table+=("| $step | FAILED | $((SECONDS - started)) |")
  fi
done
printf '\n| step | result | s |\n|---|---|--:|\n'
printf '%s\n' "${table[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nfailed: %s\n' "${failed[*]}" >&2
  exit 1
fi

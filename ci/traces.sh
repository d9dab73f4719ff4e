#!/usr/bin/env bash
# Slow checks of recordings: many threads and very many accesses in bounded memory, and a sample with the same result; and the gain
# that a replay predicts for a fixed layout, compared with the measured gain on this machine.
#
# Usage: ci/traces.sh    lab/two_engines.py, which builds third-party programs, is run by hand
#
# Needs gcc, g++, qemu-x86_64 with plugins (in Debian: qemu-user), and two CPUs for the measurements.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
for program in gcc g++ qemu-x86_64; do command -v "$program" >/dev/null || missing+=("$program"); done
[ "$(nproc)" -ge 2 ] || missing+=('second CPU')
if [ ${#missing[@]} -gt 0 ]; then
  printf 'ci/traces.sh: there is no %s\n' "${missing[@]}" >&2
  exit 1
fi
cargo build --quiet --release -p coreshard-cli
python3 lab/many_threads.py target/release/coreshard 64 225000
# Other work of the machine may disturb one measurement; a wrong prediction is wrong in each.
for turn in 1 2 3; do
  if python3 lab/predict_padding.py target/release/coreshard 3 qemu; then exit 0; fi
  echo "ci/traces.sh: measurement $turn of 3 is not as predicted" >&2
done
exit 1

#!/usr/bin/env bash
# One lesson on the kernels of three Debian releases, 6.1, 6.12 and 7.2 at the time of writing, and their results side by side.
#
# Usage: releases.sh [CPUS] [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cpus=${1:-32} folder=${2:-kernel-lab}
suites=(bookworm trixie sid)
reports=()
for suite in "${suites[@]}"; do
  "$here/priority_index.sh" "$suite" "$cpus" "$folder"
  reports+=("$folder/$suite/cyclic.json")
done
echo
"$here/fields.py" "${reports[@]}" 'pri_to_cpu[0].count' 'pri_to_cpu[99].count' rto_mask rto_count overload nr_running

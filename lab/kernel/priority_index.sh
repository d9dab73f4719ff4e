#!/usr/bin/env bash
# The lesson of the priority index, on the kernel's own code: real-time threads that sleep and wake, each on one of eight
# neighbouring CPUs. Prints where the counts and masks of `cpupri` and their neighbours stand, beside the published report.
#
# Usage: priority_index.sh [SUITE] [CPUS] [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=${1:-sid} cpus=${2:-32} folder=$(realpath -m "${3:-kernel-lab}")
coreshard=${CORESHARD:-coreshard}
. "$here/kernel.sh"
mkdir -p "$folder"
fetch_kernel "$suite" "$folder"
cc -O1 -static -pthread -o "$folder/cyclic" "$here/cyclic.c"
$coreshard kernel record --force -o "$folder/cyclic.trace" --image "$image" --machine "pack:2 numa:1 l3:1 core:$((cpus / 2)) pu:1" \
  --marked "$folder/cyclic" 20
$coreshard replay "$folder/cyclic.trace" --machine xeon-hcc-2s --lines 100 --json "$folder/cyclic.json" --force \
  >"$folder/cyclic.txt"
echo
"$here/fields.py" "$folder/cyclic.json" 'pri_to_cpu[0].count' 'pri_to_cpu[99].count' 'pri_to_cpu[100].count' rto_mask rto_count \
  overloaded
cat <<'T'

published, 2 sockets, 480 CPUs, perf c2c of the root domain:
  third line, offset 0x38 (pri_to_cpu[0].count): loads take 10,000 to 59,000 cycles; with masks on lines of their own 500 to 8,000
  last line (counts and masks of the highest priorities): 1,500 to 10,500 cycles; with the change it leaves the report
T

#!/usr/bin/env bash
# The lesson of SCSI's counters, on the kernel's own code: direct reads from two devices of scsi_debug that share their tags.
# Prints where the devices' counters and the queues' counts of active requests stand, beside the published result.
#
# Usage: scsi.sh [SUITE] [CPUS] [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=${1:-sid} cpus=${2:-32} folder=$(realpath -m "${3:-kernel-lab}")
coreshard=${CORESHARD:-coreshard}
. "$here/kernel.sh"
mkdir -p "$folder"
fetch_kernel "$suite" "$folder"
cc -O1 -static -pthread -o "$folder/reads" "$here/reads.c"
$coreshard kernel record --force -o "$folder/scsi.trace" --image "$image" --machine "pack:2 numa:1 l3:1 core:$((cpus / 2)) pu:1" \
  --modules "$modules" --module sd_mod \
  --module "scsi_debug fake_rw=1 delay=0 max_luns=2 submit_queues=$cpus max_queue=128 host_max_queue=128 dev_size_mb=64" \
  --program "$folder/reads" --marked -- sh -c 'sleep 2; reads 200 /dev/sda /dev/sdb'
$coreshard replay "$folder/scsi.trace" --machine epyc-9654-2s --lines 100 --json "$folder/scsi.json" --force >"$folder/scsi.txt"
echo
"$here/fields.py" "$folder/scsi.json" iorequest_cnt iodone_cnt nr_active_requests_shared_tags
cat <<'T'

published, two sockets, fio randread 4 KiB, direct:
  iorequest_cnt and iodone_cnt share a line, and so do nr_active_requests_shared_tags and its neighbours
  6,255 thousand IOPS; 6,653 with the counters on lines of their own; runs differ by 37 % and 15 %
T

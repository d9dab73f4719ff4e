#!/usr/bin/env bash
# The lesson of SCSI's counters, on the kernel's own code: direct reads from two devices of scsi_debug that share their tags,
# and from two of null_blk, which have no such counters. Prints where the devices' counters and the queues' counts of active
# requests stand, beside the published result.
#
# Usage: scsi.sh [SUITE] [CPUS] [FOLDER]
set -euo pipefail
. "$(dirname "$0")/kernel.sh"
lesson "$@"
load reads
record scsi "$machine" --module sd_mod \
  --module "scsi_debug fake_rw=1 delay=0 max_luns=2 submit_queues=$cpus max_queue=128 host_max_queue=128 dev_size_mb=64" \
  --program "$folder/reads" -- sh -c 'sleep 2; reads 200 /dev/sda /dev/sdb'
for field in iodone_cnt nr_active_requests_shared_tags; do replay scsi epyc-9654-2s "$field" --apart $field; done
replay scsi epyc-9654-2s "" --apart iodone_cnt --apart nr_active_requests_shared_tags
record null "$machine" \
  --module "null_blk nr_devices=2 shared_tags=1 submit_queues=$cpus hw_queue_depth=128 irqmode=0 memory_backed=0 gb=1" \
  --program "$folder/reads" -- sh -c 'reads 200 /dev/nullb0 /dev/nullb1'
replay null epyc-9654-2s
for name in scsi null; do
  echo
  echo "$name:"
  "$here/fields.py" "$folder/$name.json" iorequest_cnt iodone_cnt nr_active_requests_shared_tags
done
echo
for field in iodone_cnt nr_active_requests_shared_tags; do
  echo "$field: $(grep 'on separate lines:' "$folder/scsi-$field.txt")"
done
echo "both: $(grep 'on separate lines:' "$folder/scsi.txt")"
cat <<'T'

published, two sockets, fio randread 4 KiB, direct:
  iorequest_cnt and iodone_cnt share a line, and so do nr_active_requests_shared_tags and its neighbours
  6,255 thousand IOPS; 6,653 with the counters on lines of their own; runs differ by 37 % and 15 %
T

#!/usr/bin/env bash
# The lessons of the work queues and of the wake-ups, on the kernel's own code: every CPU queues one item and waits for it,
# again and again, on an unbound queue with each affinity scope in turn. Prints the predicted speed of each scope beside the
# published one, where the pool's lock and the counts of active items stand, and what each scope would gain if the lock were
# released before a worker is woken.
#
# Usage: workqueue.sh [SUITE] [CPUS] [FOLDER]
set -euo pipefail
. "$(dirname "$0")/kernel.sh"
lesson "${1:-sid}" "${2:-72}" "${3:-kernel-lab}"
items=20
# All CPUs are behind one cache, as on the machine of the published figures.
machine="pack:1 numa:1 l3:1 core:$cpus pu:1"
load workqueue
build_module workqueue_module
for scope in ${SCOPES:-cpu smt cache_shard cache numa system}; do
  echo "scope $scope"
  record "workqueue-$scope" "$machine" --module "$folder/workqueue_module.ko" "$folder/workqueue" "$scope" $items
  replay "workqueue-$scope" grace
  replay "workqueue-$scope" grace early --unlock-before worker_pool:try_to_wake_up
done
echo
"$here/scopes.py" "$folder" $((cpus * items))

//! CPUs, caches and NUMA nodes of a machine, and the pods of each affinity scope.
#![forbid(unsafe_code)]

//! This machine, or one described by a string, and its pods.

use std::ffi::{CString, c_char, c_int, c_uint};

use coreshard::topology::{Pods, ShardSize};
use coreshard::{CpuId, Scope, Topology};

use crate::error::{Failure, Outcome, guard, guard_pointer};
use crate::given::{free, given, number, text};
use crate::queue::{cpus, scope};

/// A machine's CPUs, caches and nodes. Made by `cs_topology_host` or `cs_topology_parse`, freed by `cs_topology_free`.
pub struct CsTopology {
    topology: Topology,
}

/// A machine's CPUs, divided into pods, whose CPUs share a pool of workers. Made by `cs_pods`, freed by `cs_pods_free`.
pub struct CsPods {
    pods: Pods,
    /// CPU lists by pod.
    cpus: Vec<CString>,
}

/// Reads this machine. Returns null, and sets errno, on failure.
#[unsafe(no_mangle)]
pub extern "C" fn cs_topology_host() -> *mut CsTopology {
    guard_pointer(|| {
        let topology = Topology::host();
        let topology = topology.map_err(|error| Failure::new(libc::ENODEV, error.to_string()))?;
        Ok(Box::new(CsTopology { topology }))
    })
}

/// Returns another machine: a preset's name, or a description such as "pack:2 numa:1 l3:4 core:8 pu:2". Returns null,
/// and sets errno, if it is invalid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_topology_parse(machine: *const c_char) -> *mut CsTopology {
    guard_pointer(|| {
        let text = text(given(machine, "machine")?).unwrap_or_default();
        let topology = Topology::parse_machine(&text);
        let topology = topology.map_err(|error| Failure::invalid(error.to_string()))?;
        Ok(Box::new(CsTopology { topology }))
    })
}

/// Frees a machine. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_topology_free(topology: *mut CsTopology) {
    free(topology);
}

fn topology<'call>(topology: *const CsTopology) -> Outcome<&'call Topology> {
    Ok(&given(topology, "topology")?.topology)
}

/// Returns the number of online CPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_topology_cpus(machine: *const CsTopology) -> c_int {
    guard(|| Ok(number(topology(machine)?.online().len())))
}

/// Returns the number of last-level caches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_topology_llcs(machine: *const CsTopology) -> c_int {
    guard(|| Ok(number(topology(machine)?.llcs())))
}

/// Returns the number of nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_topology_nodes(machine: *const CsTopology) -> c_int {
    guard(|| Ok(number(topology(machine)?.nodes())))
}

/// Divides a machine's CPUs, or those in `mask` ("0-3,8"), into pods by a scope (`enum cs_scope`). `shard_size` is the
/// target number of cores in a cache shard, 0 for the default. Returns null, and sets errno, if a CPU does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_pods(
    machine: *const CsTopology,
    scope_of: c_int,
    shard_size: c_uint,
    mask: *const c_char,
) -> *mut CsPods {
    guard_pointer(|| {
        let topology = topology(machine)?;
        let scope = scope(scope_of)?.unwrap_or(Scope::CacheShard);
        let mask = cpus(mask)?.unwrap_or_else(|| topology.online().clone());
        let size = match shard_size {
            0 => ShardSize::default(),
            cores => ShardSize::new(cores as usize),
        };
        let pods = Pods::new(topology, &mask, scope, size);
        let pods = pods.map_err(|error| Failure::invalid(error.to_string()))?;
        let text = |pod: &coreshard::topology::Pod| CString::new(pod.cpus.to_string());
        let cpus = pods.iter().map(text).collect::<Result<_, _>>();
        let cpus = cpus.map_err(|error| Failure::invalid(error.to_string()))?;
        Ok(Box::new(CsPods { pods, cpus }))
    })
}

/// Frees pods. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_pods_free(pods: *mut CsPods) {
    free(pods);
}

/// Returns the number of pods.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_pods_count(pods: *const CsPods) -> c_int {
    guard(|| Ok(number(pods_of(pods)?.pods.len())))
}

fn pods_of<'call>(pods: *const CsPods) -> Outcome<&'call CsPods> {
    // SAFETY: C guarantees that the pods exist, or are null.
    unsafe { pods.as_ref() }.ok_or_else(|| Failure::invalid("the pods are a null pointer"))
}

/// Returns the pod of a CPU, from 0; -ENOENT outside the mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_pod_of(pods: *const CsPods, cpu: c_uint) -> c_int {
    guard(|| {
        let pod = pods_of(pods)?.pods.pod_of(CpuId(cpu));
        let none = || Failure::new(libc::ENOENT, format!("CPU {cpu} is in none of the pods"));
        Ok(number(pod.ok_or_else(none)?.index()))
    })
}

/// Returns a pod's CPUs, as "0-3,8", valid as long as the pods; null if there is no such pod.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_pod_cpus(pods: *const CsPods, pod: c_uint) -> *const c_char {
    // SAFETY: C guarantees that the pods exist, or are null.
    let cpus = unsafe { pods.as_ref() }.and_then(|pods| pods.cpus.get(pod as usize));
    cpus.map_or(std::ptr::null(), |cpus| cpus.as_ptr())
}

//! Hosts and targets: resources that devices share.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;

use coreshard::block::{HostAdapter, HostOptions, Target};
use coreshard::{NodeId, ProcessGeneration};

use crate::block::{CsBlockDevice, device_on, file, memory};
use crate::error::{Failure, Outcome, guard_done, guard_pointer};
use crate::given::{free, given, text};

/// An adapter: the tags that the devices of its targets share, and the threads that may have queues to them. Made by
/// `cs_block_host`.
pub struct CsBlockHost {
    host: Arc<HostAdapter>,
    made_in: ProcessGeneration,
}

/// Devices of a host that are added and removed together, such as the devices of an enclosure. Made by
/// `cs_block_target`.
pub struct CsBlockTarget {
    target: Arc<Target>,
    made_in: ProcessGeneration,
}

fn is_of_this_process(made_in: &ProcessGeneration, what: &str) -> Outcome<()> {
    if made_in.is_current() {
        return Ok(());
    }
    let message =
        format!("this process was forked from the one that made the {what}: make it again here");
    Err(Failure::new(libc::ECHILD, message))
}

fn host_of<'a>(host: *mut CsBlockHost) -> Outcome<&'a Arc<HostAdapter>> {
    let host = given(host, "host")?;
    is_of_this_process(&host.made_in, "host")?;
    Ok(&host.host)
}

fn target_of<'a>(target: *mut CsBlockTarget) -> Outcome<&'a Arc<Target>> {
    let target = given(target, "target")?;
    is_of_this_process(&target.made_in, "target")?;
    Ok(&target.target)
}

/// Creates a host whose devices together have at most `depth` requests in flight (0 for the default, 128), with a fair
/// share for each. `threads` is the number of threads, each with a queue per device. `node` is the NUMA node for shared
/// state (negative if unknown).
#[unsafe(no_mangle)]
pub extern "C" fn cs_block_host(depth: c_uint, threads: c_uint, node: c_int) -> *mut CsBlockHost {
    guard_pointer(|| {
        let mut options = HostOptions {
            threads: threads.max(1) as usize,
            node: u32::try_from(node).ok().map(NodeId),
            ..HostOptions::default()
        };
        if depth != 0 {
            options.depth = depth;
        }
        let host = HostAdapter::new(options)?;
        Ok(Box::new(CsBlockHost { host, made_in: ProcessGeneration::current() }))
    })
}

/// Frees a host. Its targets and devices remain. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_host_free(host: *mut CsBlockHost) {
    free(host);
}

/// Creates a target of a host, whose devices together have at most `max_in_flight` requests in flight; 0 for the host's
/// limit only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_target(
    host: *mut CsBlockHost,
    name: *const c_char,
    max_in_flight: c_uint,
) -> *mut CsBlockTarget {
    guard_pointer(|| {
        let host = host_of(host)?;
        let name = text(given(name, "name")?).unwrap_or_default();
        let target = match max_in_flight {
            0 => host.target(&name),
            limit => host.target_with_limit(&name, limit)?,
        };
        Ok(Box::new(CsBlockTarget { target, made_in: ProcessGeneration::current() }))
    })
}

/// Takes all devices of a target offline. They accept no more requests. Waiting requests fail when their queue is
/// polled next, and requests in the device finish.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_target_set_offline(target: *mut CsBlockTarget) -> c_int {
    guard_done(|| {
        target_of(target)?.set_offline();
        Ok(())
    })
}

/// Frees a target. Its devices remain. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_target_free(target: *mut CsBlockTarget) {
    free(target);
}

/// As `cs_block_open`, as a device of a target, for the threads of its host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_open_on(
    target: *mut CsBlockTarget,
    path: *const c_char,
    flags: c_uint,
) -> *mut CsBlockDevice {
    guard_pointer(|| {
        let target = target_of(target)?;
        device_on(target, file(path, flags)?.0)
    })
}

/// As `cs_block_memory`, as a device of a target, for the threads of its host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_memory_on(
    target: *mut CsBlockTarget,
    bytes: u64,
) -> *mut CsBlockDevice {
    guard_pointer(|| device_on(target_of(target)?, memory(bytes)?))
}

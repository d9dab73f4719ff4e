//! Queues: creation, changes, waiting, destruction.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::time::Duration;

use coreshard::{Builder, Change, CpuSet, Priority, ProcessGeneration, Scope, Workqueue};

use crate::check;
use crate::error::{Failure, Outcome, guard, guard_done, guard_pointer};
use crate::given::{sized, text};

/// A queue of works. Made by `cs_alloc_workqueue`, freed by `cs_destroy_workqueue`.
pub struct CsWorkqueue {
    pub(crate) queue: Workqueue,
    /// For `cs_workqueue_name`.
    name: CString,
    made_in: ProcessGeneration,
    /// Created or last changed with `CS_WQ_PERCPU`: the limit is per CPU.
    is_per_cpu: AtomicBool,
}

impl CsWorkqueue {
    /// Checks the queue pointer.
    #[inline(always)]
    pub(crate) fn of<'call>(queue: *mut Self) -> Outcome<&'call Self> {
        if check::is_on() {
            check::is_alive(queue.addr());
        }
        match NonNull::new(queue) {
            // SAFETY: C says that it is one, and not destroyed.
            Some(queue) => Ok(unsafe { queue.as_ref() }),
            None => Err(no_queue()),
        }
    }

    /// The name in reports of the checking mode.
    pub(crate) fn checked_name(&self) -> CString {
        CString::new(self.queue.name()).unwrap_or_default()
    }
}

#[cold]
fn no_queue() -> Failure {
    Failure::invalid(
        "the workqueue is a null pointer: if creating it failed, cs_last_error had the reason",
    )
}

/// Works run one at a time, in order, across all CPUs.
pub const CS_WQ_ORDERED: c_uint = 1 << 0;
/// A rescuer exists from the start, for when no worker can be started. The queue does not share its pools.
pub const CS_WQ_MEM_RECLAIM: c_uint = 1 << 1;
/// Workers have the nice value -20. An error (EAGAIN) if that is not permitted, unless the next flag is set.
pub const CS_WQ_HIGHPRI: c_uint = 1 << 2;
/// With `CS_WQ_HIGHPRI`: use normal priority if that is not permitted.
pub const CS_WQ_HIGHPRI_IF_ALLOWED: c_uint = 1 << 3;
/// A work runs on the CPU that queued it: the scope `cpu`, strictly. `max_active` is per CPU.
pub const CS_WQ_PERCPU: c_uint = 1 << 4;
/// As `max_active` of `cs_change_workqueue`: keep the limit.
pub const CS_MAX_ACTIVE_KEPT: c_int = -1;
const ALL_FLAGS: c_uint =
    CS_WQ_ORDERED | CS_WQ_MEM_RECLAIM | CS_WQ_HIGHPRI | CS_WQ_HIGHPRI_IF_ALLOWED | CS_WQ_PERCPU;

/// Which CPUs share a pool of workers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsScope {
    /// `CS_SCOPE_CACHE_SHARD`.
    Default = 0,
    Cpu = 1,
    Smt = 2,
    CacheShard = 3,
    Cache = 4,
    Numa = 5,
    System = 6,
}

/// Returns a scope by number: C enumerations may hold any.
pub(crate) fn scope(given: c_int) -> Outcome<Option<Scope>> {
    Ok(Some(match given {
        0 => return Ok(None),
        1 => Scope::Cpu,
        2 => Scope::Smt,
        3 => Scope::CacheShard,
        4 => Scope::Cache,
        5 => Scope::Numa,
        6 => Scope::System,
        _ => {
            return Err(Failure::invalid(format!(
                "invalid scope {given}: expected 0 (the default) to 6 (system)"
            )));
        }
    }))
}

/// The attributes of a queue; zeros are the defaults. Initialize them with `CS_WORKQUEUE_ATTRS_INIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CsWorkqueueAttrs {
    /// `sizeof(struct cs_workqueue_attrs)`, so that later versions may have more members.
    pub size: usize,
    /// Flags `CS_WQ_…`, combined with `|`.
    pub flags: c_uint,
    /// An `enum cs_scope`.
    pub scope: c_int,
    /// Target number of cores in a cache shard; 0 for the default (8).
    pub shard_size: c_uint,
    /// Not 0 if workers must stay in their pod.
    pub strict: c_int,
    /// Maximum number of running works, in the whole queue, or per CPU with `CS_WQ_PERCPU`; 0 for no limit.
    pub max_active: c_int,
    /// As `max_active`, divided among the nodes; 0 for no limit.
    pub max_active_by_node: c_int,
    /// 1 if `nice` is set.
    pub has_nice: c_int,
    /// The workers' nice value, -20 to 19.
    pub nice: c_int,
    /// The CPUs to use, as "0-3,8"; null for all.
    pub cpus: *const c_char,
    /// Stack size of workers, at least 64 KiB; 0 for the C library's default, at least 2 MiB.
    pub stack_bytes: usize,
}

/// Reads the attributes. Members unknown to an older program are 0.
fn attributes(given: *const CsWorkqueueAttrs) -> Outcome<CsWorkqueueAttrs> {
    if given.is_null() {
        return Ok(CsWorkqueueAttrs::zeroed());
    }
    // SAFETY: all zeros are the defaults, and numbers and addresses may be any.
    let read = unsafe { sized(given, "the attributes have", "them with CS_WORKQUEUE_ATTRS_INIT") }?;
    let unknown = read.flags & !ALL_FLAGS;
    if unknown != 0 {
        let message = format!("invalid workqueue flags {unknown:#x}: expected CS_WQ_ flags");
        return Err(Failure::invalid(message));
    }
    Ok(read)
}

impl CsWorkqueueAttrs {
    fn zeroed() -> Self {
        // SAFETY: all zeros are the defaults.
        unsafe { std::mem::zeroed() }
    }
}

/// Reads a count that C gives as an int: 0 for none.
fn count(given: c_int, what: &str) -> Outcome<Option<usize>> {
    match usize::try_from(given) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(_) => Err(Failure::invalid(format!(
            "invalid {what} {given}: expected 0 for no limit, or more"
        ))),
    }
}

fn nice(attributes: &CsWorkqueueAttrs) -> Outcome<Option<i8>> {
    if attributes.has_nice == 0 {
        return Ok(None);
    }
    let given = attributes.nice;
    let nice = i8::try_from(given).ok().filter(|nice| (-20..=19).contains(nice));
    nice.map(Some)
        .ok_or_else(|| Failure::invalid(format!("invalid nice {given}: expected -20 to 19")))
}

pub(crate) fn cpus(given: *const c_char) -> Outcome<Option<CpuSet>> {
    let cpus = text(given).map(|text| text.parse::<CpuSet>()).transpose();
    cpus.map_err(|error| Failure::invalid(error.to_string()))
}

/// Returns the C library's default stack size (usually from `ulimit -s`), which code moved from other threads may need.
fn stack_of_threads() -> usize {
    const LEAST: usize = 2 << 20;
    let (mut attributes, mut bytes) = (MaybeUninit::uninit(), 0);
    // SAFETY: the first call initializes the attributes if it succeeds, and the others read and destroy them.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) == 0 {
            libc::pthread_attr_getstacksize(attributes.as_ptr(), &raw mut bytes);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
    }
    bytes.max(LEAST)
}

fn build(
    name: *const c_char,
    attributes: &CsWorkqueueAttrs,
    is_high: bool,
) -> Outcome<Box<CsWorkqueue>> {
    // SAFETY: C says that it is a string, or null.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    let name = name.unwrap_or(c"workqueue").to_owned();
    let has = |flag| attributes.flags & flag != 0;
    let mut builder: Builder<'_> = coreshard::workqueue()?.name(name.to_string_lossy());
    let is_per_cpu = has(CS_WQ_PERCPU);
    if let Some(scope) = scope(attributes.scope)?.or(is_per_cpu.then_some(Scope::Cpu)) {
        builder = builder.scope(scope);
    }
    if attributes.shard_size != 0 {
        builder = builder.shard_size(attributes.shard_size as usize);
    }
    builder = builder.strict(attributes.strict != 0 || is_per_cpu).rescuer(has(CS_WQ_MEM_RECLAIM));
    if let Some(nice) = nice(attributes)? {
        builder = builder.nice(nice);
    }
    builder = builder.stack_bytes(match attributes.stack_bytes {
        0 => stack_of_threads(),
        bytes => bytes,
    });
    if is_high {
        builder = builder.priority(Priority::High);
    }
    if let Some(cpus) = cpus(attributes.cpus)? {
        builder = builder.cpu_mask(cpus);
    }
    if let Some(most) = count(attributes.max_active, "max_active")? {
        builder = match is_per_cpu {
            true => builder.max_active_of_each_pod(most),
            false => builder.max_active(most),
        };
    }
    if let Some(most) = count(attributes.max_active_by_node, "max_active_by_node")? {
        builder = builder.max_active_by_node(most);
    }
    if has(CS_WQ_ORDERED) {
        builder = builder.ordered();
    }
    Ok(Box::new(CsWorkqueue {
        queue: builder.build()?,
        name,
        made_in: ProcessGeneration::current(),
        is_per_cpu: AtomicBool::new(is_per_cpu),
    }))
}

fn alloc(name: *const c_char, attributes: &CsWorkqueueAttrs) -> Outcome<Box<CsWorkqueue>> {
    let is_high = attributes.flags & CS_WQ_HIGHPRI != 0;
    let made = match build(name, attributes, is_high) {
        Err(_) if is_high && attributes.flags & CS_WQ_HIGHPRI_IF_ALLOWED != 0 => {
            build(name, attributes, false)
        }
        made => made,
    }?;
    if check::is_on() {
        check::made(std::ptr::from_ref(&*made).addr());
    }
    Ok(made)
}

/// Creates a queue with flags (`CS_WQ_…`) and a maximum number of running works, 0 for no limit. Returns null on
/// failure: errno and `cs_last_error` have the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_alloc_workqueue(
    name: *const c_char,
    flags: c_uint,
    max_active: c_int,
) -> *mut CsWorkqueue {
    guard_pointer(|| {
        let size = size_of::<CsWorkqueueAttrs>();
        let given = CsWorkqueueAttrs { size, flags, max_active, ..CsWorkqueueAttrs::zeroed() };
        alloc(name, &attributes(&raw const given)?)
    })
}

/// Creates a queue with attributes. Returns null on failure: errno and `cs_last_error` have the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_alloc_workqueue_attrs(
    name: *const c_char,
    attrs: *const CsWorkqueueAttrs,
) -> *mut CsWorkqueue {
    guard_pointer(|| alloc(name, &attributes(attrs)?))
}

/// Sets this limit, per queue or per CPU.
fn limited(change: Change, is_per_cpu: bool, most: Option<usize>) -> Change {
    match most {
        Some(most) if is_per_cpu => change.max_active_of_each_pod(most),
        most => change.max_active(most),
    }
}

/// Keeps the limit of the queue.
fn kept(change: Change, queue: &CsWorkqueue, is_per_cpu: bool) -> Outcome<Change> {
    if is_per_cpu == queue.is_per_cpu.load(Relaxed) {
        return Ok(change);
    }
    Err(Failure::invalid(
        "invalid max_active CS_MAX_ACTIVE_KEPT: CS_WQ_PERCPU changes, so the limit would have another meaning; expected 0 for no limit, or more",
    ))
}

/// Changes all attributes of a queue in use. Running works are not affected, later ones follow the attributes. Whether
/// the queue is ordered, `CS_WQ_MEM_RECLAIM`, the stack size and the name do not change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_change_workqueue(
    queue: *mut CsWorkqueue,
    attrs: *const CsWorkqueueAttrs,
) -> c_int {
    guard(|| {
        let queue = CsWorkqueue::of(queue)?;
        let given = attributes(attrs)?;
        let is_per_cpu = given.flags & CS_WQ_PERCPU != 0;
        let mut change = queue.queue.change();
        if let Some(scope) = scope(given.scope)?.or(is_per_cpu.then_some(Scope::Cpu)) {
            change = change.scope(scope);
        }
        if given.shard_size != 0 {
            change = change.shard_size(given.shard_size as usize);
        }
        change = change.strict(given.strict != 0 || is_per_cpu);
        change = change.cpu_mask(cpus(given.cpus)?).nice(nice(&given)?);
        if given.flags & CS_WQ_HIGHPRI != 0 {
            change = change.priority(Priority::High);
        }
        if given.flags & CS_WQ_ORDERED == 0 {
            change = match count(given.max_active_by_node, "max_active_by_node")? {
                Some(most) => change.max_active_by_node(most),
                None if given.max_active == CS_MAX_ACTIVE_KEPT => kept(change, queue, is_per_cpu)?,
                None => limited(change, is_per_cpu, count(given.max_active, "max_active")?),
            };
        }
        change.apply()?;
        queue.is_per_cpu.store(is_per_cpu, Relaxed);
        Ok(0)
    })
}

/// Returns 1 if the queue was created, or last changed, with `CS_WQ_PERCPU`, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_workqueue_is_percpu(queue: *mut CsWorkqueue) -> c_int {
    guard(|| Ok(CsWorkqueue::of(queue)?.is_per_cpu.load(Relaxed).into()))
}

/// Changes the maximum number of running works, per queue or with `CS_WQ_PERCPU` per CPU, 0 for no limit. Waiting works
/// may start at once. -EINVAL for an ordered queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_workqueue_set_max_active(
    queue: *mut CsWorkqueue,
    max_active: c_int,
) -> c_int {
    guard_done(|| {
        let most = count(max_active, "max_active")?;
        let queue = CsWorkqueue::of(queue)?;
        Ok(limited(queue.queue.change(), queue.is_per_cpu.load(Relaxed), most).apply()?)
    })
}

/// Returns the queue's name, valid as long as the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_workqueue_name(queue: *mut CsWorkqueue) -> *const c_char {
    match CsWorkqueue::of(queue) {
        Ok(queue) => queue.name.as_ptr(),
        Err(failure) => {
            failure.tell();
            c"".as_ptr()
        }
    }
}

/// Waits until all works queued earlier have finished. Does not wait for later ones, or for delayed works that are not
/// due. -EDEADLK inside one of the queue's own works.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_flush_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.flush()?))
}

/// Waits until the queue is empty. Meanwhile only its own works may queue more; other callers get -EBUSY. -EDEADLK
/// inside one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_drain_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.drain()?))
}

/// Prevents further works from starting, until `cs_thaw_workqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_freeze_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.freeze()?))
}

/// Starts the works that waited since `cs_freeze_workqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_thaw_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.thaw()?))
}

/// Runs all queued works, and frees the queue. A delayed work that is not due stays pending until then and is dropped:
/// cancel it earlier, or move it to another queue with `cs_mod_delayed_work`. -EDEADLK inside one of the queue's own
/// works, without effect. After a fork, nothing is run. -EINVAL for a queue of `cs_system_workqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_destroy_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard(|| {
        let its = CsWorkqueue::of(queue)?;
        let inner = &its.queue;
        if SYSTEM.iter().any(|place| place.load(Acquire) == queue) {
            return Err(Failure::invalid(format!(
                "cannot destroy workqueue {:?}, which belongs to the process: drain it, or create one with cs_alloc_workqueue",
                inner.name()
            )));
        }
        match inner.flush_timeout(Duration::ZERO) {
            Err(error) if !error.is_timeout() => {
                if inner.flush().is_err_and(|error| error.is_forked()) {
                    // Its workers are in another process, and its locks may be held forever.
                    return Ok(0);
                }
                if check::is_on() {
                    check::destroyed_inside(&its.checked_name());
                }
                return Err(error.into());
            }
            _ => {}
        }
        inner.thaw()?;
        inner.drain()?;
        // Delayed works hold the queue as well, and must find it shut down.
        while inner.shutdown(Duration::from_secs(3600)).is_err() {}
        if check::is_on() {
            check::destroyed(queue.addr(), its.checked_name());
            return Ok(0);
        }
        // SAFETY: made by `Box::into_raw`, and C says that it is used no more.
        drop(unsafe { Box::from_raw(queue) });
        Ok(0)
    })
}

/// Queues of the whole process, which are never destroyed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsSystemWorkqueue {
    /// In pods of the default scope.
    Default = 0,
    /// As `Default`, with `CS_WQ_HIGHPRI` if permitted.
    Highpri = 1,
    /// On the CPU that queues a work: `CS_WQ_PERCPU`.
    Percpu = 2,
    /// In pods of the scope `numa`: few workers, awake together.
    PowerEfficient = 3,
    /// As `Percpu`, with `CS_WQ_HIGHPRI` if permitted.
    PercpuHighpri = 4,
}

/// The queues created so far, by [`CsSystemWorkqueue`].
static SYSTEM: [AtomicPtr<CsWorkqueue>; 5] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 5];

/// Returns a queue of the process (`enum cs_system_workqueue_kind`), created by the first call, and never destroyed.
/// Returns null, and sets errno, on failure.
#[unsafe(no_mangle)]
pub extern "C" fn cs_system_workqueue(which: c_int) -> *mut CsWorkqueue {
    const KINDS: [(&CStr, c_uint, c_int); 5] = [
        (c"system", 0, 0),
        (c"system-highpri", CS_WQ_HIGHPRI | CS_WQ_HIGHPRI_IF_ALLOWED, 0),
        (c"system-percpu", CS_WQ_PERCPU, 0),
        (c"system-power-efficient", 0, 5),
        (c"system-percpu-highpri", CS_WQ_PERCPU | CS_WQ_HIGHPRI | CS_WQ_HIGHPRI_IF_ALLOWED, 0),
    ];
    let kind = usize::try_from(which).ok().and_then(|kind| Some((KINDS.get(kind)?, &SYSTEM[kind])));
    let Some((&(name, flags, scope), place)) = kind else {
        Failure::invalid(format!(
            "invalid system workqueue {which}: expected an enum cs_system_workqueue_kind"
        ))
        .tell();
        return std::ptr::null_mut();
    };
    let known = place.load(Acquire);
    // SAFETY: null, or never freed.
    if unsafe { known.as_ref() }.is_some_and(|queue| queue.made_in.is_current()) {
        return known;
    }
    let made = guard_pointer(|| {
        alloc(name.as_ptr(), &CsWorkqueueAttrs { flags, scope, ..CsWorkqueueAttrs::zeroed() })
    });
    if made.is_null() {
        return made;
    }
    match place.compare_exchange(known, made, AcqRel, Acquire) {
        Ok(_) => made,
        Err(first) => {
            // SAFETY: created above, and not known to others.
            unsafe { cs_destroy_workqueue(made) };
            first
        }
    }
}

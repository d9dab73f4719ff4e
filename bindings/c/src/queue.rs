//! Queues: made, changed, waited for, ended.

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

/// A queue of works. Made by `cs_alloc_workqueue`, ended by `cs_destroy_workqueue`.
pub struct CsWorkqueue {
    pub(crate) queue: Workqueue,
    /// For `cs_workqueue_name`.
    name: CString,
    made_in: ProcessGeneration,
    /// Made, or changed last, with `CS_WQ_PERCPU`: its limit is of each CPU.
    is_per_cpu: AtomicBool,
}

impl CsWorkqueue {
    /// The queue that C names.
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

    /// The name that the checking mode tells.
    pub(crate) fn checked_name(&self) -> CString {
        CString::new(self.queue.name()).unwrap_or_default()
    }
}

#[cold]
fn no_queue() -> Failure {
    Failure::invalid(
        "the workqueue is a null pointer; was it made? cs_last_error said why not, then",
    )
}

/// One item at a time, in order, across all CPUs.
pub const CS_WQ_ORDERED: c_uint = 1 << 0;
/// A worker is in reserve from the start, for when none can be started; the queue shares its pools with no other.
pub const CS_WQ_MEM_RECLAIM: c_uint = 1 << 1;
/// Its workers have the nice value -20. An error (EAGAIN) where that is not allowed, unless the next flag is there, too.
pub const CS_WQ_HIGHPRI: c_uint = 1 << 2;
/// With `CS_WQ_HIGHPRI`: where that is not allowed, the queue is as any other.
pub const CS_WQ_HIGHPRI_IF_ALLOWED: c_uint = 1 << 3;
/// A work runs on the CPU that it was queued on: the scope `cpu`, strictly. `max_active` is of each CPU.
pub const CS_WQ_PERCPU: c_uint = 1 << 4;
/// As `max_active` of `cs_change_workqueue`: the limit stays as it is.
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

/// By its number: C's enumerations hold any.
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
                "{given} is no scope; they are 0 (the default) to 6 (system)"
            )));
        }
    }))
}

/// What a queue is to be; zeros are the defaults. Begin with `CS_WORKQUEUE_ATTRS_INIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CsWorkqueueAttrs {
    /// `sizeof(struct cs_workqueue_attrs)`, so that later versions may have more members.
    pub size: usize,
    /// `CS_WQ_…`, or-ed.
    pub flags: c_uint,
    /// An `enum cs_scope`.
    pub scope: c_int,
    /// How many cores a cache shard is to have; 0 for the default (8).
    pub shard_size: c_uint,
    /// Workers stay in their pod; 0 for no.
    pub strict: c_int,
    /// So many works run at once, in the whole queue, or with `CS_WQ_PERCPU` on each CPU; 0 for no limit.
    pub max_active: c_int,
    /// As `max_active`, shared out among the nodes; 0 for no limit.
    pub max_active_by_node: c_int,
    /// 1 if `nice` counts.
    pub has_nice: c_int,
    /// The workers' nice value, -20 to 19.
    pub nice: c_int,
    /// The CPUs that it may use, as "0-3,8"; null for all.
    pub cpus: *const c_char,
    /// How large its workers' stacks are, at least 64 KiB; 0 for what the C library gives to threads, and 2 MiB at least.
    pub stack_bytes: usize,
}

/// The attributes, with what an older program does not know of.
fn attributes(given: *const CsWorkqueueAttrs) -> Outcome<CsWorkqueueAttrs> {
    if given.is_null() {
        return Ok(CsWorkqueueAttrs::zeroed());
    }
    // SAFETY: all zeros are the defaults, and numbers and addresses may be any.
    let read = unsafe { sized(given, "the attributes have", "them with CS_WORKQUEUE_ATTRS_INIT") }?;
    let unknown = read.flags & !ALL_FLAGS;
    if unknown != 0 {
        let message = format!("{unknown:#x} are no flags of a workqueue; see CS_WQ_");
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

/// A count that C gives as an int: 0 for none.
fn count(given: c_int, what: &str) -> Outcome<Option<usize>> {
    match usize::try_from(given) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(count)),
        Err(_) => {
            Err(Failure::invalid(format!("{what} is {given}; it is 0, for no limit, or above")))
        }
    }
}

fn nice(attributes: &CsWorkqueueAttrs) -> Outcome<Option<i8>> {
    if attributes.has_nice == 0 {
        return Ok(None);
    }
    let given = attributes.nice;
    let nice = i8::try_from(given).ok().filter(|nice| (-20..=19).contains(nice));
    nice.map(Some)
        .ok_or_else(|| Failure::invalid(format!("nice is {given}; it goes from -20 to 19")))
}

pub(crate) fn cpus(given: *const c_char) -> Outcome<Option<CpuSet>> {
    let cpus = text(given).map(|text| text.parse::<CpuSet>()).transpose();
    cpus.map_err(|error| Failure::invalid(error.to_string()))
}

/// What the C library gives to a thread (by `ulimit -s`, mostly): code that comes here from threads of its own may need it.
fn stack_of_threads() -> usize {
    const LEAST: usize = 2 << 20;
    let (mut attributes, mut bytes) = (MaybeUninit::uninit(), 0);
    // SAFETY: they are set up by the first call, if it says so, and read and given back by the others.
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

/// Makes a queue: flags (`CS_WQ_…`), and how many of its works run at once, 0 for no limit. Null where it cannot be had:
/// errno and `cs_last_error` say why.
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

/// Makes a queue with all that one may ask for. Null where it cannot be had: errno and `cs_last_error` say why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_alloc_workqueue_attrs(
    name: *const c_char,
    attrs: *const CsWorkqueueAttrs,
) -> *mut CsWorkqueue {
    guard_pointer(|| alloc(name, &attributes(attrs)?))
}

/// With this limit, of the queue or of each CPU.
fn limited(change: Change, is_per_cpu: bool, most: Option<usize>) -> Change {
    match most {
        Some(most) if is_per_cpu => change.max_active_of_each_pod(most),
        most => change.max_active(most),
    }
}

/// With the limit that the queue has.
fn kept(change: Change, queue: &CsWorkqueue, is_per_cpu: bool) -> Outcome<Change> {
    if is_per_cpu == queue.is_per_cpu.load(Relaxed) {
        return Ok(change);
    }
    Err(Failure::invalid(
        "max_active is CS_MAX_ACTIVE_KEPT and CS_WQ_PERCPU changes, so the limit would be of something else; it is 0, for no limit, or above",
    ))
}

/// Changes a queue while it is used: what runs goes on as it was, what comes is as the attributes say, all of them. Whether
/// it is ordered stays; so do `CS_WQ_MEM_RECLAIM`, the stacks and the name.
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

/// 1 if the queue was made, or changed last, with `CS_WQ_PERCPU`, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_workqueue_is_percpu(queue: *mut CsWorkqueue) -> c_int {
    guard(|| Ok(CsWorkqueue::of(queue)?.is_per_cpu.load(Relaxed).into()))
}

/// Another limit on how many works run at once, in the queue or with `CS_WQ_PERCPU` on each CPU, 0 for none; what waits may go at
/// once. -EINVAL of an ordered queue.
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

/// The queue's name. There as long as the queue.
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

/// Waits until all that was queued before is over; not for what comes after, nor for delayed works whose time has not come.
/// -EDEADLK inside one of the queue's own works.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_flush_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.flush()?))
}

/// Waits until nothing is left, while the queue's own works alone may queue more; others get -EBUSY. -EDEADLK inside one of
/// them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_drain_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.drain()?))
}

/// Lets no further work begin, until `cs_thaw_workqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_freeze_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.freeze()?))
}

/// Lets the works go that waited since `cs_freeze_workqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_thaw_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard_done(|| Ok(CsWorkqueue::of(queue)?.queue.thaw()?))
}

/// Runs all that was queued to its end, and frees the queue. A delayed work whose time has not come stays pending until then, and
/// is dropped: cancel it before, or move it to another queue by `cs_mod_delayed_work`. -EDEADLK inside one of the queue's own works: then nothing is done. In a process that was forked since the
/// queue was made, nothing is run. -EINVAL of a queue of `cs_system_workqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_destroy_workqueue(queue: *mut CsWorkqueue) -> c_int {
    guard(|| {
        let its = CsWorkqueue::of(queue)?;
        let inner = &its.queue;
        if SYSTEM.iter().any(|place| place.load(Acquire) == queue) {
            return Err(Failure::invalid(format!(
                "workqueue {:?} is the whole process's, so it cannot be destroyed; drain it, or make one by cs_alloc_workqueue",
                inner.name()
            )));
        }
        match inner.flush_timeout(Duration::ZERO) {
            Err(error) if !error.is_timeout() => {
                if inner.flush().is_err_and(|error| error.is_forked()) {
                    // Its workers are elsewhere, and its locks may be held by nobody.
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
        // What is delayed has the queue, too: it is to find it shut.
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

/// Queues that are there for the whole process, and that nobody destroys.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsSystemWorkqueue {
    /// In pods of the default scope.
    Default = 0,
    /// As it, with `CS_WQ_HIGHPRI` where that is allowed.
    Highpri = 1,
    /// On the CPU that a work is queued on: `CS_WQ_PERCPU`.
    Percpu = 2,
    /// In pods of the scope `numa`: few workers, awake together.
    PowerEfficient = 3,
    /// As `Percpu`, with `CS_WQ_HIGHPRI` where that is allowed.
    PercpuHighpri = 4,
}

/// Those that were made, by [`CsSystemWorkqueue`].
static SYSTEM: [AtomicPtr<CsWorkqueue>; 5] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 5];

/// A queue of the process's own (`enum cs_system_workqueue_kind`), made with the first call, and never destroyed. Null, and
/// errno, where it cannot be had.
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
            "{which} is no queue of the process's; see enum cs_system_workqueue_kind"
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
            // SAFETY: made just now, and known to nobody else.
            unsafe { cs_destroy_workqueue(made) };
            first
        }
    }
}

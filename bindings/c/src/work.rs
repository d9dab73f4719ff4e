//! Works: reusable items in the program's own structures.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::time::Duration;

use coreshard::{CpuId, EmbeddedFunction, EmbeddedWork, EmbeddedWorks, NodeId, PerProcess, Target};

use crate::check;
use crate::error::{Failure, Outcome, guard, panicked};
use crate::given::text;
use crate::queue::CsWorkqueue;

/// A work: a member of one of the program's structures, set up by `cs_work_init` or `CS_WORK_INITIALIZER`. It may be
/// queued any number of times without an allocation, and needs no destructor. It may be freed or go out of scope when
/// it is neither pending nor running, and by its own function while running. It must not be moved otherwise.
#[repr(C)]
pub struct CsWork {
    /// The function, called with the work. It may queue the work again, and free it.
    pub function: Option<unsafe extern "C" fn(work: *mut CsWork)>,
    /// The function's name, for reports; may be null.
    pub name: *const c_char,
    /// Reserved for the library.
    pub reserved: [u64; 6],
}

const _: () = assert!(
    size_of::<CsWork>() == size_of::<EmbeddedWork>()
        && align_of::<CsWork>() == align_of::<EmbeddedWork>()
        && offset_of!(CsWork, reserved) == 16
);

/// Number of lock stripes for works, per CPU.
const STRIPES_PER_CPU: usize = 64;

static WORKS: PerProcess<OnceLock<&EmbeddedWorks>> = PerProcess::new();
/// [`WORKS`], if the checking mode is off. Null before that is known, and after a fork.
static UNCHECKED: AtomicPtr<EmbeddedWorks> = AtomicPtr::new(ptr::null_mut());

/// Returns the works of this process. After a fork, locks of the parent may be held forever.
#[inline(always)]
pub(crate) fn works() -> &'static EmbeddedWorks {
    let works = *WORKS.here().get_or_init(make_works);
    if UNCHECKED.load(Acquire).is_null() && !check::is_on() && forget_when_forked() {
        UNCHECKED.store(ptr::from_ref(works).cast_mut(), Release);
    }
    works
}

fn make_works() -> &'static EmbeddedWorks {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    EmbeddedWorks::leak(STRIPES_PER_CPU * cpus.max(4))
}

/// Resets [`UNCHECKED`] in forked children. Returns false if that is not possible.
fn forget_when_forked() -> bool {
    static IS_HANDLED: AtomicBool = AtomicBool::new(false);
    extern "C" fn forget_works() {
        UNCHECKED.store(ptr::null_mut(), Release);
    }
    if !IS_HANDLED.load(Acquire) {
        // Registering twice is harmless, while a `Once` may be in progress in a thread that a child does not have.
        // SAFETY: the handler writes one word, on the child's only thread.
        let rc = unsafe { libc::pthread_atfork(None, None, Some(forget_works)) };
        IS_HANDLED.store(rc == 0, Release);
    }
    IS_HANDLED.load(Acquire)
}

type Place = NonNull<EmbeddedWork>;

/// Checks the work pointer.
#[inline(always)]
fn place(work: *mut CsWork) -> Outcome<Place> {
    match NonNull::new(work.cast::<EmbeddedWork>()) {
        Some(place) => Ok(place),
        None => Err(no_work()),
    }
}

#[cold]
fn no_work() -> Failure {
    Failure::invalid(
        "the work is a null pointer: expected the address of one set up by cs_work_init",
    )
}

/// Checks a work before it is queued, and sets its function and name for reports.
#[inline(always)]
fn named(work: *mut CsWork) -> Outcome<Place> {
    let place = place(work)?;
    // SAFETY: C guarantees that the work exists.
    if !unsafe { place.as_ref() }.is_named() {
        // SAFETY: as above.
        unsafe { name(work, place) }?;
    }
    Ok(place)
}

/// Sets up the function and name at the first use.
#[inline(never)]
unsafe fn name(work: *mut CsWork, place: Place) -> Outcome<()> {
    // SAFETY: by the caller's contract; an option of a function is one word, null for none.
    let (function, label) = unsafe { ((*work).function, (*work).name) };
    let Some(function) = function else {
        return Err(Failure::invalid(
            "the work has no function: set it up with cs_work_init or CS_WORK_INITIALIZER",
        ));
    };
    // SAFETY: by the caller's contract.
    unsafe { works().set_up(place, names::find(function as usize, label)) };
    Ok(())
}

/// The names of works' functions. A program has few functions and many works, and most works are set up, queued once
/// and freed. A known name is therefore found without a lock.
mod names {
    use std::ffi::c_char;
    use std::ptr;
    use std::sync::atomic::AtomicPtr;
    use std::sync::atomic::Ordering::{AcqRel, Acquire};

    use coreshard::FunctionName;

    use super::symbol_of;
    use crate::given::text;

    struct KnownName {
        function: usize,
        label: usize,
        name: FunctionName,
        /// The preceding entry of its slot; never changed.
        next: *const Self,
    }

    const PLACES: usize = 256;
    static KNOWN: [AtomicPtr<KnownName>; PLACES] =
        [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];

    #[inline]
    pub(super) fn find(function: usize, label: *const c_char) -> FunctionName {
        let place = &KNOWN[(function >> 4 ^ function >> 12) % PLACES];
        let mut first = place.load(Acquire);
        loop {
            let mut known: *const KnownName = first;
            // SAFETY: entries of a slot are never freed.
            while let Some(found) = unsafe { known.as_ref() } {
                if found.function == function && found.label == label.addr() {
                    return found.name;
                }
                known = found.next;
            }
            match add(place, first, function, label) {
                Ok(name) => return name,
                Err(now) => first = now,
            }
        }
    }

    #[cold]
    fn add(
        place: &AtomicPtr<KnownName>,
        first: *mut KnownName,
        function: usize,
        label: *const c_char,
    ) -> Result<FunctionName, *mut KnownName> {
        let name = text(label).unwrap_or_else(|| symbol_of(function).into());
        let name = FunctionName::leak(&name);
        let known = Box::new(KnownName { function, label: label.addr(), name, next: first });
        let known = Box::into_raw(known);
        // If another thread was first, this entry is unused.
        place.compare_exchange(first, known, AcqRel, Acquire).map(|_| name)
    }
}

/// Returns the symbol of a function, or its file and offset for addr2line.
pub(crate) fn symbol_of(address: usize) -> String {
    // SAFETY: all zeros are one.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: it is written if the answer is not 0.
    if unsafe { libc::dladdr(ptr::without_provenance(address), &mut found) } == 0 {
        return format!("{address:#x}");
    }
    // The dynamic linker's strings exist as long as the object.
    if found.dli_saddr.addr() == address
        && let Some(symbol) = text(found.dli_sname)
    {
        return symbol.into_owned();
    }
    let file = text(found.dli_fname).unwrap_or_default();
    format!("{file}+{:#x}", address.wrapping_sub(found.dli_fbase.addr()))
}

/// Sets up a work in any memory. It must not be pending. In C, `cs_work_init` calls it with the function's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_work_init_named(
    work: *mut CsWork,
    function: Option<unsafe extern "C" fn(work: *mut CsWork)>,
    name: *const c_char,
) {
    if work.is_null() {
        return;
    }
    if check::is_on() {
        check::look(work.addr(), size_of::<CsWork>(), "set up anew");
    }
    // SAFETY: C says that there is room for one.
    unsafe { work.write(CsWork { function, name, reserved: [0; 6] }) };
    // A missing function is detected when the work is queued.
    if let (Some(called), Some(function)) = (function, function_of(work)) {
        let label = name;
        let made = EmbeddedWork::named(function, label, names::find(called as usize, label));
        // SAFETY: as above.
        unsafe { work.cast::<EmbeddedWork>().write(made) };
    }
}

/// Returns the function that C set.
pub(crate) fn function_of(work: *mut CsWork) -> Option<EmbeddedFunction> {
    // SAFETY: the same word, by the assertion above.
    unsafe { work.cast::<Option<EmbeddedFunction>>().read() }
}

/// Queues a work in the pool of the calling CPU. Allocates nothing for it, except room for a growing backlog.
///
/// Returns 1, or 0 if it was pending: then the next run sees what the caller wrote before. Fails with -EPERM if the
/// work is disabled, -ESHUTDOWN, -EBUSY (the queue is draining), -ECHILD (the queue belongs to the parent of this
/// forked process, or the work was pending there: it never runs here, and can be queued after it was cancelled or set
/// up again), or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_queue_work(queue: *mut CsWorkqueue, work: *mut CsWork) -> c_int {
    // Three branches to three places: with a common place, the compiler would materialize and combine the conditions.
    let Some(place) = NonNull::new(work.cast::<EmbeddedWork>()) else {
        return without_a_work();
    };
    // SAFETY: null, or a queue, as C says.
    let Some(given) = (unsafe { queue.as_ref() }) else {
        return without_a_queue(work);
    };
    // SAFETY: null, or leaked by `make_works`.
    if let Some(works) = unsafe { UNCHECKED.load(Acquire).as_ref() } {
        // SAFETY: C guarantees that the work exists, and stays while it is pending. If `works` is known, it belongs to
        // this process.
        let queued =
            catch_unwind(AssertUnwindSafe(|| unsafe { works.try_queue(place, &given.queue) }));
        match queued {
            Ok(Some(queued)) => return queued.into(),
            Ok(None) => {}
            Err(payload) => return panicked(payload).tell(),
        }
    }
    queue_first(queue, work)
}

#[cold]
fn without_a_work() -> c_int {
    no_work().tell()
}

#[cold]
fn without_a_queue(work: *mut CsWork) -> c_int {
    queue_first(ptr::null_mut(), work)
}

/// Handles the first use and errors, which are reported.
#[cold]
fn queue_first(queue: *mut CsWorkqueue, work: *mut CsWork) -> c_int {
    guard(|| queue_to(queue, work, Target::Here, Duration::ZERO))
}

/// As `cs_queue_work`, in the pod of a CPU. -EINVAL if the queue does not use the CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_queue_work_on(
    queue: *mut CsWorkqueue,
    cpu: u32,
    work: *mut CsWork,
) -> c_int {
    guard(|| queue_to(queue, work, Target::Cpu(CpuId(cpu)), Duration::ZERO))
}

/// As `cs_queue_work`, in a pod on a node. -EINVAL if the queue has no pod there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_queue_work_node(
    queue: *mut CsWorkqueue,
    node: u32,
    work: *mut CsWork,
) -> c_int {
    guard(|| queue_to(queue, work, Target::Node(NodeId(node)), Duration::ZERO))
}

/// Queues a work after `delay_ns` nanoseconds, at once for 0. Returns as `cs_queue_work`; -ERANGE for a delay beyond
/// the clock's range, -EAGAIN if the timer thread cannot be started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_queue_delayed_work(
    queue: *mut CsWorkqueue,
    work: *mut CsWork,
    delay_ns: u64,
) -> c_int {
    guard(|| queue_to(queue, work, Target::Here, Duration::from_nanos(delay_ns)))
}

/// As `cs_queue_delayed_work`, in the pod of a CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_queue_delayed_work_on(
    queue: *mut CsWorkqueue,
    cpu: u32,
    work: *mut CsWork,
    delay_ns: u64,
) -> c_int {
    guard(|| queue_to(queue, work, Target::Cpu(CpuId(cpu)), Duration::from_nanos(delay_ns)))
}

/// Queues a work after `delay_ns`, replacing a pending queueing. Returns 1 if there was one, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_mod_delayed_work(
    queue: *mut CsWorkqueue,
    work: *mut CsWork,
    delay_ns: u64,
) -> c_int {
    guard(|| modify_to(queue, work, Target::Here, Duration::from_nanos(delay_ns)))
}

/// As `cs_mod_delayed_work`, in the pod of a CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_mod_delayed_work_on(
    queue: *mut CsWorkqueue,
    cpu: u32,
    work: *mut CsWork,
    delay_ns: u64,
) -> c_int {
    guard(|| modify_to(queue, work, Target::Cpu(CpuId(cpu)), Duration::from_nanos(delay_ns)))
}

#[inline(always)]
fn queue_to(
    queue: *mut CsWorkqueue,
    work: *mut CsWork,
    target: Target,
    delay: Duration,
) -> Outcome {
    let place = named(work)?;
    let queue = CsWorkqueue::of(queue)?;
    if check::is_on() {
        check_queue(queue, work);
    }
    // SAFETY: C says that the work stays while it is pending.
    Ok(unsafe { works().queue_to(place, &queue.queue, target, delay) }?.into())
}

fn modify_to(
    queue: *mut CsWorkqueue,
    work: *mut CsWork,
    target: Target,
    delay: Duration,
) -> Outcome {
    let place = named(work)?;
    let queue = CsWorkqueue::of(queue)?;
    if check::is_on() {
        check_queue(queue, work);
    }
    // SAFETY: as above.
    Ok(unsafe { works().modify_to(place, &queue.queue, target, delay) }?.into())
}

/// Waits until the latest queueing of a work has finished or was cancelled. A delayed one runs at once. Returns 1, or 0
/// if there was nothing to wait for; -EDEADLK inside the work itself, or inside a work that it waits behind in an
/// ordered queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_flush_work(work: *mut CsWork) -> c_int {
    // SAFETY: C guarantees that the work exists.
    guard(|| Ok(unsafe { works().flush(named(work)?) }?.into()))
}

/// Cancels a pending queueing: returns 1 if there was one, else 0. Does not wait for a run in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_cancel_work(work: *mut CsWork) -> c_int {
    // SAFETY: as above.
    guard(|| Ok(unsafe { works().cancel(place(work)?) }.into()))
}

/// As `cs_cancel_work`, and waits until the work does not run. It cannot be queued meanwhile. -EDEADLK inside itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_cancel_work_sync(work: *mut CsWork) -> c_int {
    // SAFETY: as above.
    guard(|| Ok(unsafe { works().cancel_and_wait(place(work)?) }?.into()))
}

/// Cancels a work, and prevents queueing until it was enabled as often as disabled. Returns 1 if it was pending, else
/// 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_disable_work(work: *mut CsWork) -> c_int {
    // SAFETY: as above.
    guard(|| Ok(unsafe { works().disable(place(work)?) }?.into()))
}

/// As `cs_disable_work`, and waits until the work does not run. -EDEADLK inside itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_disable_work_sync(work: *mut CsWork) -> c_int {
    // SAFETY: as above.
    guard(|| Ok(unsafe { works().disable_and_wait(place(work)?) }?.into()))
}

/// Reverts one disable: returns 1 if the work can be queued again, else 0; -EINVAL if it was not disabled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_enable_work(work: *mut CsWork) -> c_int {
    // SAFETY: as above.
    guard(|| Ok(unsafe { works().enable(place(work)?) }?.into()))
}

/// Returns 1 if a work is queued or delayed and has not started, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_work_pending(work: *mut CsWork) -> c_int {
    // SAFETY: as above.
    guard(|| Ok(unsafe { works().is_pending(place(work)?) }.into()))
}

/// Returns 1 if a worker runs the work's function, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_work_running(work: *mut CsWork) -> c_int {
    guard(|| Ok(works().is_running(place(work)?).into()))
}

fn check_queue(queue: &CsWorkqueue, work: *mut CsWork) {
    let (at, queue_name) = (ptr::from_ref(queue).addr(), queue.checked_name());
    let pending = pending_at;
    check::queue(work.expose_provenance(), check::Queued { queue: at, queue_name, pending });
}

/// Returns the function of a queued work, if it is pending.
fn pending_at(address: usize) -> Option<CString> {
    let work = ptr::with_exposed_provenance_mut::<CsWork>(address);
    let place = NonNull::new(work.cast())?;
    // SAFETY: it was queued, and as far as the checking mode knows, its memory was not freed.
    unsafe { works().is_pending(place) }.then(|| label_of(work))
}

fn label_of(work: *mut CsWork) -> CString {
    // SAFETY: the caller has it.
    let label = unsafe { (*work).name };
    if label.is_null() {
        let address = function_of(work).map_or(0, |function| function as usize);
        return CString::new(symbol_of(address)).unwrap_or_default();
    }
    // SAFETY: C says that the name is a string that stays.
    unsafe { CStr::from_ptr(label) }.to_owned()
}

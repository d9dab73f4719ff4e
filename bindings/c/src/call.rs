//! Calls: functions queued with 16 bytes of arguments, without a way to wait for them.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use coreshard::{CpuId, ForeignFunction, Target};

use crate::check;
use crate::error::{Failure, Outcome, guard, panicked};
use crate::given::text;
use crate::queue::CsWorkqueue;
use crate::work::symbol_of;

/// The function of a call, with the address of two words, which it may use during the call.
pub type CsCallFunction = Option<unsafe extern "C" fn(words: *mut u64)>;

/// The static part of calls of one function. There is one per function, and it is never freed. Initialize it with
/// `CS_CALL_INITIALIZER`.
#[repr(C)]
pub struct CsCall {
    /// The function.
    pub function: CsCallFunction,
    /// The function's name, for reports; may be null.
    pub name: *const c_char,
    /// Reserved for the library.
    pub reserved: *mut c_void,
}

type Known = AtomicPtr<ForeignFunction>;

const _: () = assert!(size_of::<Known>() == size_of::<*mut c_void>());

/// Returns the library's data of a call, which exists after the first call.
#[inline(always)]
fn known(call: *mut CsCall) -> Outcome<&'static ForeignFunction> {
    if call.is_null() {
        return Err(no_call());
    }
    // SAFETY: not null.
    match unsafe { looked_up(call) } {
        (_, Some(function)) => Ok(function),
        // SAFETY: as above.
        (place, None) => unsafe { know(call, place) },
    }
}

/// Returns the place of the library's data, and the data if it exists.
///
/// # Safety
/// `call` is not null.
#[inline(always)]
unsafe fn looked_up(call: *mut CsCall) -> (&'static Known, Option<&'static ForeignFunction>) {
    // SAFETY: C guarantees that it is never freed, and its member belongs to the library.
    let place = unsafe { Known::from_ptr((&raw mut (*call).reserved).cast()) };
    // SAFETY: null, or leaked by `know`.
    (place, unsafe { place.load(Acquire).as_ref() })
}

#[cold]
fn no_call() -> Failure {
    Failure::invalid(
        "the call is a null pointer: expected the address of one initialized with CS_CALL_INITIALIZER",
    )
}

#[cold]
unsafe fn know(call: *const CsCall, place: &Known) -> Outcome<&'static ForeignFunction> {
    // SAFETY: by the caller's contract.
    let (function, name) = unsafe { ((*call).function, (*call).name) };
    let Some(function) = function else {
        return Err(Failure::invalid(
            "the call has no function: initialize it with CS_CALL_INITIALIZER",
        ));
    };
    let name = text(name).unwrap_or_else(|| symbol_of(function as usize).into());
    type Function = unsafe extern "C-unwind" fn(*mut [MaybeUninit<u64>; 2]);
    // SAFETY: the function takes one pointer and returns nothing, and C functions do not unwind.
    let function =
        unsafe { std::mem::transmute::<unsafe extern "C" fn(*mut u64), Function>(function) };
    let made = ForeignFunction::leak(function, &name);
    let made_at = std::ptr::from_ref(made).cast_mut();
    match place.compare_exchange(std::ptr::null_mut(), made_at, AcqRel, Acquire) {
        Ok(_) => Ok(made),
        // Another thread was first, and this value is unused.
        // SAFETY: leaked by that thread.
        Err(first) => Ok(unsafe { &*first }),
    }
}

#[inline(always)]
unsafe fn queue_to(
    queue: *mut CsWorkqueue,
    target: Target,
    call: *mut CsCall,
    words: [u64; 2],
) -> Outcome {
    let function = known(call)?;
    let queue = CsWorkqueue::of(queue)?;
    let words = words.map(MaybeUninit::new);
    // SAFETY: C says that the function may be called with them.
    Ok(unsafe { queue.queue.queue_foreign(target, function, words) }.map(|()| 1)?)
}

/// Queues a call of a function with two arbitrary words, in the pool of the calling CPU. Allocates nothing for it,
/// except room for a growing backlog. Unlike a work, it cannot be waited for or cancelled individually, and the same
/// call may be queued any number of times.
///
/// Returns 1. If it fails, as `cs_queue_work` does, the words remain the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_queue_call(
    queue: *mut CsWorkqueue,
    call: *mut CsCall,
    first: u64,
    second: u64,
) -> c_int {
    // As in `cs_queue_work`: the first use and errors are handled elsewhere, by another call.
    // SAFETY: null, or a queue, as C says.
    let Some(given) = (unsafe { queue.as_ref() }) else {
        return queue_first(queue, call, first, second);
    };
    if call.is_null() {
        return queue_first(queue, call, first, second);
    }
    // SAFETY: not null.
    if let (_, Some(function)) = unsafe { looked_up(call) }
        && !check::is_on()
    {
        let words = [MaybeUninit::new(first), MaybeUninit::new(second)];
        // SAFETY: C says that the function may be called with them.
        let queued = catch_unwind(AssertUnwindSafe(|| unsafe {
            given.queue.queue_foreign(Target::Here, function, words)
        }));
        match queued {
            Ok(Ok(())) => return 1,
            Ok(Err(_)) => {}
            Err(payload) => return panicked(payload).tell(),
        }
    }
    queue_first(queue, call, first, second)
}

#[cold]
fn queue_first(queue: *mut CsWorkqueue, call: *mut CsCall, first: u64, second: u64) -> c_int {
    // SAFETY: by the contract of its caller's.
    guard(|| unsafe { queue_to(queue, Target::Here, call, [first, second]) })
}

/// As `cs_queue_call`, in the pod of a CPU. -EINVAL if the queue does not use the CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_queue_call_on(
    queue: *mut CsWorkqueue,
    cpu: u32,
    call: *mut CsCall,
    first: u64,
    second: u64,
) -> c_int {
    // SAFETY: by the header's contract.
    guard(|| unsafe { queue_to(queue, Target::Cpu(CpuId(cpu)), call, [first, second]) })
}

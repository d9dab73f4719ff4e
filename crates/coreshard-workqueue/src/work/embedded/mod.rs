//! Reusable work items in memory that the caller has, for languages without destructors.
//!
//! A [`Work`](crate::Work) is counted: each handle keeps its memory. C has no such handles: an item is a member
//! of a structure of the program's, which frees it when it likes, inside of the item's own function, too. So what
//! a queueing, a run and a wait need beyond the state in the item itself is kept elsewhere, as in the kernel.
//! `README.md` beside this file tells the protocol. Who may touch what:
//!
//! 1. An item's fields are read and written under the lock of its *stripe* alone, which its address says.
//! 2. Who has a *ticket* (a pool's token, a place that is kept, a timer's entry) looks, under that lock, whether
//!    it is void, before anything else: only while it is not, the item is known to be there.
//! 3. A run is a record on its worker's stack, in a list of the stripe's. Nothing of the item is touched from the
//!    call of its function on.
#![allow(unsafe_code)]

mod delayed;
mod operations;
mod stripe;
mod token;

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{Padded, Platform};

use self::stripe::{Stripe, Ticket};
use crate::base::item::Name;
use crate::timers::{Key, Timers};

/// The function of an [`EmbeddedWork`]; it is given the item.
///
/// It may free the item, or queue it again, on whatever thread. It may unwind with a panic, which goes to the
/// queue's panic handler, but not with another language's exception.
pub type EmbeddedFunction = unsafe extern "C-unwind" fn(NonNull<EmbeddedWork>);

/// A reusable work item in the caller's memory, that is queued without an allocation, and needs no destructor.
///
/// It is used by the functions of [`EmbeddedWorks`]. Its first two words may be said by a static initializer of
/// another language, with zeros for the rest.
#[repr(C)]
pub struct EmbeddedWork {
    /// Under the stripe's lock.
    fields: UnsafeCell<Fields>,
    /// What reports call its function; null where nobody has said.
    name: AtomicPtr<Name>,
}

#[repr(C)]
struct Fields {
    function: EmbeddedFunction,
    /// Its function's name, for whoever made the item: nothing here looks at it.
    label: *const c_char,
    flags: u32,
    /// How often it is disabled.
    disables: u32,
    /// That of the queueing that is pending.
    ticket: Ticket,
    /// The limiter that it was to pass last, by its address; 0 for none.
    limiter: u64,
    /// Of a delayed queueing: the timers, counted, and the entry there.
    timers: *const (),
    key: Key,
}

// SAFETY: the fields are reached under a lock, the name is atomic.
unsafe impl Send for EmbeddedWork {}
// SAFETY: as above.
unsafe impl Sync for EmbeddedWork {}

/// It is queued, and has not begun.
const PENDING: u32 = 1 << 0;
/// It waits for its time; with `PENDING` only.
const DELAYED: u32 = 1 << 1;

impl EmbeddedWork {
    /// An item that calls `function`. Queued nowhere. The label, which may be null, is whoever's who asks for it by
    /// [`label`](Self::label).
    ///
    /// # Examples
    /// ```
    /// use std::ptr::NonNull;
    /// use coreshard::EmbeddedWork;
    ///
    /// unsafe extern "C-unwind" fn write_back(_work: NonNull<EmbeddedWork>) {}
    ///
    /// let work = EmbeddedWork::new(write_back, c"write_back".as_ptr());
    /// assert!(!work.is_named() && !work.label().is_null());
    /// ```
    pub fn new(function: EmbeddedFunction, label: *const c_char) -> Self {
        let fields = Fields {
            function,
            label,
            flags: 0,
            disables: 0,
            ticket: Ticket::NONE,
            limiter: 0,
            timers: ptr::null(),
            key: Key::NONE,
        };
        Self { fields: UnsafeCell::new(fields), name: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The label that was given with its function, which stays the same.
    ///
    /// # Examples
    /// As [`new`](Self::new).
    pub fn label(&self) -> *const c_char {
        // SAFETY: nobody writes it.
        unsafe { (&raw const (*self.fields.get()).label).read() }
    }

    /// True if it has a name for reports.
    ///
    /// # Examples
    /// As [`new`](Self::new).
    #[inline]
    pub fn is_named(&self) -> bool {
        !self.name.load(Acquire).is_null()
    }

    /// Says what reports are to call its function.
    ///
    /// # Examples
    /// As [`FunctionName::leak`].
    pub fn set_name(&self, name: FunctionName) {
        self.name.store(ptr::from_ref(name.0).cast_mut(), Release);
    }

    fn name(&self) -> &'static Name {
        static UNNAMED: Name = Name::Given("(a function without a name)");
        // SAFETY: null, or from a `&'static Name` in `set_name`.
        unsafe { self.name.load(Acquire).as_ref() }.unwrap_or(&UNNAMED)
    }

    /// Its fields.
    ///
    /// # Safety
    /// It is there, and the caller has the lock of its stripe, both while they are used.
    #[inline(always)]
    unsafe fn fields<'item>(place: NonNull<Self>) -> &'item mut Fields {
        // SAFETY: by this function's contract.
        unsafe { &mut *place.as_ref().fields.get() }
    }
}

impl Fields {
    #[inline(always)]
    fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Takes what the timers have of it out of the item: it is not delayed any more.
    fn take_armed<P: Platform>(&mut self) -> Option<(Arc<Timers<P>>, Key)> {
        self.flags &= !DELAYED;
        let timers = std::mem::replace(&mut self.timers, ptr::null()).cast::<Timers<P>>();
        // SAFETY: from `Arc::into_raw` in `arm`, and taken once.
        (!timers.is_null()).then(|| (unsafe { Arc::from_raw(timers) }, self.key))
    }

    fn arm<P: Platform>(&mut self, timers: Arc<Timers<P>>, key: Key) {
        self.flags |= DELAYED;
        self.timers = Arc::into_raw(timers).cast();
        self.key = key;
    }
}

impl fmt::Debug for EmbeddedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedWork").field("function", &self.name().get()).finish_non_exhaustive()
    }
}

/// It is laid out as C sees it, in one line where the program aligns it so.
const _: () = assert!(size_of::<EmbeddedWork>() == 64 && align_of::<EmbeddedWork>() == 8);

/// What reports call a function of another language.
#[derive(Clone, Copy)]
pub struct FunctionName(&'static Name);

impl FunctionName {
    /// A name that is never freed: make one for each function, not for each item.
    ///
    /// # Examples
    /// ```
    /// use std::ptr::NonNull;
    /// use coreshard::{EmbeddedWork, FunctionName};
    ///
    /// unsafe extern "C-unwind" fn write_back(_work: NonNull<EmbeddedWork>) {}
    ///
    /// let work = EmbeddedWork::new(write_back, std::ptr::null());
    /// work.set_name(FunctionName::leak("write_back"));
    /// assert!(format!("{work:?}").contains("write_back"));
    /// ```
    pub fn leak(name: &str) -> Self {
        Self(Box::leak(Box::new(Name::Given(Box::leak(name.to_owned().into_boxed_str())))))
    }

    /// The name.
    pub fn as_str(&self) -> &'static str {
        self.0.get()
    }
}

impl fmt::Debug for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// What is done with [`EmbeddedWork`]s: all of a process's go by one of these, since an item may be queued on any
/// queue of any runtime.
///
/// The functions are as those of [`Work`](crate::Work), but that the memory is the caller's business:
///
/// # Safety
/// Each function needs an item that was made by [`EmbeddedWork::new`] (or by a static initializer, as it says), and
/// that stays where it is and is not freed while it is pending, nor while the call goes on. While it runs it may be
/// freed by its own function, or by whoever knows that nothing of this program will name it any more.
///
/// # Examples
/// ```
/// use std::ptr::NonNull;
/// use std::time::Duration;
/// use coreshard::{EmbeddedWork, EmbeddedWorks, Target};
///
/// unsafe extern "C-unwind" fn free_it(work: NonNull<EmbeddedWork>) {
///     // The function may free its item.
///     drop(unsafe { Box::from_raw(work.as_ptr()) });
/// }
///
/// let works = EmbeddedWorks::leak(64);
/// let queue = coreshard::workqueue()?.name("write-back").build()?;
/// let work = NonNull::from(Box::leak(Box::new(EmbeddedWork::new(free_it, std::ptr::null()))));
/// assert!(unsafe { works.queue_to(work, &queue, Target::Here, Duration::ZERO) }?);
/// queue.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EmbeddedWorks<P: Platform> {
    stripes: Box<[Padded<Stripe<P>>]>,
    /// In a process that was forked since, locks may be held by nobody who is there.
    process_generation: u32,
}

impl<P: Platform> EmbeddedWorks<P> {
    /// One with so many locks, rounded up to a power of two, that items are spread over by their addresses: many
    /// times the number of CPUs, so that two seldom meet at one. It is there for good.
    pub fn leak(stripes: usize) -> &'static Self {
        let stripes = stripes.next_power_of_two();
        let stripes = (0..stripes).map(|_| Padded::new(Stripe::new())).collect();
        Box::leak(Box::new(Self { stripes, process_generation: P::process_generation() }))
    }

    /// True in the process that it was made in; in one that was forked since, make another one.
    pub fn is_of_this_process(&self) -> bool {
        P::process_generation() == self.process_generation
    }

    #[inline(always)]
    fn stripe(&'static self, work: NonNull<EmbeddedWork>) -> &'static Stripe<P> {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 6.4): addresses are multiples of what the
        // program's structures measure.
        let hash = (work.as_ptr().addr() as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.stripes[hash as usize & (self.stripes.len() - 1)]
    }
}

impl<P: Platform> fmt::Debug for EmbeddedWorks<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedWorks")
            .field("stripes", &self.stripes.len())
            .finish_non_exhaustive()
    }
}

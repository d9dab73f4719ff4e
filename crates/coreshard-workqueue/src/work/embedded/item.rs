//! The item: its fields, its name, and the tickets of its queueings.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::Platform;

use crate::base::item::Name;
use crate::timers::{Key, Timers};

/// The function of an [`EmbeddedWork`]; it is given the item.
///
/// It may free the item, or queue it again, on whatever thread. It may unwind with a panic, which goes to the
/// queue's panic handler, but not with another language's exception.
pub type EmbeddedFunction = unsafe extern "C-unwind" fn(NonNull<EmbeddedWork>);

/// A reusable work item in the caller's memory, that is queued without an allocation, and needs no destructor.
///
/// It is used by the functions of [`EmbeddedWorks`](super::EmbeddedWorks). Its first two words may be said by a static initializer of
/// another language, with zeros for the rest: [`EmbeddedWorks::set_up`](super::EmbeddedWorks::set_up) makes an item of that.
#[repr(C)]
pub struct EmbeddedWork {
    /// Under the stripe's lock.
    fields: UnsafeCell<Fields>,
    /// What reports call its function; null where nobody has said.
    name: AtomicPtr<Name>,
}

#[repr(C)]
pub(super) struct Fields {
    pub(super) function: EmbeddedFunction,
    /// Its function's name, for whoever made the item: nothing here looks at it.
    pub(super) label: *const c_char,
    pub(super) flags: u32,
    /// How often it is disabled.
    pub(super) disables: u32,
    /// That of the queueing that is pending.
    pub(super) ticket: QueueingTicket,
    /// The limiter that it was to pass last, by its address; 0 for none.
    pub(super) limiter: u64,
    /// Of a delayed queueing: the timers, counted, and the entry there.
    pub(super) timers: *const (),
    pub(super) key: Key,
}

// SAFETY: the fields are reached under a lock, the name is atomic.
unsafe impl Send for EmbeddedWork {}
// SAFETY: as above.
unsafe impl Sync for EmbeddedWork {}

/// It is queued, and has not begun.
pub(super) const PENDING: u32 = 1 << 0;
/// It waits for its time; with `PENDING` only.
pub(super) const DELAYED: u32 = 1 << 1;
/// It was set up, and not only made of zeros.
pub(super) const READY: u32 = 1 << 2;
/// The bits above say, with `PENDING` only, in which process it is queued: what was pending at a fork never runs in the
/// child.
const PROCESS: u32 = 3;

/// The flags that say that an item is pending in a process.
pub(super) fn pending_in(process_generation: u32) -> u32 {
    PENDING | process_generation << PROCESS
}

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
            flags: READY,
            disables: 0,
            ticket: QueueingTicket::NONE,
            limiter: 0,
            timers: ptr::null(),
            key: Key::NONE,
        };
        Self { fields: UnsafeCell::new(fields), name: AtomicPtr::new(ptr::null_mut()) }
    }

    /// As [`new`](Self::new), with a name for reports.
    ///
    /// # Examples
    /// As [`FunctionName::leak`].
    pub fn named(function: EmbeddedFunction, label: *const c_char, name: FunctionName) -> Self {
        let made = Self::new(function, label);
        made.set_name(name);
        made
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

    pub(super) fn name(&self) -> &'static Name {
        static UNNAMED: Name = Name::Given("(a function without a name)");
        // SAFETY: null, or from a `&'static Name` in `set_name`.
        unsafe { self.name.load(Acquire).as_ref() }.unwrap_or(&UNNAMED)
    }

    /// Its fields.
    ///
    /// # Safety
    /// It is there, and the caller has the lock of its stripe, both while they are used.
    #[inline(always)]
    pub(super) unsafe fn fields<'item>(place: NonNull<Self>) -> &'item mut Fields {
        // SAFETY: by this function's contract.
        unsafe { &mut *place.as_ref().fields.get() }
    }
}

impl Fields {
    /// True if it is set up, and neither pending nor disabled.
    #[inline(always)]
    pub(super) fn is_free(&self) -> bool {
        // In one comparison: the two lie beside one another.
        u64::from(self.flags) | u64::from(self.disables) << 32 == u64::from(READY)
    }

    #[inline(always)]
    pub(super) fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// True if it is pending in the process whose flags these are.
    #[inline(always)]
    pub(super) fn is_pending_in(&self, process: u32) -> bool {
        self.flags & !(READY | DELAYED) == process
    }

    /// It is not pending any more.
    #[inline(always)]
    pub(super) fn end_queueing(&mut self) {
        self.flags &= READY;
    }

    /// It was pending in the process that this one was forked from, whose timers and locks are left alone.
    pub(super) fn forget_queueing(&mut self) {
        self.end_queueing();
        self.timers = ptr::null();
    }

    /// Takes what the timers have of it out of the item: it is not delayed any more.
    pub(super) fn take_armed<P: Platform>(&mut self) -> Option<(Arc<Timers<P>>, Key)> {
        self.flags &= !DELAYED;
        let timers = std::mem::replace(&mut self.timers, ptr::null()).cast::<Timers<P>>();
        // SAFETY: from `Arc::into_raw` in `arm`, and taken once.
        (!timers.is_null()).then(|| (unsafe { Arc::from_raw(timers) }, self.key))
    }

    pub(super) fn arm<P: Platform>(&mut self, timers: Arc<Timers<P>>, key: Key) {
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
    /// let work = EmbeddedWork::named(write_back, std::ptr::null(), FunctionName::leak("write_back"));
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

/// An item, by its address, and the number of one of its queueings, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct QueueingTicket(u64);

/// Bits of a user-space address, without the lowest three, which are 0 for an item.
const ADDRESS_BITS: u32 = 45;
const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;
/// Bits of a queueing's number. Unit tests and models have few, so that they see numbers wrap.
const NUMBER_BITS: u32 = if cfg!(any(test, loom)) { 3 } else { u64::BITS - ADDRESS_BITS };
/// How many tickets of a stripe may be tombstones still on their way: half of the numbers, so that another number is
/// found in two attempts on average.
pub(super) const MAX_TOMBSTONES: usize = 1 << (NUMBER_BITS - 1);

impl QueueingTicket {
    pub(super) const NONE: Self = Self(0);

    /// The next number. Numbers wrap, so the caller checks that no ticket that is still in use has it.
    #[inline(always)]
    pub(super) fn next(self) -> Self {
        self.ahead(1)
    }

    /// The number `steps` further.
    #[inline(always)]
    pub(super) fn ahead(self, steps: u64) -> Self {
        let number = (self.0 >> ADDRESS_BITS).wrapping_add(steps) & ((1 << NUMBER_BITS) - 1);
        Self(number << ADDRESS_BITS)
    }

    /// A number, with its item.
    #[inline(always)]
    pub(super) fn of(self, work: NonNull<EmbeddedWork>) -> Self {
        let address = work.as_ptr().expose_provenance() as u64 >> 3;
        // `EmbeddedWorks` says so.
        debug_assert!(address <= ADDRESS, "an item's address has 48 bits");
        Self(self.0 | address)
    }

    /// True if it is one of this item's queueings.
    pub(super) fn is_of(self, work: NonNull<EmbeddedWork>) -> bool {
        self.0 & ADDRESS == work.as_ptr().addr() as u64 >> 3
    }

    #[inline(always)]
    pub(super) fn work(self) -> NonNull<EmbeddedWork> {
        let address = ((self.0 & ADDRESS) << 3) as usize;
        NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("no item lies at 0")
    }
}

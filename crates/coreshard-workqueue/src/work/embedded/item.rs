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

/// The function of an [`EmbeddedWork`]; it receives the item.
///
/// It may free the item, or queue it again, on any thread. It may unwind with a Rust panic, which goes to the queue's panic
/// handler, but not with another language's exception.
pub type EmbeddedFunction = unsafe extern "C-unwind" fn(NonNull<EmbeddedWork>);

/// A reusable work item in the caller's memory, which is queued without an allocation, and needs no destructor.
///
/// Use the methods of [`EmbeddedWorks`](super::EmbeddedWorks). A static initializer of another language may set its first two
/// words and zero the rest; [`EmbeddedWorks::set_up`](super::EmbeddedWorks::set_up) then completes the item.
#[repr(C)]
pub struct EmbeddedWork {
    /// Accessed under the stripe's lock.
    fields: UnsafeCell<Fields>,
    /// The function's name in reports; null if none was set.
    name: AtomicPtr<Name>,
}

#[repr(C)]
pub(super) struct Fields {
    pub(super) function: EmbeddedFunction,
    /// The function's name, for the creator of the item; not read here.
    pub(super) label: *const c_char,
    pub(super) flags: u32,
    /// How often it is disabled.
    pub(super) disables: u32,
    /// The ticket of the pending queueing.
    pub(super) ticket: QueueingTicket,
    /// The address of the limiter that it was to pass last; 0 for none.
    pub(super) limiter: u64,
    /// For a delayed queueing: a counted reference to the timers, and its entry there.
    pub(super) timers: *const (),
    pub(super) key: Key,
}

// SAFETY: the fields are accessed under a lock, the name is atomic.
unsafe impl Send for EmbeddedWork {}
// SAFETY: as above.
unsafe impl Sync for EmbeddedWork {}

/// It is queued, and has not begun.
pub(super) const PENDING: u32 = 1 << 0;
/// It waits for its time; with `PENDING` only.
pub(super) const DELAYED: u32 = 1 << 1;
/// It was set up, rather than only zero-initialized.
pub(super) const READY: u32 = 1 << 2;
/// With `PENDING` only, the bits above identify the process that queued it: a queueing that was pending at a fork never runs in
/// the child.
const PROCESS: u32 = 3;

/// Returns the flags of an item that is pending in a process.
pub(super) fn pending_in(process_generation: u32) -> u32 {
    PENDING | process_generation << PROCESS
}

impl EmbeddedWork {
    /// Creates an item that calls `function`. It is not queued yet. The label, which may be null, is for the program;
    /// [`label`](Self::label) returns it.
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

    /// Creates an item like [`new`](Self::new), with a name for reports.
    ///
    /// # Examples
    /// As [`FunctionName::leak`].
    pub fn named(function: EmbeddedFunction, label: *const c_char, name: FunctionName) -> Self {
        let made = Self::new(function, label);
        made.set_name(name);
        made
    }

    /// Returns the label that was given with its function; it never changes.
    ///
    /// # Examples
    /// As [`new`](Self::new).
    pub fn label(&self) -> *const c_char {
        // SAFETY: it is never written after creation.
        unsafe { (&raw const (*self.fields.get()).label).read() }
    }

    /// Returns true if it has a name for reports.
    ///
    /// # Examples
    /// As [`new`](Self::new).
    #[inline]
    pub fn is_named(&self) -> bool {
        !self.name.load(Acquire).is_null()
    }

    /// Sets its function's name for reports.
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

    /// Returns its fields.
    ///
    /// # Safety
    /// The item is alive, and the caller holds the lock of its stripe, both while the fields are used.
    #[inline(always)]
    pub(super) unsafe fn fields<'item>(place: NonNull<Self>) -> &'item mut Fields {
        // SAFETY: by this function's contract.
        unsafe { &mut *place.as_ref().fields.get() }
    }
}

impl Fields {
    /// Returns true if it is set up, and neither pending nor disabled.
    #[inline(always)]
    pub(super) fn is_free(&self) -> bool {
        // In one comparison, since the two fields are adjacent.
        u64::from(self.flags) | u64::from(self.disables) << 32 == u64::from(READY)
    }

    #[inline(always)]
    pub(super) fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if it is pending in the process with these flags.
    #[inline(always)]
    pub(super) fn is_pending_in(&self, process: u32) -> bool {
        self.flags & !(READY | DELAYED) == process
    }

    /// Marks it as not pending.
    #[inline(always)]
    pub(super) fn end_queueing(&mut self) {
        self.flags &= READY;
    }

    /// Forgets a queueing of the process that this one was forked from; that process's timers and locks are not accessed.
    pub(super) fn forget_queueing(&mut self) {
        self.end_queueing();
        self.timers = ptr::null();
    }

    /// Takes its timer entry out of the item, which is then no longer delayed.
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

/// Laid out as C expects, in one cache line if the program aligns it.
const _: () = assert!(size_of::<EmbeddedWork>() == 64 && align_of::<EmbeddedWork>() == 8);

/// The name of another language's function in reports.
#[derive(Clone, Copy)]
pub struct FunctionName(&'static Name);

impl FunctionName {
    /// Creates a name that is never freed: create one for each function, not for each item.
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

    /// Returns the name.
    pub fn as_str(&self) -> &'static str {
        self.0.get()
    }
}

impl fmt::Debug for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// An item's address and the number of one of its queueings, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct QueueingTicket(u64);

/// Bits of a user-space address, without the lowest three, which are 0 for an item.
const ADDRESS_BITS: u32 = 45;
const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;
/// Bits of a queueing's number. Unit tests and models have few, so that their numbers wrap.
const NUMBER_BITS: u32 = if cfg!(any(test, loom)) { 3 } else { u64::BITS - ADDRESS_BITS };
/// How many tickets of a stripe may be tombstones that are still in a queue: half of the numbers, so that a free number is
/// found in two attempts on average.
pub(super) const MAX_TOMBSTONES: usize = 1 << (NUMBER_BITS - 1);

impl QueueingTicket {
    pub(super) const NONE: Self = Self(0);

    /// Returns the next number. Numbers wrap, so the caller checks that no ticket in use has it.
    #[inline(always)]
    pub(super) fn next(self) -> Self {
        self.ahead(1)
    }

    /// Returns the number `steps` further.
    #[inline(always)]
    pub(super) fn ahead(self, steps: u64) -> Self {
        let number = (self.0 >> ADDRESS_BITS).wrapping_add(steps) & ((1 << NUMBER_BITS) - 1);
        Self(number << ADDRESS_BITS)
    }

    /// Combines a number with its item.
    #[inline(always)]
    pub(super) fn of(self, work: NonNull<EmbeddedWork>) -> Self {
        let address = work.as_ptr().expose_provenance() as u64 >> 3;
        // Required by `EmbeddedWorks`.
        debug_assert!(address <= ADDRESS, "an item's address has 48 bits");
        Self(self.0 | address)
    }

    /// Returns true if it is one of this item's queueings.
    pub(super) fn is_of(self, work: NonNull<EmbeddedWork>) -> bool {
        self.0 & ADDRESS == work.as_ptr().addr() as u64 >> 3
    }

    #[inline(always)]
    pub(super) fn work(self) -> NonNull<EmbeddedWork> {
        let address = ((self.0 & ADDRESS) << 3) as usize;
        NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("no item lies at 0")
    }
}

//! All items of a process: the stripes that they fall on.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;

use coreshard_platform::{Host, Padded, Platform};

use super::item::{EmbeddedWork, READY, pending_in};
use super::stripe::Stripe;

/// What is done with [`EmbeddedWork`]s: all of a process's go by one of these, since an item may be queued on any
/// queue of any runtime.
///
/// The functions are as those of [`Work`](crate::Work), but that the memory is the caller's business:
///
/// # Safety
/// Each function needs an item that was made by [`EmbeddedWork::new`] (or by a static initializer, as it says), and
/// below 2⁴⁸ (where all memory of a program is that does not ask for other), that stays where it is and is not freed while it is pending, nor while the call goes on. While it runs it may be
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
pub struct EmbeddedWorks<P: Platform = Host> {
    stripes: Box<[Padded<Stripe<P>>]>,
    /// One less than there are.
    mask: usize,
    /// In a process that was forked since, locks may be held by nobody who is there.
    process_generation: u32,
    /// The flags of an item that is pending in this process.
    pub(super) pending: u32,
    /// Those of one that is queued for now.
    pub(super) queued: u32,
}

impl<P: Platform> EmbeddedWorks<P> {
    /// The most locks that [`leak`](Self::leak) makes.
    pub const MAX_STRIPES: usize = 1 << 20;

    /// Makes one that is never freed, with `stripes` locks, rounded up to a power of two. Items are spread over the locks by
    /// their addresses: choose many times the number of CPUs, so that two threads seldom meet at one.
    ///
    /// # Panics
    /// If `stripes` is above [`MAX_STRIPES`](Self::MAX_STRIPES).
    pub fn leak(stripes: usize) -> &'static Self {
        assert!(
            stripes <= Self::MAX_STRIPES,
            "invalid number of stripes {stripes}: expected at most {}",
            Self::MAX_STRIPES
        );
        let stripes = stripes.next_power_of_two();
        let mask = stripes - 1;
        let stripes = (0..stripes).map(|_| Padded::new(Stripe::new())).collect();
        let process_generation = P::process_generation();
        let pending = pending_in(process_generation);
        let queued = READY | pending;
        Box::leak(Box::new(Self { stripes, mask, process_generation, pending, queued }))
    }

    /// True in the process that it was made in; in one that was forked since, make another one. An item that was pending
    /// then never runs here: it can be queued again when it was cancelled, or made anew.
    pub fn is_of_this_process(&self) -> bool {
        P::process_generation() == self.process_generation
    }

    #[inline(always)]
    pub(super) fn stripe(&'static self, work: NonNull<EmbeddedWork>) -> &'static Stripe<P> {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 6.4): addresses are multiples of what the
        // program's structures measure, and their lowest three bits are 0.
        let hash = (work.as_ptr().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 35;
        // SAFETY: `leak` makes `mask + 1` of them, a power of two of at most `MAX_STRIPES`, which cannot have wrapped to 0.
        let stripe = unsafe { self.stripes.get_unchecked(hash as usize & self.mask) };
        in_one_register(stripe)
    }
}

/// The same reference. The compiler does not see what it is made of: else it keeps an address for each field that is used, and one of them
/// on the stack.
#[inline(always)]
fn in_one_register<T>(at: &'static T) -> &'static T {
    #[cfg(not(miri))]
    {
        let mut address = std::ptr::from_ref(at);
        // SAFETY: it is no instruction, and leaves the address, and what lies there, as they are.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) address, options(pure, readonly, nostack, preserves_flags));
            &*address
        }
    }
    #[cfg(miri)]
    at
}

impl<P: Platform> fmt::Debug for EmbeddedWorks<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedWorks")
            .field("stripes", &self.stripes.len())
            .finish_non_exhaustive()
    }
}

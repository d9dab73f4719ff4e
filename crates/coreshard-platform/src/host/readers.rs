//! The threads of this process as readers of memory that other threads may free; see `../reading.rs`.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, compiler_fence, fence};
use std::{hint, ptr};

use super::generation;
use crate::Padded;
use crate::reading::Sections;

/// Looks at a thread inside a section before it is taken to be preempted there. A section takes nanoseconds,
/// occasionally a system call.
const LOOKS: u32 = 1_000;

/// A thread's word. It is never freed; when its thread has ended, another one takes it over. So the number of
/// readers is the largest number of threads that existed at once.
struct Reader {
    sections: Sections<AtomicU32>,
    /// One more than the fork count of its thread's process; 0 while no thread owns it.
    process: AtomicU32,
    next: *const Padded<Reader>,
}

// SAFETY: `next` is written before the reader is published, and points to a reader that is never freed.
unsafe impl Sync for Reader {}

/// The list of all readers. It only grows.
static FIRST: AtomicPtr<Padded<Reader>> = AtomicPtr::new(ptr::null_mut());

/// Sections of threads without a reader: their thread-local values have been destroyed.
static STRAGGLERS: AtomicU32 = AtomicU32::new(0);

/// Whether the fork handlers are registered.
static HEARS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static READER: Cell<*const Padded<Reader>> = const { Cell::new(ptr::null()) };
    static LEAVING: Leaving = const { Leaving };
}

/// Releases the reader when its thread ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        let reader = READER.replace(ptr::null());
        // SAFETY: null, or an element of the list, which is never freed.
        if let Some(reader) = unsafe { reader.as_ref() } {
            reader.process.store(0, Release);
        }
    }
}

#[inline(always)]
pub(super) fn begin() -> *const () {
    let reader = READER.get();
    // SAFETY: null, or an element of the list, which is never freed.
    let Some(words) = (unsafe { reader.as_ref() }) else { return begin_first() };
    // Pairs with the reclaimer's membarrier in `barrier_on_all_cpus`.
    words.sections.enter(|| compiler_fence(SeqCst));
    reader.cast()
}

#[inline(always)]
pub(super) fn end(thread: *const ()) {
    // SAFETY: null, or returned by `begin`.
    match unsafe { thread.cast::<Padded<Reader>>().as_ref() } {
        Some(words) => words.sections.leave(),
        None => end_straggling(),
    }
}

/// Begins a section on a thread that has no reader.
#[cold]
fn begin_first() -> *const () {
    if LEAVING.try_with(|_| ()).is_ok() {
        READER.set(take());
        return begin();
    }
    STRAGGLERS.fetch_add(1, Relaxed);
    // Pairs with the reclaimer's barrier: see `../reading.rs`.
    fence(SeqCst);
    ptr::null()
}

#[cold]
fn end_straggling() {
    // Release pairs with the reclaimer's load in `try_grace_period`: memory is not freed before it was read.
    STRAGGLERS.fetch_sub(1, Release);
}

/// Takes a reader that no thread owns, or makes one.
fn take() -> *const Padded<Reader> {
    hear_of_forks();
    let process = generation::current() + 1;
    // Acquire pairs with the Release of the thread that gave it up: that thread is outside of all sections.
    let free = |reader: &&Padded<Reader>| {
        reader.process.compare_exchange(0, process, AcqRel, Relaxed).is_ok()
    };
    if let Some(reader) = readers().find(free) {
        return reader;
    }
    let mut made = Box::new(Padded::new(Reader {
        sections: Sections::of(AtomicU32::new(0)),
        process: AtomicU32::new(process),
        next: FIRST.load(Relaxed),
    }));
    loop {
        let next = made.next;
        let reader = Box::into_raw(made);
        // Release pairs with the Acquire of threads that walk the list: they see an initialised reader.
        match FIRST.compare_exchange_weak(next.cast_mut(), reader, Release, Relaxed) {
            Ok(_) => return reader,
            Err(first) => {
                // SAFETY: made above and not published.
                made = unsafe { Box::from_raw(reader) };
                made.next = first;
            }
        }
    }
}

fn readers() -> impl Iterator<Item = &'static Padded<Reader>> {
    // SAFETY: readers are never freed, and are complete before they are in the list.
    let at = |reader: *const Padded<Reader>| unsafe { reader.as_ref() };
    std::iter::successors(at(FIRST.load(Acquire)), move |reader| at(reader.next))
}

/// Returns true if every section that began before this call has ended. Returns false if that cannot be
/// determined: a thread stays in a section for long, or membarrier(2) is unavailable.
///
/// A thread whose reader is not in the list yet, or is unowned, has not begun its section when the barrier
/// ends. It therefore sees what was published before.
pub(super) fn try_grace_period() -> bool {
    if !barrier_on_all_cpus() {
        return false;
    }
    let is_over = |reader: &Padded<Reader>| {
        (0..LOOKS).any(|_| {
            reader.sections.is_outside() || {
                hint::spin_loop();
                false
            }
        })
    };
    let process = generation::current() + 1;
    STRAGGLERS.load(Acquire) == 0
        && readers().filter(|reader| reader.process.load(Relaxed) == process).all(is_over)
}

/// Makes every CPU that runs a thread of this process, and the caller, pass a memory barrier.
fn barrier_on_all_cpus() -> bool {
    // <linux/membarrier.h>
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    // SAFETY: the call takes no pointers.
    let membarrier =
        |command: libc::c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } == 0;
    // A process must register first, and a forked one again; until then the call returns EPERM.
    membarrier(PRIVATE_EXPEDITED)
        || (membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED))
}

pub(super) fn hear_of_forks() {
    generation::register_once(&HEARS, || generation::in_child(forked));
}

/// Runs in the child of a fork, on its only thread: releases the readers of all other threads.
extern "C" fn forked() {
    READER.set(ptr::null());
    STRAGGLERS.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use testing::{Lack, has_membarrier, skip};

    use crate::{Host, Platform, Reading};

    /// Serialises these tests: a section of another test would delay the grace period.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn a_grace_period_is_not_over_before_each_section_that_is_there() {
        let _turn = TURN.lock();
        if !has_membarrier() {
            return skip(Lack::Membarrier, "grace periods need it");
        }
        assert!(Host::try_grace_period(), "no thread is in a section");
        let (say, hear) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let reader = thread::spawn(move || {
            let outer = Reading::<Host>::begin();
            drop(Reading::<Host>::begin());
            say.send(()).unwrap();
            stopped.recv().unwrap_err();
            drop(outer);
            say.send(()).unwrap();
        });
        hear.recv().unwrap();
        assert!(!Host::try_grace_period(), "a thread is inside a section");
        drop(stop);
        hear.recv().unwrap();
        assert!(Host::try_grace_period(), "the thread has left its section");
        reader.join().unwrap();
    }

    #[test]
    fn a_section_in_a_destructor_of_a_thread_that_ends_counts_too() {
        struct Late(mpsc::Sender<bool>);
        impl Drop for Late {
            fn drop(&mut self) {
                let reading = Reading::<Host>::begin();
                self.0.send(Host::try_grace_period()).unwrap();
                drop(reading);
            }
        }
        std::thread_local! {
            static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
        }
        let _turn = TURN.lock();
        let (say, hear) = mpsc::channel();
        let thread = thread::spawn(move || {
            // Initialised first, so destroyed last.
            LATE.set(Some(Late(say)));
            drop(Reading::<Host>::begin());
        });
        assert!(!hear.recv().unwrap(), "the thread itself was reading");
        thread.join().unwrap();
        if has_membarrier() {
            // Threads that have ended leave nothing behind that looks like a section.
            (0..100).for_each(|_| thread::spawn(|| drop(Reading::<Host>::begin())).join().unwrap());
            assert!(Host::try_grace_period());
        }
    }
}

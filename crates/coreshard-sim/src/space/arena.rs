//! A range of addresses for one simulation.
//!
//! All arenas lie in one window of the address space, each at a multiple of its size. So a comparison and a shift find
//! the arena of an address, if it is in one. A block can therefore be freed after its simulation has ended, and from
//! another thread. An arena's addresses are reserved without memory behind them, and released when its simulation has
//! ended and its last block was freed. A leak keeps its arena's addresses and the touched pages.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use corosensei::stack::StackPointer;

use super::free_lists::{FreeLists, SizeClass};

/// The size of an arena: 32 GiB, half of it for the heap, half for stacks.
pub(crate) const ARENA_BYTES: usize = 1 << 35;
const HEAP_BYTES: usize = ARENA_BYTES / 2;

/// The size of a stack with its guard page. Only touched pages take memory.
pub(crate) const STACK_BYTES: usize = 1 << 20;
pub(crate) const PAGE_BYTES: usize = 4096;

/// Returns how far below its end a stack begins. If all stacks began at a multiple of a power of two, they
/// would share few sets of the host's caches and TLBs, and each switch would miss.
fn colour(stack: usize) -> usize {
    stack % 32 * PAGE_BYTES + stack * 7 % 16 * 256
}

/// Converts an address of an arena, given by its distance from the start, to the one it would have if its
/// stack began at its end: a program's places do not depend on the host's layout.
pub(crate) fn without_colour(distance: usize) -> usize {
    let stacks = distance.wrapping_sub(HEAP_BYTES);
    if stacks < ARENA_BYTES - HEAP_BYTES {
        distance + colour(stacks / STACK_BYTES)
    } else {
        distance
    }
}

/// The start of the window: 32 TiB, usually free of programs, libraries and the kernel's choice of addresses,
/// on 47-bit (x86-64) and 48-bit (aarch64) address spaces.
const WINDOW_START: usize = 1 << 45;
const ARENAS: usize = 256;

static IN_USE: [AtomicPtr<Arena>; ARENAS] = [const { AtomicPtr::new(ptr::null_mut()) }; ARENAS];

/// The serial number of the arena that has each range, from 1 on; 0 once it was released.
static OWNERS: [AtomicU64; ARENAS] = [const { AtomicU64::new(0) }; ARENAS];

/// Arenas created so far.
static ARENAS_MADE: AtomicU64 = AtomicU64::new(0);

/// Names an arena, also after its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArenaId {
    number: usize,
    serial: u64,
}

impl ArenaId {
    /// Returns true while the arena has references: after the simulation's end, blocks that the program has
    /// not freed.
    pub(crate) fn is_in_use(self) -> bool {
        OWNERS[self.number].load(Ordering::Acquire) == self.serial
    }
}

pub(crate) struct Arena {
    start: usize,
    number: usize,
    /// The end of the heap; only the simulation's own thread allocates.
    heap_end: usize,
    free: FreeLists,
    stacks: usize,
    free_stacks: Vec<usize>,
    /// One for the simulation, and one for each block.
    references: AtomicUsize,
    /// Called before a block is allocated or freed.
    pub(crate) before_change: Option<fn()>,
    /// Called with the address and the size of a freed block.
    pub(crate) on_release: Option<fn(usize, usize)>,
}

/// Returns the number of the arena that contains an address.
#[inline(always)]
pub(super) fn number_of(address: usize) -> Option<usize> {
    let number = address.wrapping_sub(WINDOW_START) / ARENA_BYTES;
    (number < ARENAS).then_some(number)
}

impl Arena {
    /// Reserves an arena.
    pub(crate) fn reserve() -> io::Result<NonNull<Self>> {
        for (number, slot) in IN_USE.iter().enumerate() {
            if !slot.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let start = WINDOW_START + number * ARENA_BYTES;
            let arena = Box::into_raw(Box::new(Self {
                start,
                number,
                heap_end: start,
                free: FreeLists::new(),
                stacks: 0,
                free_stacks: Vec::new(),
                references: AtomicUsize::new(1),
                before_change: None,
                on_release: None,
            }));
            // AcqRel: the last user's unmapping happens before this one's mapping. Pairs with the
            // Release store in `drop_reference`.
            let free = ptr::null_mut();
            if slot.compare_exchange(free, arena, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                // SAFETY: created above; the table holds another one.
                drop(unsafe { Box::from_raw(arena) });
                continue;
            }
            if let Err(error) = map(start) {
                slot.store(free, Ordering::Release);
                // SAFETY: created above, and removed from the table again.
                drop(unsafe { Box::from_raw(arena) });
                return Err(error);
            }
            let made = ARENAS_MADE.fetch_add(1, Ordering::Relaxed) + 1;
            OWNERS[number].store(made, Ordering::Release);
            return Ok(NonNull::new(arena).expect("a box is not null"));
        }
        Err(io::Error::other(format!("all {ARENAS} address ranges for simulations are in use")))
    }

    pub(crate) fn id(&self) -> ArenaId {
        ArenaId { number: self.number, serial: OWNERS[self.number].load(Ordering::Acquire) }
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Allocates a block, or returns null. Its memory contains its last user's data.
    pub(super) fn allocate(&mut self, layout: Layout) -> *mut u8 {
        if let Some(before_change) = self.before_change {
            before_change();
        }
        let Some(class) = SizeClass::of(layout) else { return ptr::null_mut() };
        let head = self.free.head(class);
        let block = if *head != 0 {
            let block = *head;
            // SAFETY: a block on a list has at least 16 bytes of this arena and is unused. `release` wrote
            // its first word.
            *head = unsafe { *(block as *const usize) };
            block
        } else {
            let block = self.heap_end.next_multiple_of(class.align);
            let Some(end) = block.checked_add(class.bytes) else { return ptr::null_mut() };
            if end > self.start + HEAP_BYTES {
                return ptr::null_mut();
            }
            self.heap_end = end;
            block
        };
        self.references.fetch_add(1, Ordering::Relaxed);
        block as *mut u8
    }

    /// Frees a block, on the simulation's own thread.
    ///
    /// # Safety
    /// The block must be from `allocate` of this arena with this layout, and must not be used any more.
    pub(super) unsafe fn release(&mut self, block: *mut u8, layout: Layout) {
        if let Some(before_change) = self.before_change {
            before_change();
        }
        if let Some(on_release) = self.on_release {
            on_release(block.addr(), layout.size());
        }
        let class = SizeClass::of(layout).expect("an allocated block has a class");
        let head = self.free.head(class);
        // SAFETY: by this function's contract the block is unused. It has at least 16 bytes, and is aligned
        // to 16.
        unsafe { *block.cast::<usize>() = *head };
        *head = block as usize;
        // Relaxed: the simulation's own reference still exists.
        self.references.fetch_sub(1, Ordering::Relaxed);
    }

    /// Drops one reference, from any thread. The last one releases the addresses.
    ///
    /// # Safety
    /// The caller must own a reference: the simulation's, or that of a block whose memory is not used any
    /// more.
    pub(super) unsafe fn drop_reference(arena: *mut Self) {
        // SAFETY: the arena lives while there are references, and the caller has one.
        let (references, start, number) =
            unsafe { (&(*arena).references, (*arena).start, (*arena).number) };
        // Release, and Acquire by the last: all uses happen before the end.
        if references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // SAFETY: nothing uses this range, which `reserve` mapped.
        unsafe { libc::munmap(start as *mut libc::c_void, ARENA_BYTES) };
        // SAFETY: created by `reserve`; the last reference was dropped.
        drop(unsafe { Box::from_raw(arena) });
        OWNERS[number].store(0, Ordering::Release);
        IN_USE[number].store(ptr::null_mut(), Ordering::Release);
    }

    /// Ends the simulation. The addresses stay while there are blocks. Of its stacks, only the addresses
    /// stay, since each stack is two mappings of the process, which may have 65,530 by default.
    ///
    /// # Safety
    /// Must be called once, after the last use of the arena by its simulation.
    pub(crate) unsafe fn end_simulation(arena: NonNull<Self>) {
        // SAFETY: the arena lives while the simulation's reference does.
        let stacks = unsafe { arena.as_ref() }.start + HEAP_BYTES;
        let stack_bytes = ARENA_BYTES - HEAP_BYTES;
        // SAFETY: by this function's contract, nothing uses the stacks of this arena any more. If it fails,
        // they stay.
        unsafe { mmap(stacks, stack_bytes, libc::PROT_NONE, libc::MAP_FIXED) };
        // SAFETY: the simulation's reference, by this function's contract.
        unsafe { Self::drop_reference(arena.as_ptr()) };
    }

    /// Creates a stack for a virtual thread.
    pub(crate) fn stack(&mut self) -> io::Result<Stack> {
        let number = match self.free_stacks.pop() {
            Some(number) => number,
            None => {
                if (self.stacks + 1) * STACK_BYTES > ARENA_BYTES - HEAP_BYTES {
                    let problem = format!("a simulation has stacks for {} threads", self.stacks);
                    return Err(io::Error::other(problem));
                }
                let guard = self.start + HEAP_BYTES + self.stacks * STACK_BYTES;
                // SAFETY: a page of this arena that was never allocated.
                let rc = unsafe {
                    libc::mprotect(guard as *mut libc::c_void, PAGE_BYTES, libc::PROT_NONE)
                };
                if rc != 0 {
                    return Err(io::Error::last_os_error());
                }
                self.stacks += 1;
                self.stacks - 1
            }
        };
        Ok(Stack { start: self.start + HEAP_BYTES + number * STACK_BYTES, number })
    }

    pub(crate) fn take_stack_back(&mut self, stack: Stack) {
        self.free_stacks.push(stack.number);
    }
}

/// Maps memory at an address, without committing any yet (NORESERVE). Returns the address, or `MAP_FAILED`.
///
/// # Safety
/// Nothing may use memory that `flags` allow the mapping to replace.
unsafe fn mmap(start: usize, bytes: usize, protection: i32, flags: i32) -> *mut libc::c_void {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: by this function's contract.
    unsafe { libc::mmap(start as *mut libc::c_void, bytes, protection, flags, -1, 0) }
}

fn map(start: usize) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: NOREPLACE maps only unused addresses.
    let found = unsafe { mmap(start, ARENA_BYTES, protection, libc::MAP_FIXED_NOREPLACE) };
    if found == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if found as usize != start {
        // A kernel before 4.17 treats the address as a hint.
        // SAFETY: the mapping was just created, and nothing refers to it.
        unsafe { libc::munmap(found, ARENA_BYTES) };
        return Err(io::Error::other("the kernel does not map memory at a chosen address"));
    }
    Ok(())
}

/// Returns the arena with this number, while it has references.
pub(super) fn numbered(number: usize) -> *mut Arena {
    IN_USE[number].load(Ordering::Acquire)
}

/// A stack in an arena.
pub(crate) struct Stack {
    start: usize,
    number: usize,
}

// SAFETY: the stack's lowest page is protected; the rest far exceeds the minimum size.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.start + STACK_BYTES - colour(self.number))
            .expect("an arena is not at address 0")
    }
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.start).expect("an arena is not at address 0")
    }
}

//! The size classes of an arena, and its freed blocks.
//!
//! Sizes are as in the common C library: eight bytes of bookkeeping, rounded up to 16. Small objects
//! therefore lie as close together, and share lines as often, as on the real machine.

use std::alloc::Layout;

const STEP: usize = 16;
/// The C library's bookkeeping beside each block.
const HEADER: usize = 8;
const SMALL: usize = 1024;
const SMALL_CLASSES: usize = SMALL / STEP;
/// The number of sizes between two powers of two, above `SMALL`.
const STEPS_PER_DOUBLING: usize = 4;
const LARGE_CLASSES: usize = 26 * STEPS_PER_DOUBLING;
const CLASSES: usize = 1 + SMALL_CLASSES + LARGE_CLASSES;
/// 16 bytes to 512 KiB.
const ALIGNMENTS: usize = 16;

/// A size class for one alignment: its list, and the bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeClass {
    list: usize,
    pub(super) bytes: usize,
    pub(super) align: usize,
}

impl SizeClass {
    /// Returns `None` if it is larger than any arena.
    pub(super) fn of(layout: Layout) -> Option<Self> {
        let align = layout.align().max(STEP);
        let wanted =
            if align > STEP { layout.size().max(1) } else { layout.size().checked_add(HEADER)? };
        let (number, bytes) = if wanted <= SMALL {
            let number = wanted.div_ceil(STEP);
            (number, number * STEP)
        } else {
            let doubling = usize::BITS as usize - 1 - (wanted - 1).leading_zeros() as usize;
            let step = (1_usize << doubling) / STEPS_PER_DOUBLING;
            let bytes = wanted.checked_next_multiple_of(step)?;
            let within = (bytes - (1 << doubling)) / step - 1;
            (1 + SMALL_CLASSES + (doubling - 10) * STEPS_PER_DOUBLING + within, bytes)
        };
        let alignment = align.trailing_zeros() as usize - STEP.trailing_zeros() as usize;
        if number >= CLASSES || alignment >= ALIGNMENTS {
            return None;
        }
        Some(Self { list: alignment * CLASSES + number, bytes, align })
    }
}

/// Freed blocks, the last first, by class. They are linked through their first word.
pub(super) struct FreeLists {
    heads: Box<[usize]>,
}

impl FreeLists {
    pub(super) fn new() -> Self {
        Self { heads: vec![0; CLASSES * ALIGNMENTS].into() }
    }

    pub(super) fn head(&mut self, class: SizeClass) -> &mut usize {
        &mut self.heads[class.list]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class_that_holds_it_and_no_smaller_one_does() {
        let mut last = 0;
        for size in (1..5_000).chain((13..34).map(|bit| (1 << bit) - 9)) {
            let class = SizeClass::of(Layout::from_size_align(size, 8).unwrap()).unwrap();
            assert!(class.bytes >= size + HEADER && class.bytes <= (size + HEADER) * 5 / 4 + STEP);
            assert!(class.list >= last && class.list < CLASSES, "{size}");
            last = class.list;
        }
    }

    #[test]
    fn classes_with_one_list_are_alike() {
        let mut bytes_of = std::collections::HashMap::new();
        for align in [8, 64, 4096] {
            for size in 1..20_000 {
                let class = SizeClass::of(Layout::from_size_align(size, align).unwrap()).unwrap();
                let known = bytes_of.entry(class.list).or_insert((class.bytes, class.align));
                assert_eq!(*known, (class.bytes, class.align), "size {size} align {align}");
            }
        }
    }
}

//! A value on cache lines of its own.

use std::ops::{Deref, DerefMut};

/// How far apart two hot words must be not to disturb each other, in bytes.
///
/// x86-64 has lines of 64 bytes, but its second-level prefetcher fetches them in aligned pairs
/// (Intel 64 and IA-32 Architectures Optimization Reference Manual, "spatial prefetcher"), so a
/// neighbour on the other half of a pair still bounces. On aarch64 several server and desktop
/// cores have lines of 128 bytes. So both get 128.
pub const LINE_PAIR_BYTES: usize = 128;

/// A value that shares no pair of cache lines with anything else.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(T);

impl<T> Padded<T> {
    /// Puts `value` on lines of its own.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_an_array_share_no_line_pair() {
        let pair = [Padded::new(1_u8), Padded::new(2_u8)];
        let distance = (&raw const pair[1]).addr() - (&raw const pair[0]).addr();
        assert_eq!(distance, LINE_PAIR_BYTES);
        assert_eq!((&raw const pair[0]).addr() % LINE_PAIR_BYTES, 0);
    }
}

//! The bits of a word.

/// The numbers of the bits that are set, the smallest first.
pub(crate) fn bits(of: u64) -> impl Iterator<Item = usize> + Clone {
    std::iter::successors((of != 0).then_some(of), |left| {
        Some(left & (left - 1)).filter(|it| *it != 0)
    })
    .map(|left| left.trailing_zeros() as usize)
}

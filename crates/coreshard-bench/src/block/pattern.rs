//! Blocks that tell where they belong.

/// Fills `block`, which is to be written at `offset`: each eight bytes hold their own offset, mixed
/// with `seed`, so that a block of another place, or of another run, is found out.
pub(super) fn fill(block: &mut [u8], offset: u64, seed: u64) {
    for (at, chunk) in block.chunks_mut(8).enumerate() {
        let word = word(offset + at as u64 * 8, seed).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// The first byte of `block` that is not as [`fill`] has it.
pub(super) fn first_wrong(block: &[u8], offset: u64, seed: u64) -> Option<u64> {
    block.chunks(8).enumerate().find_map(|(at, chunk)| {
        let place = offset + at as u64 * 8;
        let word = word(place, seed).to_le_bytes();
        let wrong = chunk.iter().zip(word).position(|(found, wanted)| *found != wanted)?;
        Some(place + wrong as u64)
    })
}

/// Odd, so that what it makes of seeds can be undone.
const MIXER: u64 = 0x9E37_79B9_7F4A_7C15;

fn word(offset: u64, seed: u64) -> u64 {
    offset ^ (seed.wrapping_add(1)).wrapping_mul(MIXER)
}

/// Whether offsets were mixed with the number of a seed below 2³². Other people's data, however regular,
/// has such a number by chance alone.
pub(super) fn is_of_small_seed(mixed_with: u64) -> bool {
    // The inverse modulo 2⁶⁴ by Newton's method: each round doubles the bits that are right, three at first.
    let (mut inverse, mut round) = (MIXER, 0);
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(MIXER.wrapping_mul(inverse)));
        round += 1;
    }
    mixed_with.wrapping_mul(inverse).wrapping_sub(1) < 1 << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_known_by_what_is_made_of_them() {
        for seed in [0, 1, 77, u64::from(u32::MAX)] {
            assert!(is_of_small_seed(word(0, seed)));
            assert!(!is_of_small_seed(word(4096, seed)), "mixed with a place as well");
        }
        assert!(!is_of_small_seed(word(0, 1 << 32)) && !is_of_small_seed(0));
    }

    #[test]
    fn a_block_of_another_place_or_run_is_found_out() {
        let mut block = [0; 61];
        fill(&mut block, 4096, 5);
        assert_eq!(first_wrong(&block, 4096, 5), None);
        assert_eq!(first_wrong(&block, 4096, 6), Some(4096));
        assert!(first_wrong(&block, 8192, 5).is_some());
        block[60] ^= 1;
        assert_eq!(first_wrong(&block, 4096, 5), Some(4096 + 60));
    }
}

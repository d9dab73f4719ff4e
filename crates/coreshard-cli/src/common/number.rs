//! Numbers on the command line. Errors give the accepted range.

use std::num::{NonZeroU64, NonZeroUsize};

/// A type of number that an option may have.
pub(crate) trait Whole: Sized {
    fn of(number: u64) -> Option<Self>;
}

macro_rules! whole {
    ($($number:ident: $of:expr),+ $(,)?) => {
        $(impl Whole for $number {
            fn of(number: u64) -> Option<Self> {
                #[allow(clippy::redundant_closure_call, reason = "one form for all")]
                ($of)(number)
            }
        })+
    };
}

whole! {
    u64: Some,
    u32: |number| u32::try_from(number).ok(),
    usize: |number| usize::try_from(number).ok(),
    NonZeroU64: NonZeroU64::new,
    NonZeroUsize: |number| usize::try_from(number).ok().and_then(NonZeroUsize::new),
}

/// Parses a whole number from `LEAST` to `MOST`.
pub(crate) fn whole<T: Whole, const LEAST: u64, const MOST: u64>(text: &str) -> Result<T, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = match text.parse::<u64>() {
        Ok(number) if number < LEAST => return Err(format!("expected at least {LEAST}")),
        Ok(number) if number <= MOST => T::of(number),
        // Larger than any type.
        Ok(_) => None,
        Err(_) if is_number => None,
        Err(_) => return Err(format!("expected a whole number from {LEAST} to {MOST}")),
    };
    number.ok_or_else(|| format!("expected at most {MOST}"))
}

/// Parses a seed: any number.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    whole::<u64, 0, { u64::MAX }>(text)
}

/// Parses a number of threads, CPUs or similar.
pub(crate) fn few(text: &str) -> Result<NonZeroUsize, String> {
    whole::<_, 1, 65_536>(text)
}

/// Parses a number of repetitions.
pub(crate) fn many<T: Whole>(text: &str) -> Result<T, String> {
    whole::<T, 1, 1_000_000_000_000>(text)
}

/// An hour.
pub(crate) const MOST_MICROSECONDS: u64 = 3_600_000_000;

/// Parses microseconds, up to an hour.
pub(crate) fn microseconds<T: Whole, const LEAST: u64>(text: &str) -> Result<T, String> {
    whole::<T, LEAST, MOST_MICROSECONDS>(text)
}

/// Hashes numbers into one with 64-bit FNV-1a.
pub(crate) fn sum_of(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers
        .into_iter()
        .fold(0xCBF2_9CE4_8422_2325, |sum, number| (sum ^ number).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_told_in_words() {
        let few = |text: &str| few(text).map(NonZeroUsize::get);
        assert_eq!(few("65536"), Ok(65_536));
        assert_eq!(few("0"), Err("expected at least 1".to_owned()));
        for large in ["65537", "99999999999999999999999999"] {
            assert_eq!(few(large), Err("expected at most 65536".to_owned()));
        }
        for wrong in ["", "x", "-1", "1.5", "1 ", "\u{1b}"] {
            assert_eq!(few(wrong), Err("expected a whole number from 1 to 65536".to_owned()));
        }
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
    }
}

//! Which part of a device a job uses, and how much it transfers there.

use super::amount::Amount;
use super::job::BlockJob;

/// The part of a device that a job uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u64,
    /// A multiple of the smallest block, and at least one.
    pub(super) bytes: u64,
    /// What a thread transfers there before it is done.
    pub(super) io_bytes: u64,
}

impl Extent {
    /// The part of a device of `whole` bytes that `job` asks for.
    ///
    /// # Errors
    /// Why there is no such part, without the device's name, which the caller has.
    pub(super) fn new(job: &BlockJob, whole: u64) -> Result<Self, String> {
        let block = u64::from(job.smallest_bs());
        let offset = job.offset.of(whole);
        let start = match job.offset {
            Amount::Bytes(_) => offset,
            Amount::Percent(_) => offset.next_multiple_of(block),
        };
        if start >= whole {
            return Err(format!(
                "has {whole} bytes, and nothing at offset={}; give a smaller offset",
                job.offset
            ));
        }
        let rest = whole - start;
        let size = match job.size {
            None => rest,
            Some(size @ Amount::Percent(_)) => size.of(whole).min(rest),
            Some(Amount::Bytes(size)) if size <= rest => size,
            Some(Amount::Bytes(size)) => {
                let behind =
                    if start > 0 { format!(" behind offset={start}") } else { String::new() };
                return Err(format!(
                    "has {rest} bytes{behind}, but size={size}; give a smaller size"
                ));
            }
        };
        let bytes = size / block * block;
        if bytes == 0 {
            return Err(format!(
                "has {size} bytes to be used, which is less than one block of {block} (bs); give a \
                 smaller bs, or a larger file"
            ));
        }
        let io_bytes = job.io_size.map_or(bytes, |io_size| io_size.of(bytes)).max(1);
        Ok(Self { start, bytes, io_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(words: &str, whole: u64) -> Result<(u64, u64, u64), String> {
        let mut job = BlockJob::default();
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap();
            job.set(key, value).unwrap();
        }
        Extent::new(&job, whole).map(|extent| (extent.start, extent.bytes, extent.io_bytes))
    }

    /// What fio 3.33 does with a file of 1 MiB.
    #[test]
    fn offsets_sizes_and_percentages_are_fio_s() {
        const K: u64 = 1024;
        for (words, start, bytes, io_bytes) in [
            ("bs=4k", 0, 1024 * K, 1024 * K),
            ("bs=4k size=25%", 0, 256 * K, 256 * K),
            ("bs=4k size=33%", 0, 84 * 4 * K, 84 * 4 * K),
            ("bs=4k size=50% offset=75%", 768 * K, 256 * K, 256 * K),
            ("bs=4k offset=33%", 85 * 4 * K, 171 * 4 * K, 171 * 4 * K),
            ("bs=4k size=512k offset=256k", 256 * K, 512 * K, 512 * K),
            ("bs=4k size=50% io_size=50%", 0, 512 * K, 256 * K),
            ("bs=4k size=512k io_size=2m", 0, 512 * K, 2048 * K),
            ("bs=4k size=10000", 0, 8 * K, 8 * K),
            ("bssplit=4k/50:16k/50 size=21k", 0, 20 * K, 20 * K),
        ] {
            assert_eq!(extent(words, 1024 * K), Ok((start, bytes, io_bytes)), "{words}");
        }
    }

    #[test]
    fn parts_that_are_not_there_are_refused() {
        for (words, says) in [
            ("offset=2m", "has 1048576 bytes, and nothing at offset=2097152"),
            ("offset=100%", "nothing at offset=100%"),
            ("size=2m", "has 1048576 bytes, but size=2097152; give a smaller size"),
            ("offset=512k size=1m", "has 524288 bytes behind offset=524288, but size=1048576"),
            ("bs=2m", "less than one block of 2097152 (bs)"),
            ("bs=64k size=1%", "has 10485 bytes to be used"),
        ] {
            let problem = extent(words, 1 << 20).unwrap_err();
            assert!(problem.contains(says), "{words}: {problem}");
        }
    }
}

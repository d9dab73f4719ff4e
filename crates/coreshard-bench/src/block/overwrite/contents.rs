//! What the bytes of a file or device say about whose they are. Pure.

use crate::block::pattern;

/// What this benchmark fills files with, so that it knows them again, and so that people who look into
/// one see what it is.
const MARK: &[u8; 16] = b"coreshard bench\n";

/// Bytes of a sample.
pub(super) const SAMPLE_BYTES: usize = 4096;

/// Fills a block that will be written.
pub(in crate::block) fn fill(block: &mut [u8]) {
    block.chunks_mut(MARK.len()).for_each(|chunk| chunk.copy_from_slice(&MARK[..chunk.len()]));
}

/// Whether a part of a file, read at `offset`, is what this benchmark writes: the mark, or the pattern of
/// what is verified ([`pattern`](crate::block::pattern)). Blocks of odd sizes may meet in it, so a half is
/// enough.
pub(super) fn is_ours(part: &[u8], offset: u64) -> bool {
    let chunks = part.chunks_exact(MARK.len());
    let all = chunks.len();
    let ours = chunks
        .enumerate()
        .filter(|(at, chunk)| is_marked(chunk) || is_pattern(chunk, offset + (at * 16) as u64))
        .count();
    all > 0 && ours * 2 > all
}

/// The mark, begun anywhere.
fn is_marked(chunk: &[u8]) -> bool {
    (0..MARK.len()).any(|from| {
        let (end, start) = (&MARK[from..], &MARK[..from]);
        chunk.starts_with(end) && chunk[end.len()..] == *start
    })
}

/// Two words that hold their own places, mixed with what [`pattern`] makes of a seed.
fn is_pattern(chunk: &[u8], offset: u64) -> bool {
    let mixed_with = |at: usize| {
        let word = chunk[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(word) ^ (offset + at as u64)
    };
    mixed_with(0) == mixed_with(8) && pattern::is_of_small_seed(mixed_with(0))
}

/// A place in a device, and what stands there where something is on it.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0x438, b"\x53\xEF", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0x400, b"\x10\x20\xF5\xF2", "an F2FS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (0x36, b"FAT", "a FAT file system"),
    (0x52, b"FAT", "a FAT file system"),
    (0, b"LUKS\xBA\xBE", "LUKS encryption"),
    (0x4000, b"SKUL\xBA\xBE", "LUKS encryption"),
    (0x0, b"LABELONE", "an LVM volume"),
    (0x200, b"LABELONE", "an LVM volume"),
    (0x400, b"LABELONE", "an LVM volume"),
    (0x600, b"LABELONE", "an LVM volume"),
    (0, b"\xFC\x4E\x2B\xA9", "a member of a RAID"),
    (0x1000, b"\xFC\x4E\x2B\xA9", "a member of a RAID"),
    (0xFF6, b"SWAPSPACE2", "swap space"),
    (0xFF6, b"SWAP-SPACE", "swap space"),
    (0x3FF6, b"SWAPSPACE2", "swap space"),
    (0xFFF6, b"SWAPSPACE2", "swap space"),
    (
        0x1018,
        b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81",
        "bcache or bcachefs",
    ),
    (0x1018, b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF", "bcachefs"),
    (0, b"bluestore block device", "a Ceph store"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0, b"hsqs", "a squashfs file system"),
    (0x400, b"\xE2\xE1\xF5\xE0", "an EROFS file system"),
    (0x8000, b"JFS1", "a JFS file system"),
    (0x10034, b"ReIsEr", "a ReiserFS file system"),
    (0x406, b"\x34\x34", "a NILFS file system"),
    (0x20, b"NXSB", "an APFS file system"),
    (0x200, b"EFI PART", "a partition table (GPT)"),
    (0x1000, b"EFI PART", "a partition table (GPT)"),
    // Last, since file systems that can be booted from have it too.
    (0x1FE, b"\x55\xAA", "a boot sector or partition table (MBR)"),
];

/// What is on a device, by its first bytes and its last ones; `None` where nothing known is.
pub(super) fn signature(head: &[u8], tail: &[u8]) -> Option<&'static str> {
    let stands = |(at, bytes, _): &&(usize, &[u8], _)| {
        head.get(*at..).is_some_and(|rest| rest.starts_with(bytes))
    };
    if let Some((.., what)) = SIGNATURES.iter().find(stands) {
        return Some(what);
    }
    // ZFS has its uberblocks in a ring of the first label's second half.
    let zfs =
        |at: usize| head.get(at..at + 8).is_some_and(|word| word == 0x00BA_B10C_u64.to_le_bytes());
    if (0x2_0000..0x4_0000).step_by(0x400).any(zfs) {
        return Some("a member of a ZFS pool");
    }
    // Copies at the end outlive what wipes the start.
    let begins = |bytes: &[u8]| tail.rchunks_exact(512).any(|sector| sector.starts_with(bytes));
    if begins(b"EFI PART") {
        Some("a partition table (GPT, its copy at the end)")
    } else if begins(b"\xFC\x4E\x2B\xA9") {
        Some("a member of a RAID")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_benchmark_writes_is_known_again() {
        let mut part = [0; SAMPLE_BYTES];
        for bs in [16, 512, 1000, 4096] {
            part.chunks_mut(bs).for_each(fill);
            assert!(is_ours(&part, 8192), "bs={bs}");
        }
        for (bs, seed) in [(512, 1), (4096, 77)] {
            for (at, block) in part.chunks_mut(bs).enumerate() {
                pattern::fill(block, 1 << 40 | (at * bs) as u64, seed);
            }
            assert!(is_ours(&part, 1 << 40), "bs={bs}");
            assert!(!is_ours(&part, 1 << 41), "of another place");
        }
    }

    #[test]
    fn what_others_write_is_not_ours() {
        let text: Vec<u8> = b"a letter to a friend\n".iter().copied().cycle().take(4096).collect();
        // Such as an index of records of eight bytes.
        let places: Vec<u8> = (0..512_u64).flat_map(|at| (at * 8).to_le_bytes()).collect();
        for part in [&[0; 4096][..], &[0xFF; 4096], &[0xA5; 4096], &text, &places, b"", b"short"] {
            for offset in [0, 4096, 1 << 40] {
                assert!(!is_ours(part, offset));
            }
        }
    }

    #[test]
    fn signatures_are_found_where_they_stand() {
        assert_eq!(signature(&[0; 1 << 20], &[0; 1 << 20]), None);
        assert_eq!(signature(&[], &[]), None, "a device of no bytes");
        for (at, bytes, what) in SIGNATURES {
            let mut head = vec![0; 1 << 20];
            head[*at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(signature(&head, &[]), Some(*what));
            assert!(signature(&head[..at + bytes.len() - 1], &[]).is_none(), "{what}");
        }
        let mut tail = vec![0; 1 << 20];
        let from = tail.len() - 512;
        tail[from..from + 8].copy_from_slice(b"EFI PART");
        assert!(signature(&[0; 512], &tail).unwrap().contains("GPT"));
        let mut head = vec![0; 1 << 20];
        head[0x2_0400..0x2_0408].copy_from_slice(&0x00BA_B10C_u64.to_le_bytes());
        assert!(signature(&head, &[]).unwrap().contains("ZFS"));
    }
}

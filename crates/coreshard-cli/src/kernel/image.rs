//! A kernel's image: what `-kernel` boots.

use std::path::Path;

use coreshard_topology::input;

use crate::common::{bad_input, bail_input};

/// Where an x86 image has its marks (Documentation/arch/x86/boot.rst).
const HEAD_BYTES: u64 = 0x264;
const MARK_AT: usize = 0x202;
/// Where an image has an arm64 mark (Documentation/arch/arm64/booting.rst).
const ARM_MARK_AT: usize = 0x38;
const VERSION_AT: usize = 0x20e;

/// Checks that a file is a kernel's image for x86-64, and returns the version that it names, such as
/// `7.2.13+deb14-cloud-amd64`.
pub(super) fn version(path: &Path) -> anyhow::Result<String> {
    let head = input::head_bytes(path, 1 << 16).map_err(bad_input)?;
    let is_arm = head.get(ARM_MARK_AT..).is_some_and(|rest| rest.starts_with(b"ARM\x64"));
    if is_arm {
        bail_input!(
            "{} is a kernel for arm64; only x86-64 kernels can be booted",
            input::path(path)
        );
    }
    if head.starts_with(b"\x7fELF") {
        bail_input!(
            "{} is an ELF file, such as vmlinux; expected the image that a boot loader starts, such as /boot/vmlinuz-VERSION",
            input::path(path)
        );
    }
    let has_mark = head.get(MARK_AT..).is_some_and(|rest| rest.starts_with(b"HdrS"));
    if (head.len() as u64) < HEAD_BYTES || !has_mark {
        bail_input!(
            "{} is no kernel image: expected a file such as /boot/vmlinuz-VERSION",
            input::path(path)
        );
    }
    // Bit 0 of this word: the kernel has a 64-bit entry.
    if head[0x236] & 1 == 0 {
        bail_input!("{} is a 32-bit kernel; expected one for x86-64", input::path(path));
    }
    let offset = usize::from(u16::from_le_bytes([head[VERSION_AT], head[VERSION_AT + 1]])) + 0x200;
    let text = head.get(offset..).unwrap_or_default();
    let text = text.split(|byte| *byte == 0 || *byte == b' ').next().unwrap_or_default();
    Ok(input::plain(&String::from_utf8_lossy(text)))
}

/// The first release whose CPUs come up side by side. Earlier ones did not get past their second CPU when the guest's clock
/// counted instructions (6.1 in QEMU 7.2).
const PARALLEL: (u32, u32) = (6, 5);

/// Whether a kernel of this version boots if the guest's clock counts instructions.
pub(super) fn can_count_instructions(version: &str) -> bool {
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    // Versions that are no numbers are recent development.
    next().zip(next()).is_none_or(|version| version >= PARALLEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, content).unwrap();
        version(&path).unwrap_or_else(|error| format!("{error:#}"))
    }

    #[test]
    fn other_files_are_refused_by_what_they_are() {
        let mut image = vec![0; 0x400];
        image[MARK_AT..MARK_AT + 4].copy_from_slice(b"HdrS");
        assert!(error(&image).contains("32-bit"));
        image[0x236] = 1;
        image[VERSION_AT..VERSION_AT + 2].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x30c].copy_from_slice(b"7.2.13-x me@");
        assert_eq!(error(&image), "7.2.13-x");
        assert!(error(b"").contains("no kernel image"));
        assert!(error(b"\x7fELF").contains("an ELF file"));
        let mut arm = vec![0; 0x100];
        arm[ARM_MARK_AT..ARM_MARK_AT + 4].copy_from_slice(b"ARM\x64");
        assert!(error(&arm).contains("arm64"));
    }

    #[test]
    fn old_kernels_keep_the_hosts_clock() {
        for (version, expected) in [
            ("7.2.13+deb14-cloud-amd64", true),
            ("6.12.117", true),
            ("6.5.0", true),
            ("6.1.0-50-cloud-amd64", false),
            ("5.15.0", false),
            ("next-20261129", true),
        ] {
            assert_eq!(can_count_instructions(version), expected, "{version}");
        }
    }
}

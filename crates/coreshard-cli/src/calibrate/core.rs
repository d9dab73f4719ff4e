//! How far a core works ahead while a line is in transit to it.
//!
//! This reach depends on the code. On a Xeon (family 6, model 207), work beside loads from the third-level cache overlapped with them
//! for more than 90 ns if it was one chain of multiplications, 45 ns if it was two chains, and 16 ns if it was four. So it is
//! not measured. It is derived from the published number of entries of the core's reorder buffer.

use std::path::Path;

use coreshard_topology::input;

/// Instructions per cycle of code that fills the reorder buffer. Slower code waits for its own results in the scheduler, which
/// is as many times smaller.
const PER_CYCLE: f64 = 3.0;
/// The entries of a reorder buffer that is not known: those of Skylake and Zen 2.
const UNKNOWN: u32 = 224;

/// Reorder buffers by vendor or implementer, family or part, and models. Zen 4, Zen 5, Neoverse N1, N2 and V2 were checked against
/// LLVM's scheduling models (`MicroOpBufferSize`), Neoverse V1 against WikiChip. The others are as the makers announced them.
const KNOWN: &[(&str, u32, &[u32], u32, &str)] = &[
    ("GenuineIntel", 6, &[85, 94, 158], 224, "Skylake"),
    ("GenuineIntel", 6, &[106, 108, 125, 126], 352, "Sunny Cove"),
    ("GenuineIntel", 6, &[143, 151, 154, 183, 207], 512, "Golden Cove"),
    ("GenuineIntel", 6, &[173, 174], 512, "Redwood Cove"),
    ("AuthenticAMD", 23, &[49, 96, 104, 113], 224, "Zen 2"),
    ("AuthenticAMD", 25, &[0, 1, 8, 33, 68, 80], 256, "Zen 3"),
    ("AuthenticAMD", 25, &[], 320, "Zen 4"),
    ("AuthenticAMD", 26, &[], 448, "Zen 5"),
    ("0x41", 0xd0c, &[], 128, "Neoverse N1"),
    ("0x41", 0xd40, &[], 256, "Neoverse V1"),
    ("0x41", 0xd49, &[], 160, "Neoverse N2"),
    ("0x41", 0xd4f, &[], 320, "Neoverse V2"),
    ("0x48", 0xd01, &[], 128, "TSV110"),
];

/// A core's reorder buffer, and the name of its design if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Core {
    entries: u32,
    name: Option<&'static str>,
}

impl Default for Core {
    fn default() -> Self {
        Self { entries: UNKNOWN, name: None }
    }
}

impl Core {
    /// Returns the core of this machine.
    pub(super) fn host() -> Self {
        input::head(Path::new("/proc/cpuinfo"), input::HEAD_BYTES)
            .map_or_else(|_| Self::default(), |text| Self::of(&text))
    }

    /// Returns the core that the kernel describes.
    fn of(cpuinfo: &str) -> Self {
        let value = |keys: [&str; 2]| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| keys.contains(&key.trim())).map(|(_, value)| value.trim())
        };
        let number = |text: Option<&str>| {
            text.and_then(|text| match text.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            })
        };
        let vendor = value(["vendor_id", "CPU implementer"]);
        let family = number(value(["cpu family", "CPU part"]));
        let model = number(value(["model", "CPU variant"]));
        let is_it = |(its_vendor, its_family, models, ..): &&(&str, u32, &[u32], u32, &str)| {
            vendor == Some(*its_vendor)
                && family == Some(*its_family)
                && (models.is_empty() || model.is_some_and(|model| models.contains(&model)))
        };
        KNOWN.iter().find(is_it).map_or_else(Self::default, |(.., entries, name)| Self {
            entries: *entries,
            name: Some(name),
        })
    }

    /// Returns how much work it does while a line is in transit.
    pub(super) fn work_ahead_ns(self, cycle_ns: f64) -> f64 {
        f64::from(self.entries) / PER_CYCLE * cycle_ns
    }

    pub(super) fn source(self) -> String {
        let Self { entries, name } = self;
        match name {
            Some(name) => format!(
                "the {entries} entries of {name}'s reorder buffer, published, at three instructions a cycle"
            ),
            None => format!(
                "assumed: a reorder buffer of {entries} entries, at three instructions a cycle"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_known_by_what_the_kernel_says_of_them() {
        let name = |text: &str| Core::of(text).name;
        let intel = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: X\n";
        assert_eq!(name(intel), Some("Golden Cove"));
        assert_eq!(name(&intel.replace("207", "9")), None);
        let amd = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n";
        assert_eq!(name(amd), Some("Zen 3"));
        assert_eq!(name(&amd.replace(": 1\n", ": 17\n")), Some("Zen 4"));
        let arm = "CPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\n";
        assert_eq!(name(arm), Some("Neoverse V2"));
        assert_eq!(Core::of(""), Core::default());
        assert!((Core::of(intel).work_ahead_ns(0.43) - 73.4).abs() < 0.1);
        assert!(Core::default().source().starts_with("assumed"));
    }
}

//! Who uses a file or device, as the kernel's own lists tell it: mounts, swap, and what stands on it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Tells a file or device from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    /// A block device, by its number, as in `8:1`.
    Device(String),
    /// A file, by its file system and its number there.
    File(u64, u64),
}

impl Identity {
    /// Of what is at `path`, through links.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self::of_metadata(&metadata))
    }

    pub(super) fn of_metadata(metadata: &fs::Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            let number = metadata.rdev();
            // As the C library packs them.
            let major = (number >> 8 & 0xFFF) | (number >> 32 & !0xFFF);
            let minor = (number & 0xFF) | (number >> 12 & !0xFF);
            Self::Device(format!("{major}:{minor}"))
        } else {
            Self::File(metadata.dev(), metadata.ino())
        }
    }
}

/// Who uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It, or a part of it, or what it is a part of, or what stands on it, is mounted.
    Mounted { device: String, at: String },
    /// The kernel swaps to it.
    Swap { device: String },
    /// A device stands on it, such as one of LVM's or a RAID's.
    Holder { device: String, holder: String },
    /// A loop device has it as its disk.
    Loop { device: String },
}

/// Where the lists are.
pub(super) struct System<'a> {
    pub(super) sys: &'a Path,
    pub(super) proc: &'a Path,
    /// What is at a path that a list names.
    pub(super) identity: &'a dyn Fn(&Path) -> Option<Identity>,
}

/// A device with its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    number: String,
    name: String,
}

impl System<'_> {
    /// Who uses this file or device.
    pub(super) fn uses(&self, identity: &Identity) -> Vec<Use> {
        let mut uses = Vec::new();
        let mut same: BTreeSet<Named> = BTreeSet::new();
        match identity {
            Identity::Device(number) => self.overlapping(number, &mut same, &mut uses),
            Identity::File(..) => uses.extend(self.loops(identity)),
        }
        let named = |other: &Identity| match other {
            Identity::Device(number) => {
                same.iter().find(|one| one.number == *number).map(|one| one.name.clone())
            }
            file if file == identity => Some("it".to_owned()),
            Identity::File(..) => None,
        };
        for mount in mounts(&self.read("self/mountinfo")) {
            let by_number = named(&Identity::Device(mount.number.clone()));
            // Some file systems, such as btrfs, have a number of their own.
            let by_source = || named(&(self.identity)(Path::new(&mount.source))?);
            if let Some(device) = by_number.or_else(by_source) {
                uses.push(Use::Mounted { device, at: mount.at });
            }
        }
        for swap in swaps(&self.read("swaps")) {
            if let Some(device) = (self.identity)(&swap).and_then(|swap| named(&swap)) {
                uses.push(Use::Swap { device });
            }
        }
        uses
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.proc.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// All devices that share bytes with this one: its partitions, the disk it is a part of, and what
    /// stands on any of them.
    fn overlapping(&self, number: &str, same: &mut BTreeSet<Named>, uses: &mut Vec<Use>) {
        let Ok(folder) = fs::canonicalize(self.sys.join("dev/block").join(number)) else {
            same.insert(Named { number: number.to_owned(), name: number.to_owned() });
            return;
        };
        let mut folders = vec![folder.clone()];
        if folder.join("partition").exists() {
            folders.extend(folder.parent().map(Path::to_owned));
        } else {
            let parts = entries(&folder).into_iter();
            folders.extend(parts.filter(|part| part.join("partition").exists()));
        }
        for folder in folders {
            let Some(named) = device_of(&folder) else { continue };
            let device = named.name.clone();
            if !same.insert(named) {
                continue;
            }
            for holder in entries(&folder.join("holders")) {
                let Some(on_top) = device_of(&holder) else { continue };
                let holder = on_top.name.clone();
                uses.push(Use::Holder { device: device.clone(), holder });
                if !same.contains(&on_top) {
                    self.overlapping(&on_top.number, same, uses);
                }
            }
        }
    }

    /// The loop devices that have a file as their disk.
    fn loops(&self, identity: &Identity) -> Vec<Use> {
        let is_this = |device: &PathBuf| {
            let file = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
            (self.identity)(Path::new(file.trim_end_matches('\n'))).as_ref() == Some(identity)
        };
        let devices = entries(&self.sys.join("block")).into_iter().filter(is_this);
        devices.map(|device| Use::Loop { device: name_of(&device) }).collect()
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn device_of(folder: &Path) -> Option<Named> {
    let number = fs::read_to_string(folder.join("dev")).ok()?.trim().to_owned();
    Some(Named { number, name: name_of(folder) })
}

struct Mount {
    number: String,
    source: String,
    at: String,
}

/// The lines of /proc/self/mountinfo, see proc(5).
fn mounts(text: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(2);
        let (number, at) = (fields.next()?, fields.nth(1)?);
        let source = after.split(' ').nth(1)?;
        Some(Mount { number: number.to_owned(), source: unescaped(source), at: unescaped(at) })
    };
    text.lines().filter_map(line).collect()
}

/// The lines of /proc/swaps, but for the first.
fn swaps(text: &str) -> Vec<PathBuf> {
    let names = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.map(|name| PathBuf::from(unescaped(name))).collect()
}

/// Undoes the kernel's `\040` for a space, and so on.
fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        let digits = rest.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                out.push(byte);
                bytes = &rest[3..];
            }
            _ => {
                out.push(*first);
                bytes = rest;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A disk sda (8:0) with two partitions; an LVM volume dm-0 (253:0) on sda2; a disk sdb (8:16) that is
    /// part of md0 (9:0); an empty disk sdc (8:32); a btrfs on sdd (8:48); loop0 on a file.
    struct Fake {
        folder: tempfile::TempDir,
    }

    impl Fake {
        fn new(mountinfo: &str, swaps: &str) -> Self {
            let fake = Self { folder: tempfile::tempdir().unwrap() };
            for (path, number) in [
                ("devices/a/block/sda", "8:0"),
                ("devices/a/block/sda/sda1", "8:1"),
                ("devices/a/block/sda/sda2", "8:2"),
                ("devices/b/block/sdb", "8:16"),
                ("devices/c/block/sdc", "8:32"),
                ("devices/d/block/sdd", "8:48"),
                ("devices/virtual/block/dm-0", "253:0"),
                ("devices/virtual/block/md0", "9:0"),
                ("devices/virtual/block/loop0", "7:0"),
            ] {
                let device = fake.sys().join(path);
                fs::create_dir_all(device.join("holders")).unwrap();
                fs::write(device.join("dev"), format!("{number}\n")).unwrap();
                if ["sda1", "sda2"].contains(&name_of(&device).as_str()) {
                    fs::write(device.join("partition"), "1\n").unwrap();
                }
                for links in ["dev/block", "block"] {
                    fs::create_dir_all(fake.sys().join(links)).unwrap();
                }
                symlink(&device, fake.sys().join("dev/block").join(number)).unwrap();
                symlink(&device, fake.sys().join("block").join(name_of(&device))).unwrap();
            }
            for (below, above) in [("a/block/sda/sda2", "dm-0"), ("b/block/sdb", "md0")] {
                let virtual_devices = fake.sys().join("devices/virtual/block");
                let holders = fake.sys().join("devices").join(below).join("holders");
                symlink(virtual_devices.join(above), holders.join(above)).unwrap();
            }
            let backing = fake.sys().join("devices/virtual/block/loop0/loop");
            fs::create_dir(&backing).unwrap();
            fs::write(backing.join("backing_file"), "/images/a disk\n").unwrap();
            fs::create_dir_all(fake.proc().join("self")).unwrap();
            fs::write(fake.proc().join("self/mountinfo"), mountinfo).unwrap();
            fs::write(fake.proc().join("swaps"), swaps).unwrap();
            fake
        }

        fn sys(&self) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join("sys")
        }

        fn proc(&self) -> PathBuf {
            self.folder.path().join("proc")
        }

        fn uses(&self, identity: &Identity) -> Vec<Use> {
            let identities = |path: &Path| {
                let device = |number: &str| Some(Identity::Device(number.to_owned()));
                match path.to_str()? {
                    "/dev/sdd" => device("8:48"),
                    "/dev/sda1" => device("8:1"),
                    "/images/a disk" => Some(Identity::File(1, 10)),
                    "/swap file" => Some(Identity::File(1, 11)),
                    _ => None,
                }
            };
            let (sys, proc) = (self.sys(), self.proc());
            System { sys: &sys, proc: &proc, identity: &identities }.uses(identity)
        }

        fn device(&self, number: &str) -> Vec<Use> {
            self.uses(&Identity::Device(number.to_owned()))
        }
    }

    fn mounted(device: &str, at: &str) -> Use {
        Use::Mounted { device: device.to_owned(), at: at.to_owned() }
    }

    #[test]
    fn a_disk_is_used_where_a_part_of_it_is_and_a_part_where_its_disk_is() {
        let fake = Fake::new(
            "36 35 8:1 / /mnt/a\\040b rw,noatime master:1 - ext4 /dev/root rw\n\
             37 35 0:40 / /data rw - btrfs /dev/sdd rw\n\
             38 35 0:41 / /proc rw - proc proc rw\n",
            "",
        );
        let part = mounted("sda1", "/mnt/a b");
        assert_eq!(fake.device("8:1"), std::slice::from_ref(&part));
        let disk = fake.device("8:0");
        assert!(disk.contains(&part), "{disk:?}");
        let (device, holder) = ("sda2".to_owned(), "dm-0".to_owned());
        assert!(disk.contains(&Use::Holder { device, holder }), "{disk:?}");
        assert!(!fake.device("8:2").contains(&part), "a part does not overlap another one");
        assert_eq!(fake.device("8:48"), [mounted("sdd", "/data")]);
        assert_eq!(fake.device("8:32"), []);
        let whole = Fake::new("36 35 8:0 / /whole rw - xfs /dev/sda rw\n", "");
        assert!(whole.device("8:1").contains(&mounted("sda", "/whole")));
    }

    #[test]
    fn what_stands_on_a_device_uses_it() {
        let fake = Fake::new("36 35 253:0 / /vol rw - ext4 /dev/mapper/v rw\n", "");
        for number in ["8:0", "8:2"] {
            let uses = fake.device(number);
            assert!(uses.contains(&mounted("dm-0", "/vol")), "{number}: {uses:?}");
        }
        assert_eq!(fake.device("253:0"), [mounted("dm-0", "/vol")]);
        let (device, holder) = ("sdb".to_owned(), "md0".to_owned());
        assert_eq!(fake.device("8:16"), [Use::Holder { device, holder }]);
    }

    #[test]
    fn swap_and_loop_devices_use_devices_and_files() {
        let swaps = "Filename Type Size Used Priority\n/dev/sda1 partition 1 0 -2\n\
                     /swap\\040file file 1 0 -2\n";
        let fake = Fake::new("", swaps);
        assert_eq!(fake.device("8:1"), [Use::Swap { device: "sda1".to_owned() }]);
        assert!(fake.device("8:0").contains(&Use::Swap { device: "sda1".to_owned() }));
        assert_eq!(fake.uses(&Identity::File(1, 11)), [Use::Swap { device: "it".to_owned() }]);
        assert_eq!(fake.uses(&Identity::File(1, 10)), [Use::Loop { device: "loop0".to_owned() }]);
        assert_eq!(fake.uses(&Identity::File(1, 12)), []);
        // A device that sysfs does not know is still found among the mounts.
        let fake = Fake::new("36 35 99:9 / /x rw - ext4 /dev/x rw\n", "");
        assert_eq!(fake.device("99:9"), [mounted("99:9", "/x")]);
    }
}

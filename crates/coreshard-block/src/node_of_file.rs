//! Which node a file's adapter is on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coreshard_topology::NodeId;

/// The node of the adapter behind a file or block device, as sysfs has it; `None` where sysfs says
/// −1 or nothing, as on most machines with one node and for files in memory.
pub fn node_of_file(path: &Path) -> Option<NodeId> {
    node_of_file_in(Path::new("/sys"), path)
}

fn node_of_file_in(sys: &Path, path: &Path) -> Option<NodeId> {
    let metadata = fs::metadata(path).ok()?;
    let number = if metadata.rdev() != 0 { metadata.rdev() } else { metadata.dev() };
    let (major, minor) = (libc::major(number), libc::minor(number));
    let mut folder = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    // A partition lies in its disk's folder, and a disk in its adapter's; the nearest one that
    // knows its node is asked.
    loop {
        for name in ["numa_node", "device/numa_node"] {
            if let Ok(text) = fs::read_to_string(folder.join(name)) {
                return text.trim().parse::<u32>().ok().map(NodeId);
            }
        }
        if !folder.pop() || !folder.starts_with(sys) {
            return None;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_above_the_disk_and_minus_one_is_none() {
        let sys = tempfile::tempdir().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let number = file.as_file().metadata().unwrap().dev();
        let link = format!("{}:{}", libc::major(number), libc::minor(number));
        let sys = fs::canonicalize(sys.path()).unwrap();
        assert_eq!(node_of_file_in(&sys, file.path()), None, "sysfs says nothing");
        let partition = sys.join("devices/pci0/nvme0/block/disk/part1");
        fs::create_dir_all(&partition).unwrap();
        fs::create_dir_all(sys.join("dev/block")).unwrap();
        std::os::unix::fs::symlink(&partition, sys.join("dev/block").join(link)).unwrap();
        fs::write(sys.join("devices/pci0/numa_node"), "1\n").unwrap();
        assert_eq!(node_of_file_in(&sys, file.path()), Some(NodeId(1)));
        fs::write(sys.join("devices/pci0/nvme0/numa_node"), "-1\n").unwrap();
        assert_eq!(node_of_file_in(&sys, file.path()), None, "-1 is unknown");
        assert_eq!(node_of_file(Path::new("/no/such/file")), None);
    }
}

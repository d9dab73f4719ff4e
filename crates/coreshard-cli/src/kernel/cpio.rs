//! Writes archives in cpio's format `newc`, which kernels unpack as their first file system
//! (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! An entry is a head of 110 characters (a mark and 13 numbers of 8 hexadecimal digits), its name with a zero byte, and its
//! content; name and content each end at a multiple of 4 bytes.

/// Kinds and permissions, as `stat` has them.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that grows.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    count: u32,
    /// Names of the folders and files so far.
    names: std::collections::BTreeSet<String>,
}

impl Archive {
    /// Adds an executable file, and the folders above it. A file of the same name that is there already stays.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, content);
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, name: &str, target: &str) {
        self.entry(name, LINK, target.as_bytes());
    }

    /// Adds a folder, and those above it.
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, &[]);
    }

    /// Returns true if there is an entry of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name.trim_matches('/'))
    }

    /// Ends the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.raw("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        let name = name.trim_matches('/');
        for (at, _) in name.match_indices('/') {
            if self.names.insert(name[..at].to_owned()) {
                self.raw(&name[..at], FOLDER, &[]);
            }
        }
        if self.names.insert(name.to_owned()) {
            self.raw(name, mode, content);
        }
    }

    fn raw(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.count += 1;
        let links = if mode == FOLDER { 2 } else { 1 };
        let name_bytes = name.len() as u32 + 1;
        // Number, mode, user, group, links, time, size, the device's and the node's two numbers, name's length, sum.
        let words =
            [self.count, mode, 0, 0, links, 0, content.len() as u32, 0, 0, 0, 0, name_bytes, 0];
        self.bytes.extend(b"070701");
        for word in words {
            self.bytes.extend(format!("{word:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the names, modes and contents of an archive.
    fn entries(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut at = 0;
        let whole = bytes.len();
        loop {
            let number = |place: usize| {
                let digits = std::str::from_utf8(&bytes[6 + 8 * place..][..8]).unwrap();
                u32::from_str_radix(digits, 16).unwrap()
            };
            assert_eq!(&bytes[..6], b"070701", "at {at}");
            let (mode, size, length) = (number(1), number(6) as usize, number(11) as usize);
            let name = String::from_utf8(bytes[110..110 + length - 1].to_vec()).unwrap();
            let start = (110 + length).next_multiple_of(4);
            let content = bytes[start..start + size].to_vec();
            let end = (start + size).next_multiple_of(4);
            at += end;
            bytes = &bytes[end..];
            if name == "TRAILER!!!" {
                assert_eq!(at, whole);
                return found;
            }
            found.push((name, mode, content));
        }
    }

    #[test]
    fn an_archive_has_each_folder_before_what_is_in_it() {
        let mut archive = Archive::default();
        archive.file("/bin/a", b"12345");
        archive.file("bin/b", b"");
        archive.link("bin/c", "a");
        archive.folder("dev");
        assert!(archive.has("/bin/a") && !archive.has("bin/d"));
        let found = entries(&archive.finish());
        let told: Vec<_> = found.iter().map(|(name, mode, _)| (name.as_str(), *mode)).collect();
        let expected = [
            ("bin", FOLDER),
            ("bin/a", PROGRAM),
            ("bin/b", PROGRAM),
            ("bin/c", LINK),
            ("dev", FOLDER),
        ];
        assert_eq!(told, expected);
        assert_eq!(found[1].2, b"12345");
        assert_eq!(found[3].2, b"a");
    }

    #[test]
    fn the_first_file_of_a_name_stays() {
        let mut archive = Archive::default();
        archive.file("init", b"mine");
        archive.file("init", b"another");
        assert_eq!(entries(&archive.finish()).len(), 1);
    }
}

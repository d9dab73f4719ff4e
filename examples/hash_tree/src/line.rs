//! A line of output, as the real tools print it.
//!
//! Both escape a name that would break the line, and mark that by a backslash before the digest; but
//! only `sha256sum` (GNU coreutils 9) escapes a carriage return, and only `b3sum` replaces invalid UTF-8;
//! `sha256sum` prints the bytes unchanged.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::digest::{Algorithm, Digest};

/// Writes the digest, two spaces, the path and a line feed.
pub(crate) fn write(
    output: &mut impl Write,
    algorithm: Algorithm,
    digest: &Digest,
    path: &Path,
) -> io::Result<()> {
    let (name, escaped): (Cow<'_, [u8]>, &[u8]) = match algorithm {
        Algorithm::Sha256 => (path.as_os_str().as_bytes().into(), b"\\\n\r"),
        Algorithm::Blake3 => match path.to_string_lossy() {
            Cow::Borrowed(name) => (name.as_bytes().into(), b"\\\n"),
            Cow::Owned(name) => (name.into_bytes().into(), b"\\\n"),
        },
    };
    if !name.iter().any(|byte| escaped.contains(byte)) {
        write!(output, "{digest}  ")?;
        output.write_all(&name)?;
    } else {
        write!(output, "\\{digest}  ")?;
        for byte in name.iter() {
            match byte {
                b'\\' => output.write_all(b"\\\\")?,
                b'\n' => output.write_all(b"\\n")?,
                b'\r' if escaped.contains(byte) => output.write_all(b"\\r")?,
                _ => output.write_all(&[*byte])?,
            }
        }
    }
    output.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::digest::{self, Reading};

    /// The line for an empty file named `name`, without its digest.
    fn line(algorithm: Algorithm, name: &[u8]) -> Vec<u8> {
        let empty = tempfile::NamedTempFile::new().unwrap();
        let digest = digest::of_file(empty.path(), algorithm, &Reading::default(), None).unwrap();
        let mut line = Vec::new();
        write(&mut line, algorithm, &digest, Path::new(OsStr::from_bytes(name))).unwrap();
        let hex = digest.to_string();
        let at = line.windows(hex.len()).position(|part| part == hex.as_bytes()).unwrap();
        line.drain(at..at + hex.len());
        line
    }

    #[test]
    fn names_are_escaped_as_each_tool_does() {
        let both: [(&[u8], &[u8]); 4] = [
            (b"a b", b"  a b\n"),
            (b"a\nb", b"\\  a\\nb\n"),
            (b"a\\b", b"\\  a\\\\b\n"),
            ("ä\t".as_bytes(), "  ä\t\n".as_bytes()),
        ];
        for (name, wanted) in both {
            for algorithm in [Algorithm::Blake3, Algorithm::Sha256] {
                assert_eq!(
                    line(algorithm, name).escape_ascii().to_string(),
                    wanted.escape_ascii().to_string()
                );
            }
        }
        assert_eq!(line(Algorithm::Sha256, b"a\rb"), b"\\  a\\rb\n");
        assert_eq!(line(Algorithm::Blake3, b"a\rb"), b"  a\rb\n");
        assert_eq!(line(Algorithm::Blake3, b"a\r\nb"), b"\\  a\r\\nb\n");
        assert_eq!(line(Algorithm::Sha256, b"a\xffb"), b"  a\xffb\n");
        assert_eq!(line(Algorithm::Blake3, b"a\xffb"), "  a\u{fffd}b\n".as_bytes());
    }
}

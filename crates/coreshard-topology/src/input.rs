//! Reads external input with limits, and escapes it for display.
//!
//! Coreshard reads files with [`text`], [`lossy`], [`bytes`] or [`head`], or in pieces from a file opened by
//! [`regular`]. Only regular files are read, since pipes and devices may not end, and only up to a given size.
//! Untrusted text in messages is escaped with [`quoted`], [`path`] or [`plain`], so that it cannot control a terminal
//! or fill the screen. All limits are constants in this module.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Limit for a file with one number or word: a page, the most that the kernel returns.
pub const NUMBER_BYTES: u64 = 4 << 10;
/// Limit for a list or mask of CPUs. 65,536 single numbers take 393 KB.
pub const LIST_BYTES: u64 = 1 << 20;
/// Limit for a table of mounts or control groups. Ten thousand mounts take about 2 MB.
pub const TABLE_BYTES: u64 = 16 << 20;
/// Bytes read from the beginning of files such as `/proc/cpuinfo`.
pub const HEAD_BYTES: u64 = 64 << 10;
/// Limit for an hwloc XML file. A machine with 480 CPUs takes 0.6 MB.
pub const XML_BYTES: u64 = 32 << 20;
/// Limit for a machine file (TOML). A latency matrix of 1,024 CPUs takes about 7 MB.
pub const MACHINE_BYTES: u64 = 16 << 20;
/// Limit for a machine description. 65,536 numbers in `indexes=` take 393 KB.
pub const DESCRIPTION_BYTES: usize = 1 << 20;
/// Limit for a job file.
pub const JOBS_BYTES: u64 = 1 << 20;
/// Limit for elements of an XML file: 65,536 CPUs with a core and three caches each.
pub const XML_ELEMENTS: usize = 500_000;
/// Limit for attributes of an XML element. hwloc writes about fifteen.
pub const XML_ATTRIBUTES: usize = 64;
/// Limit for NUMA nodes: four times the maximum of Linux.
pub const NODES: usize = 4_096;
/// Limit for CPUs in a list, counted as often as they are named.
pub const LISTED_CPUS: u64 = 1 << 20;
/// Limit for entries of a folder.
pub const FOLDER_ENTRIES: usize = 1 << 18;

/// Characters shown of untrusted text in a message.
const SHOWN_CHARS: usize = 60;
/// Characters shown of a path in a message. There are more, as the end is the most important part.
const SHOWN_PATH_CHARS: usize = 400;
/// Characters shown of a name.
const PLAIN_CHARS: usize = 200;
/// Characters shown of a sentence with messages of other parsers.
const SENTENCE_CHARS: usize = 1_000;

/// Reads a regular file as text.
///
/// # Errors
///
/// If it cannot be opened or read, is a folder, pipe or device, has more than `most_bytes` bytes, or is not text.
pub fn text(path: &Path, most_bytes: u64) -> Result<String, InputError> {
    let text = String::from_utf8(bytes(path, most_bytes)?);
    text.map_err(|_| InputError { path: path.to_owned(), problem: InputProblem::NotText })
}

/// Like [`text`], but replaces invalid bytes with U+FFFD: for tables with arbitrary names, such as names of processes
/// and mounts.
///
/// # Errors
///
/// As [`text`], except for invalid bytes.
pub fn lossy(path: &Path, most_bytes: u64) -> Result<String, InputError> {
    bytes(path, most_bytes).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a regular file as bytes.
///
/// # Errors
///
/// As [`text`], except for invalid bytes.
///
/// ```
/// let error = coreshard_topology::input::bytes("/dev/zero".as_ref(), 10).unwrap_err();
/// assert!(error.to_string().contains("found a device"));
/// ```
pub fn bytes(path: &Path, most_bytes: u64) -> Result<Vec<u8>, InputError> {
    let wrong = |problem| InputError { path: path.to_owned(), problem };
    // Most files are short kernel files. A buffer of this size reads them in one call, without a probe.
    let mut bytes = Vec::with_capacity(NUMBER_BYTES as usize);
    let read = regular(path)?.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes);
    match read {
        Ok(read) if read as u64 > most_bytes => Err(wrong(InputProblem::TooLong { most_bytes })),
        Ok(_) => Ok(bytes),
        Err(error) => Err(wrong(InputProblem::Io(error))),
    }
}

/// Reads at most `most_bytes` from the beginning of a regular file. Invalid bytes, such as a split character at the
/// end, become U+FFFD.
///
/// # Errors
///
/// If it cannot be opened or read, or is a folder, pipe or device.
pub fn head(path: &Path, most_bytes: u64) -> Result<String, InputError> {
    Ok(String::from_utf8_lossy(&head_bytes(path, most_bytes)?).into_owned())
}

/// Like [`head`], but returns bytes.
///
/// # Errors
///
/// As [`head`].
///
/// ```
/// use coreshard_topology::input;
///
/// let program = std::env::current_exe()?;
/// assert_eq!(input::head_bytes(&program, 4)?, b"\x7fELF");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn head_bytes(path: &Path, most_bytes: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::with_capacity(most_bytes.min(NUMBER_BYTES) as usize);
    let read = regular(path)?.take(most_bytes).read_to_end(&mut bytes);
    read.map_err(|error| InputError { path: path.to_owned(), problem: InputProblem::Io(error) })?;
    Ok(bytes)
}

/// Opens a regular file. Opening a pipe may block, and a device may not end.
///
/// # Errors
///
/// If it cannot be opened, or is a folder, pipe or device.
///
/// ```
/// use std::io::Read;
///
/// let mut word = [0; 5];
/// coreshard_topology::input::regular("/proc/version".as_ref())?.read_exact(&mut word).unwrap();
/// assert_eq!(&word, b"Linux");
/// # Ok::<(), coreshard_topology::input::InputError>(())
/// ```
pub fn regular(path: &Path) -> Result<File, InputError> {
    let wrong = |problem| InputError { path: path.to_owned(), problem };
    let is_regular = |found: io::Result<std::fs::Metadata>| match found {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) => Err(wrong(InputProblem::NotRegular(kind(&found)))),
        Err(error) => Err(wrong(InputProblem::Io(error))),
    };
    is_regular(std::fs::metadata(path))?;
    let file = open(path).map_err(|error| wrong(InputProblem::Io(error)))?;
    // Check again: it may have been replaced.
    is_regular(file.metadata())?;
    Ok(file)
}

/// O_NONBLOCK of Linux, include/uapi/asm-generic/fcntl.h, on architectures with this value. Opening does not block if
/// the file was replaced with a pipe after the check.
#[cfg(unix)]
const O_NONBLOCK: i32 = if cfg!(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "powerpc64",
        target_arch = "s390x",
        target_arch = "loongarch64"
    )
)) {
    0o4000
} else {
    0
};

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, O_NONBLOCK);
    options.read(true).open(path)
}

fn kind(found: &std::fs::Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = found.file_type();
        if kind.is_fifo() {
            return "a pipe";
        } else if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        } else if kind.is_socket() {
            return "a socket";
        }
    }
    if found.is_dir() { "a directory" } else { "not a file" }
}

/// Why a file could not be read. The message names the file, the invalid part and the accepted values.
pub struct InputError {
    path: PathBuf,
    problem: InputProblem,
}

#[derive(Debug)]
enum InputProblem {
    Io(io::Error),
    NotRegular(&'static str),
    TooLong { most_bytes: u64 },
    NotText,
}

impl InputError {
    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file does not exist or has no content (`ENODEV`, and `ENXIO` from files of a CPU that went
    /// offline).
    pub fn is_missing(&self) -> bool {
        const ENXIO: i32 = 6;
        const ENODEV: i32 = 19;
        let InputProblem::Io(error) = &self.problem else { return false };
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            || matches!(error.raw_os_error(), Some(ENXIO | ENODEV))
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = path(&self.path);
        match &self.problem {
            InputProblem::Io(error) => write!(f, "cannot read {path}: {error}"),
            InputProblem::NotRegular(kind) => {
                write!(f, "invalid file {path}: expected a regular file, found {kind}")
            }
            InputProblem::TooLong { most_bytes } => {
                write!(f, "invalid file {path}: expected at most {most_bytes} bytes")
            }
            InputProblem::NotText => write!(f, "{path}: expected text, found other bytes"),
        }
    }
}

// The text includes that of the `io::Error`.
crate::readable_debug!(InputError);

impl std::error::Error for InputError {}

/// Returns true for printable characters, which excludes characters that control a terminal, change the direction of
/// text or are invisible. XML cannot represent most of these either.
pub fn is_plain(letter: char) -> bool {
    // Fast path for most characters.
    matches!(letter, ' '..='~')
        || !(letter.is_control()
            || matches!(letter,
                '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
                | '\u{e0000}'..='\u{e007f}'))
}

/// Escapes an untrusted name: replaces other than plain characters with U+FFFD, and line feeds and tabs with blanks.
/// Cuts it after 200 characters.
pub fn plain(name: &str) -> String {
    plain_within(name, PLAIN_CHARS)
}

/// Escapes a sentence with untrusted words like [`plain`], and cuts it after 1,000 characters.
pub fn sentence(text: &str) -> String {
    plain_within(text, SENTENCE_CHARS)
}

fn plain_within(text: &str, most: usize) -> String {
    let plain = |letter| match letter {
        '\n' | '\r' | '\t' => ' ',
        letter if is_plain(letter) => letter,
        _ => char::REPLACEMENT_CHARACTER,
    };
    let mut letters = text.trim().chars();
    let mut kept: String = letters.by_ref().take(most).map(plain).collect();
    if letters.next().is_some() {
        kept.push('…');
    }
    kept
}

/// Quotes and escapes untrusted text for a message, and cuts it after 60 characters.
pub fn quoted(text: &str) -> impl fmt::Display + '_ {
    Shown { text: text.into(), most: SHOWN_CHARS, is_quoted: true }
}

/// Escapes a path for a message, and cuts the beginning of very long ones.
pub fn path(path: &Path) -> impl fmt::Display + '_ {
    Shown { text: path.to_string_lossy(), most: SHOWN_PATH_CHARS, is_quoted: false }
}

struct Shown<'a> {
    text: std::borrow::Cow<'a, str>,
    most: usize,
    is_quoted: bool,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let quote = if self.is_quoted { "\"" } else { "" };
        let count = self.text.chars().count();
        let beyond = count > self.most;
        // Keep the beginning of text and the end of a path.
        let (skip, take) = match (beyond, self.is_quoted) {
            (false, _) => (0, count),
            (true, true) => (0, self.most),
            (true, false) => (count - self.most, self.most),
        };
        f.write_str(quote)?;
        if skip > 0 {
            f.write_char('…')?;
        }
        for letter in self.text.chars().skip(skip).take(take) {
            match letter {
                '"' | '\\' if self.is_quoted => write!(f, "\\{letter}")?,
                letter if is_plain(letter) => f.write_char(letter)?,
                letter => write!(f, "{}", letter.escape_default())?,
            }
        }
        if beyond && self.is_quoted {
            f.write_char('…')?;
        }
        f.write_str(quote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_within_its_bound_and_the_bound_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(text(&file, 5).unwrap(), "12345");
        let error = text(&file, 4).unwrap_err().to_string();
        assert!(error.contains("expected at most 4 bytes"), "{error}");
        assert_eq!(head(&file, 2).unwrap(), "12");
        std::fs::write(&file, [0xff, b'1']).unwrap();
        assert!(text(&file, 5).unwrap_err().to_string().contains("expected text"));
        assert_eq!(lossy(&file, 5).unwrap(), "\u{fffd}1");
        assert!(text(&folder.path().join("no"), 5).unwrap_err().is_missing());
    }

    /// Opening a pipe without a writer blocks, and reading `/dev/zero` does not end.
    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let found = |path: &Path| text(path, 9).unwrap_err().to_string();
        assert!(found(&pipe).contains("expected a regular file, found a pipe"));
        assert!(found(Path::new("/dev/zero")).contains("found a device"));
        assert!(found(folder.path()).contains("found a directory"));
        std::os::unix::fs::symlink(&pipe, folder.path().join("link")).unwrap();
        assert!(found(&folder.path().join("link")).contains("found a pipe"));
    }

    #[test]
    fn foreign_words_steer_no_terminal_and_fill_no_screen() {
        assert_eq!(quoted("a\u{1b}[2J\"\u{202e}").to_string(), r#""a\u{1b}[2J\"\u{202e}""#);
        assert_eq!(quoted(&"x".repeat(61)).to_string(), format!("\"{}…\"", "x".repeat(60)));
        assert_eq!(plain(" A\u{7}\nB\u{9b} "), "A\u{fffd} B\u{fffd}");
        assert_eq!(plain(&"é".repeat(500)).chars().count(), 201);
        assert_eq!(path(Path::new("/a\nb")).to_string(), "/a\\nb");
        let long = format!("/{}end", "x".repeat(1_000));
        let shown = path(Path::new(&long)).to_string();
        assert!(shown.starts_with('…') && shown.ends_with("end") && shown.chars().count() == 401);
    }
}

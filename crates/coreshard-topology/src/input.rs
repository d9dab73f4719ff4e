//! Input from outside: read within bounds, and escaped before it is shown.
//!
//! Every file that Coreshard reads is read by [`text`], [`lossy`], [`bytes`] or [`head`], or part by part from what
//! [`regular`] opened: regular files alone, since a pipe or a device may never end, and no longer than is said, since whoever reads a file must know what it
//! costs. Every foreign word in a message passes [`quoted`], [`path`] or [`plain`]: nothing in it reaches a
//! terminal as a command, and nothing in it fills a screen. The bounds stand here, side by side.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Of a file with one number or word: a page, which is all that the kernel gives of one.
pub const NUMBER_BYTES: u64 = 4 << 10;
/// Of a list or a mask of CPUs: 65,536 numbers, one by one, take 393 KB.
pub const LIST_BYTES: u64 = 1 << 20;
/// Of a table of mounts or control groups: ten thousand mounts take about 2 MB.
pub const TABLE_BYTES: u64 = 16 << 20;
/// Of a file whose beginning tells enough, such as `/proc/cpuinfo`.
pub const HEAD_BYTES: u64 = 64 << 10;
/// Of an XML file of hwloc: a machine of 480 CPUs takes 0.6 MB.
pub const XML_BYTES: u64 = 32 << 20;
/// Of a machine's file (TOML): a matrix of latencies between 1,024 CPUs takes about 7 MB.
pub const MACHINE_BYTES: u64 = 16 << 20;
/// Of a machine's description: 65,536 numbers in `indexes=` take 393 KB.
pub const DESCRIPTION_BYTES: usize = 1 << 20;
/// Of a file with jobs.
pub const JOBS_BYTES: u64 = 1 << 20;
/// Elements of an XML file: 65,536 CPUs with a core and three caches each.
pub const XML_ELEMENTS: usize = 500_000;
/// Attributes of one element of an XML file; hwloc writes about fifteen.
pub const XML_ATTRIBUTES: usize = 64;
/// NUMA nodes of a machine: four times what Linux can be built for.
pub const NODES: usize = 4_096;
/// CPUs that one list names, counting each as often as it is named.
pub const LISTED_CPUS: u64 = 1 << 20;
/// Entries of a folder that are looked through.
pub const FOLDER_ENTRIES: usize = 1 << 18;

/// Characters of a foreign text in a message.
const SHOWN_CHARS: usize = 60;
/// Characters of a path in a message: more, as its end says most.
const SHOWN_PATH_CHARS: usize = 400;
/// Characters of a name that is shown wherever the thing is.
const PLAIN_CHARS: usize = 200;
/// Characters of a sentence in which other parsers have their say.
const SENTENCE_CHARS: usize = 1_000;

/// The whole text of a regular file.
///
/// # Errors
/// If it cannot be opened or read, is a folder, a pipe or a device, has more than `most_bytes` bytes,
/// or holds something else than text.
pub fn text(path: &Path, most_bytes: u64) -> Result<String, InputError> {
    let text = String::from_utf8(bytes(path, most_bytes)?);
    text.map_err(|_| InputError { path: path.to_owned(), problem: InputProblem::NotText })
}

/// As [`text`], with U+FFFD for bytes that are no text: for tables with names that anybody may give, such
/// as a process's or a mount's.
///
/// # Errors
/// As [`text`], but for what is no text.
pub fn lossy(path: &Path, most_bytes: u64) -> Result<String, InputError> {
    bytes(path, most_bytes).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// As [`text`], whatever the bytes are.
///
/// # Errors
/// As [`text`], but for what is no text.
///
/// ```
/// let error = coreshard_topology::input::bytes("/dev/zero".as_ref(), 10).unwrap_err();
/// assert!(error.to_string().contains("is a device"));
/// ```
pub fn bytes(path: &Path, most_bytes: u64) -> Result<Vec<u8>, InputError> {
    let wrong = |problem| InputError { path: path.to_owned(), problem };
    // Most files are the kernel's, and short: read at once, where a growing buffer would begin with a probe.
    let mut bytes = Vec::with_capacity(NUMBER_BYTES as usize);
    let read = regular(path)?.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes);
    match read {
        Ok(read) if read as u64 > most_bytes => Err(wrong(InputProblem::TooLong { most_bytes })),
        Ok(_) => Ok(bytes),
        Err(error) => Err(wrong(InputProblem::Io(error))),
    }
}

/// The beginning of a regular file, at most `most_bytes` of it. Bytes that are no text, such as the
/// half of a character at the end, become U+FFFD.
///
/// # Errors
/// If it cannot be opened or read, or is a folder, a pipe or a device.
pub fn head(path: &Path, most_bytes: u64) -> Result<String, InputError> {
    Ok(String::from_utf8_lossy(&head_bytes(path, most_bytes)?).into_owned())
}

/// As [`head`], of a file that is no text.
///
/// # Errors
/// As there.
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

/// Opens a file that ends: no pipe, whose opening alone may wait for ever, and no device.
///
/// # Errors
/// If it cannot be opened, or is a folder, a pipe or a device.
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
    // Once more: it may have become another one meanwhile.
    is_regular(file.metadata())?;
    Ok(file)
}

/// O_NONBLOCK of Linux, include/uapi/asm-generic/fcntl.h, on architectures that take it as it is: a pipe that is put in a file's
/// place between the look at it and its opening makes nobody wait.
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
    if found.is_dir() { "a folder" } else { "not a file" }
}

/// Why a file was not read. Its text names the file, what was found and what is allowed.
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
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is no such file, or the kernel has no answer for it (`ENODEV`, and `ENXIO` from
    /// files of a CPU that went offline meanwhile).
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
                write!(f, "{path} is {kind}; a regular file is needed here")
            }
            InputProblem::TooLong { most_bytes } => {
                write!(f, "{path} is longer than the {most_bytes} bytes that such a file may have")
            }
            InputProblem::NotText => write!(f, "{path}: expected text, found other bytes"),
        }
    }
}

// The text of an `io::Error` is in this one's.
crate::readable_debug!(InputError);

impl std::error::Error for InputError {}

/// Whether a character is one to be read, and not one that steers a terminal, turns the order of a line
/// around or cannot be seen. XML has no way to hold most of these either.
pub fn is_plain(letter: char) -> bool {
    // Most are among the first.
    matches!(letter, ' '..='~')
        || !(letter.is_control()
            || matches!(letter,
                '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
                | '\u{e0000}'..='\u{e007f}'))
}

/// A name from outside, to be kept and shown: other characters than plain ones become U+FFFD, line feeds
/// and tabs become blanks, and what is longer than 200 characters is cut.
pub fn plain(name: &str) -> String {
    plain_within(name, PLAIN_CHARS)
}

/// A sentence with foreign words in it, as [`plain`], cut after 1,000 characters.
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

/// A text from outside, for a message: in quotes, escaped, and cut after 60 characters.
pub fn quoted(text: &str) -> impl fmt::Display + '_ {
    Shown { text: text.into(), most: SHOWN_CHARS, is_quoted: true }
}

/// A path, for a message: escaped, and cut at its beginning if it is very long.
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
        // The beginning of a text, and the end of a path.
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
        assert!(error.contains("longer than the 4 bytes"), "{error}");
        assert_eq!(head(&file, 2).unwrap(), "12");
        std::fs::write(&file, [0xff, b'1']).unwrap();
        assert!(text(&file, 5).unwrap_err().to_string().contains("expected text"));
        assert_eq!(lossy(&file, 5).unwrap(), "\u{fffd}1");
        assert!(text(&folder.path().join("no"), 5).unwrap_err().is_missing());
    }

    /// Opening a pipe that nobody writes to waits for ever, and reading `/dev/zero` never ends.
    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let found = |path: &Path| text(path, 9).unwrap_err().to_string();
        assert!(found(&pipe).contains("is a pipe; a regular file is needed"));
        assert!(found(Path::new("/dev/zero")).contains("is a device"));
        assert!(found(folder.path()).contains("is a folder"));
        std::os::unix::fs::symlink(&pipe, folder.path().join("link")).unwrap();
        assert!(found(&folder.path().join("link")).contains("is a pipe"));
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

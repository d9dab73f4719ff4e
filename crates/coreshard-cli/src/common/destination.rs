//! Output files. No other module of the command writes files.
//!
//! 1. A file that the command did not make is not overwritten without `--force`. The command recognizes its own files
//!    by their content (see [`is_ours`]), not by name.
//! 2. Links are not followed to files. With `--force`, the report replaces the link.
//! 3. A report is written to a temporary file beside its destination and then renamed. The old file stays until then,
//!    even if the disk is full.
//! 4. Whether a report can be written is checked before anything is measured. The check leaves no file behind.
//! 5. The decision depends on what the destination holds at the time of writing, not on the earlier check. An old
//!    report is moved aside and inspected there. A foreign file is moved back.
//! 6. Devices and pipes, such as `/dev/null` or a shell's `>(…)`, are written directly. Disks are never written.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use anyhow::{Context, anyhow};
use coreshard_report::{csv, html};
use coreshard_topology::input;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::failure::{bad_input, bail_input};
use super::number::sum_of;
use super::output;

/// The key that ends the last object of each JSON document that is written.
const JSON_MARK: &str = "\"generator\": \"coreshard\"";
/// A line of each machine file. The file's last line is the [`sum_line`] of all preceding ones.
const TOML_MARK: &str = "source = [\"coreshard calibrate, on the machine itself\"]";
/// The first line of each job file.
pub(crate) const JOBS_MARK: &str = "# Made by coreshard sweep.";
/// The first bytes of each recording.
const RECORDING_MARK: &str = coreshard_trace::RECORDING_MARK;
/// The end of a picture.
const SVG_MARK: &str = "<!-- Made by coreshard. -->\n</svg>";
/// How much of each end of a file is inspected, in bytes.
const LOOKED_AT: u64 = 4 << 10;

/// Whether `--force` was given.
static IS_FORCED: AtomicBool = AtomicBool::new(false);

/// The option of commands that write files.
#[derive(Debug, clap::Args)]
pub(crate) struct ForceArgs {
    /// Overwrite files that this command did not write, and replace links
    #[arg(long)]
    force: bool,
}

impl ForceArgs {
    /// Applies `--force` to all files that are opened from now on.
    pub(crate) fn apply(&self) {
        IS_FORCED.store(self.force, Relaxed);
    }
}

/// A destination that was checked before the benchmark and is written after it.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A file in a folder. The folder's path is resolved.
    File { folder: PathBuf, name: OsString },
    /// A device or a pipe.
    Stream(File),
}

impl Destination {
    /// Checks that a report can be written to `path`.
    ///
    /// # Errors
    ///
    /// If it cannot, or `path` is `-`.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            bail_input!(
                "invalid file \"-\": this report cannot go to standard output (use ./- for a file named \"-\")"
            );
        }
        let place = place(path)
            .with_context(|| format!("cannot write the report {}", input::path(path)))
            .map_err(bad_input)?;
        Ok(Self { path: path.to_owned(), place })
    }

    /// Opens a destination for each report, and checks that all of them, including the first, are different files.
    pub(super) fn open_all<const N: usize>(
        first: Option<&Self>,
        paths: [Option<&Path>; N],
    ) -> anyhow::Result<[Option<Self>; N]> {
        let mut all: [Option<Self>; N] = [const { None }; N];
        for (at, path) in paths.into_iter().enumerate() {
            let Some(path) = path else { continue };
            let new = Self::open(path)?;
            if all[..at].iter().flatten().chain(first).any(|other| other.is_same(&new)) {
                bail_input!(
                    "two reports have the same file {}: expected a different file for each",
                    input::path(path)
                );
            }
            all[at] = Some(new);
        }
        Ok(all)
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Place::File { folder, name }, Place::File { folder: its, name: other }) => {
                folder == its && name == other
            }
            _ => false,
        }
    }

    /// Writes the report.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let written = || -> anyhow::Result<()> {
            let mut report = Vec::new();
            write(&mut report)?;
            mark(&mut report);
            match &self.place {
                Place::Stream(stream) => Ok((&mut &*stream).write_all(&report)?),
                Place::File { folder, name } => replace(folder, name, &report),
            }
        };
        written().with_context(|| format!("cannot write the report {}", input::path(&self.path)))
    }

    /// Writes the report and prints its path.
    pub(crate) fn report(self, text: &str) -> anyhow::Result<()> {
        let path = self.path.clone();
        self.write(|out| out.write_all(text.as_bytes()))?;
        output::warn(&format!("report written to {}", input::path(&path)));
        Ok(())
    }

    /// Starts a file that is written in pieces, beside its destination. An unfinished file is removed.
    pub(crate) fn grow(self) -> anyhow::Result<Growing> {
        let aside = match &self.place {
            Place::Stream(_) => None,
            Place::File { folder, .. } => Some(beside(folder)?),
        };
        Ok(Growing { to: self, aside })
    }

    /// Fails if `file`, which the command uses otherwise, is the same file under any name, even if it does not exist
    /// yet.
    pub(crate) fn is_not(&self, file: &Path) -> anyhow::Result<()> {
        let is_same = match &self.place {
            Place::Stream(stream) => is_one_file(stream.metadata(), fs::metadata(file)),
            Place::File { folder, name } => {
                is_one_file(fs::metadata(folder.join(name)), fs::metadata(file))
                    || resolved(file).is_ok_and(|(its, other)| (folder, name) == (&its, &other))
            }
        };
        if is_same {
            let (own, file) = (input::path(&self.path), input::path(file));
            bail_input!(
                "invalid report file {own}: it would replace {file}, expected another file"
            );
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Splits a path into its folder, with links resolved, and its file name.
fn resolved(path: &Path) -> anyhow::Result<(PathBuf, OsString)> {
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let name = path.file_name().filter(|_| !is_folder);
    let name = name.ok_or_else(|| anyhow!("it is not a file name"))?.to_owned();
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok((fs::canonicalize(folder)?, name))
}

/// Returns true if both are the same file or the same block device.
fn is_one_file(one: io::Result<Metadata>, other: io::Result<Metadata>) -> bool {
    let (Ok(one), Ok(other)) = (one, other) else { return false };
    let is_device = one.file_type().is_block_device() && other.file_type().is_block_device();
    is_device && one.rdev() == other.rdev() || (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Finds the destination of a report at `path`.
fn place(path: &Path) -> anyhow::Result<Place> {
    let found = found_at(path)?;
    // Follow links to devices and pipes, such as /dev/stdout.
    let behind =
        found.as_ref().filter(|found| found.is_symlink()).and_then(|_| fs::metadata(path).ok());
    if behind.as_ref().or(found.as_ref()).is_some_and(is_stream) {
        return stream(path).map(Place::Stream);
    }
    let (folder, name) = resolved(path)?;
    if ["/dev", "/proc", "/sys"].iter().any(|own| folder.starts_with(own)) {
        return Err(anyhow!("it is in a system folder"));
    }
    may_be_replaced(&folder.join(&name))?;
    // Try to create a file there, and remove it.
    let (trial, _) = beside(&folder)?;
    fs::remove_file(trial)?;
    Ok(Place::File { folder, name })
}

fn found_at(path: &Path) -> anyhow::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns an error if a report must not replace the existing file.
fn may_be_replaced(path: &Path) -> anyhow::Result<()> {
    let Some(found) = found_at(path)? else { return Ok(()) };
    let kind = found.file_type();
    if kind.is_dir() {
        return Err(anyhow!("it is a directory"));
    }
    if kind.is_block_device() || kind.is_socket() {
        return Err(anyhow!("it is a disk or a socket"));
    }
    if IS_FORCED.load(Relaxed) {
        return Ok(());
    }
    if kind.is_symlink() {
        return Err(anyhow!("it is a link: give its target, or --force to replace the link"));
    }
    if !is_ours(path)? {
        return Err(anyhow!(
            "it exists and was not written by coreshard: give another name, or --force to replace it"
        ));
    }
    Ok(())
}

/// Returns true if the command wrote the file, judged by its content, or if the file is empty.
fn is_ours(path: &Path) -> anyhow::Result<bool> {
    /// See `open(2)`: do not block if the path has become a pipe.
    const O_NONBLOCK: i32 = 0o4000;
    let mut file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(false);
    }
    let mut part = |from: u64| {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        Read::by_ref(&mut file).take(LOOKED_AT).read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let head = part(0)?;
    let tail = part(found.len().saturating_sub(LOOKED_AT))?;
    if head.lines().any(|line| line == TOML_MARK) {
        // Users may edit machine files, so compare the checksum.
        let mut whole = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut whole)?;
        let before = whole.trim_ascii_end().iter().rposition(|byte| *byte == b'\n');
        let before = before.map_or(0, |end| end + 1);
        return Ok(whole[before..] == *sum_line(&whole[..before]).as_bytes());
    }
    let last_key = tail.rsplit_once(JSON_MARK).map(|(_, rest)| rest.trim());
    Ok(head.trim().is_empty() && found.len() < LOOKED_AT
        || head.trim() == "[]"
        || head.contains(html::MARK)
        || head.starts_with(&csv::queue_mark())
        || head.lines().any(|line| line == JOBS_MARK)
        || head.starts_with(RECORDING_MARK)
        || head.starts_with("<svg") && tail.trim_end().ends_with(SVG_MARK)
        || (head.starts_with(['{', '['])
            && last_key.is_some_and(|rest| matches!(rest, "}" | "}]" | "}\n]"))))
}

/// Returns the last line of a machine file: a checksum that shows whether the file was edited.
fn sum_line(text: &[u8]) -> String {
    let sum = sum_of(text.iter().copied().map(u64::from));
    format!("# As it was written, without this line: {sum:016x}\n")
}

/// Marks a report as ours: adds the key to the last object of a JSON document, or the checksum to a machine file. Other
/// formats are marked by the code that makes them.
fn mark(report: &mut Vec<u8>) {
    let is_machine = |text: &str| text.lines().any(|line| line == TOML_MARK);
    if str::from_utf8(report).is_ok_and(is_machine) {
        let sum = sum_line(report);
        return report.extend_from_slice(sum.as_bytes());
    }
    let text = report.trim_ascii_end();
    if text.starts_with(b"<svg")
        && let Some(inside) = text.strip_suffix(b"</svg>")
    {
        let inside = inside.len();
        report.splice(inside.., format!("{SVG_MARK}\n").into_bytes());
        return;
    }
    let object = match (text.first(), text.last()) {
        (Some(b'{'), Some(b'}')) => text,
        (Some(b'['), Some(b']')) => text[..text.len() - 1].trim_ascii_end(),
        _ => return,
    };
    let Some(inside) = object.strip_suffix(b"}").map(<[u8]>::trim_ascii_end) else { return };
    // Lines that were written one by one are marked already.
    if inside.ends_with(JSON_MARK.as_bytes()) {
        return;
    }
    let comma = if inside.ends_with(b"{") { "" } else { "," };
    // Keep the format: one line, or indented lines.
    let end = inside.len();
    let between = object[end..object.len() - 1].to_vec();
    let mut key = comma.as_bytes().to_vec();
    key.extend_from_slice(&between);
    if between.contains(&b'\n') {
        key.extend_from_slice(b"  ");
    }
    key.extend_from_slice(JSON_MARK.as_bytes());
    report.splice(end..end, key);
}

/// Creates a temporary file in the folder.
fn beside(folder: &Path) -> anyhow::Result<(PathBuf, File)> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!(".coreshard-{}-{}.tmp", std::process::id(), MADE.fetch_add(1, Relaxed));
    let path = folder.join(name);
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("no file can be made in {}", input::path(folder)))?;
    Ok((path, file))
}

/// Replaces the file with these bytes.
fn replace(folder: &Path, name: &OsString, report: &[u8]) -> anyhow::Result<()> {
    let (aside, mut file) = beside(folder)?;
    let written = file.write_all(report).map_err(anyhow::Error::from);
    moved(folder, name, &aside, &file, written)
}

/// Moves the temporary file to its destination, or removes it if it was not `written`.
fn moved(
    folder: &Path,
    name: &OsString,
    aside: &Path,
    file: &File,
    written: anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = folder.join(name);
    let moved = || -> anyhow::Result<()> {
        written?;
        // A full disk may be reported only here.
        file.sync_all()?;
        // Check again: hours may have passed since the first check.
        may_be_replaced(&path)?;
        match found_at(&path)?.filter(|found| !found.is_symlink()) {
            Some(old) => {
                // Keep the permissions and, if allowed, the owner.
                fs::set_permissions(aside, old.permissions())?;
                let _ = std::os::unix::fs::chown(aside, Some(old.uid()), Some(old.gid()));
                exchange(aside, &path)?;
            }
            None => match fs::hard_link(aside, &path) {
                Ok(()) => fs::remove_file(aside)?,
                // A link to be replaced, or a file system without hard links. Both were checked above.
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists && !IS_FORCED.load(Relaxed) =>
                {
                    return Err(error.into());
                }
                Err(_) => fs::rename(aside, &path)?,
            },
        }
        Ok(())
    };
    let moved = moved();
    if moved.is_err() && is_one_file(file.metadata(), fs::symlink_metadata(aside)) {
        // The temporary file is useless now, and a failure to remove it cannot be reported. It holds the new report,
        // not the old file.
        let _ = fs::remove_file(aside);
    }
    moved
}

/// A file written in pieces beside its destination, for output too long to hold in memory.
#[derive(Debug)]
pub(crate) struct Growing {
    to: Destination,
    /// The temporary file, unless the destination is a stream.
    aside: Option<(PathBuf, File)>,
}

impl Growing {
    /// Moves the file to its destination.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let Some((aside, file)) = self.aside.take() else { return Ok(()) };
        let Place::File { folder, name } = &self.to.place else { return Ok(()) };
        moved(folder, name, &aside, &file, Ok(()))
            .with_context(|| format!("cannot write {}", input::path(&self.to.path)))
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        let Some((aside, file)) = &self.aside else { return };
        if is_one_file(file.metadata(), fs::symlink_metadata(aside)) {
            // A failure cannot be reported here.
            let _ = fs::remove_file(aside);
        }
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (&self.aside, &self.to.place) {
            (Some((_, file)), _) | (None, Place::Stream(file)) => (&*file).write(bytes),
            (None, Place::File { .. }) => Err(ErrorKind::NotFound.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Exchanges the files at `aside` and `path`, and removes the old one after inspecting it. A file that appeared since
/// the check is put back and not lost.
fn exchange(aside: &Path, path: &Path) -> anyhow::Result<()> {
    let swap = || renameat_with(CWD, aside, CWD, path, RenameFlags::EXCHANGE);
    match swap() {
        Ok(()) => {}
        // The file system cannot exchange files. The old file was checked just before.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return Ok(fs::rename(aside, path)?),
        Err(error) => return Err(error.into()),
    }
    if let Err(why) = may_be_replaced(aside) {
        swap()?;
        return Err(why);
    }
    Ok(fs::remove_file(aside)?)
}

/// Opens a device, or a pipe that has a reader.
fn stream(path: &Path) -> anyhow::Result<File> {
    const O_NONBLOCK: i32 = 0o4000;
    const ENXIO: i32 = 6;
    // Opening a pipe without a reader blocks.
    let trial = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(path);
    let is_pipe = || path.metadata().is_ok_and(|found| found.file_type().is_fifo());
    let trial = trial.map_err(|error| match error.raw_os_error() {
        // On a device this error has another meaning.
        Some(ENXIO) if is_pipe() => anyhow!("it is a pipe without a reader"),
        _ => error.into(),
    })?;
    let stream = OpenOptions::new().write(true).open(path)?;
    // The path may have changed since the check, so check the open file.
    let is_fit = is_stream(&stream.metadata()?);
    if !is_fit || !is_one_file(trial.metadata(), stream.metadata()) {
        return Err(anyhow!("it changed during the check"));
    }
    Ok(stream)
}

fn is_stream(found: &Metadata) -> bool {
    let kind = found.file_type();
    kind.is_char_device() || kind.is_fifo()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, report: &str) -> anyhow::Result<()> {
        Destination::open(path)?.write(|out| out.write_all(report.as_bytes()))
    }

    fn error(path: &Path) -> String {
        let error = Destination::open(path).unwrap_err();
        format!("{error:#}")
    }

    #[test]
    fn what_the_command_made_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        drop(Destination::open(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
        let html = format!("<html>{}</html>", html::MARK);
        let csv = csv::queue_mark() + "scope\n";
        let toml = format!("title = \"x\"\n{TOML_MARK}\n");
        let json =
            ["{}", "{\n  \"a\": 1\n}\n", "[\n  {\n    \"a\": []\n  }\n]", "[{\"a\":1}]", "[]"];
        for report in [html.as_str(), &csv, &toml].into_iter().chain(json) {
            write(&path, report).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&path, &toml).unwrap();
        let measured = fs::read_to_string(&path).unwrap();
        assert!(measured.starts_with(&toml));
        let changed = measured.replace("\"x\"", "\"my own\"");
        for precious in [
            "my notes",
            "{\"generator\": \"coreshard\", \"mine\": 1}",
            "machine,platform\n",
            &toml,
            &changed,
        ] {
            fs::write(&path, precious).unwrap();
            assert!(error(&path).contains("was not written by coreshard"), "{precious}");
            assert_eq!(fs::read_to_string(&path).unwrap(), precious);
        }
    }

    #[test]
    fn json_stays_json_with_its_mark() {
        for (report, marked) in [
            ("{}\n", "{\"generator\": \"coreshard\"}\n"),
            ("{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"generator\": \"coreshard\"\n}\n"),
            (
                "[\n  {\n    \"a\": 1\n  }\n]",
                "[\n  {\n    \"a\": 1,\n    \"generator\": \"coreshard\"\n  }\n]",
            ),
            ("[{\"a\":1}]", "[{\"a\":1,\"generator\": \"coreshard\"}]"),
            ("[1]", "[1]"),
            (
                "{\"generator\": \"coreshard\"}\n{\"generator\": \"coreshard\"}\n",
                "{\"generator\": \"coreshard\"}\n{\"generator\": \"coreshard\"}\n",
            ),
            ("a,b\n", "a,b\n"),
        ] {
            let mut bytes = report.as_bytes().to_vec();
            mark(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), marked);
        }
    }

    #[test]
    fn links_folders_and_pipes_without_a_reader_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, dangling, pipe] =
            ["file", "link", "dangling", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "precious").unwrap();
        symlink(&file, &link).unwrap();
        symlink("nowhere", &dangling).unwrap();
        assert!(error(&link).contains("it is a link"));
        assert!(error(&dangling).contains("it is a link"));
        assert!(error(folder.path()).contains("it is a directory"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(error(&pipe).contains("a pipe without a reader"));
        assert!(error(&folder.path().join("new/")).contains("it is not a file name"));
        assert!(error(Path::new("/dev/shm/../new-report")).contains("in a system folder"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn a_failure_leaves_the_old_report_and_a_new_one_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        write(&path, "{}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let failed = Destination::open(&path).unwrap().write(|out| {
            out.write_all(b"half of")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"generator\": \"coreshard\"}");
        write(&path, "{\"a\":1}").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        // A file that appeared since the check is not overwritten.
        let new = folder.path().join("new");
        let destination = Destination::open(&new).unwrap();
        fs::write(&new, "somebody's").unwrap();
        destination.write(|out| out.write_all(b"{}")).unwrap_err();
        assert_eq!(fs::read_to_string(&new).unwrap(), "somebody's");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// A file appears between the check and the rename.
    #[test]
    fn what_came_since_the_look_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let [path, aside, link] = ["report", "aside", "link"].map(|name| folder.path().join(name));
        for (there, is_fit) in [("{\"generator\": \"coreshard\"}", true), ("my notes", false)] {
            fs::write(&path, there).unwrap();
            fs::write(&aside, "{}").unwrap();
            assert_eq!(exchange(&aside, &path).is_ok(), is_fit, "{there}");
            let left = fs::read_to_string(&path).unwrap();
            assert_eq!(left, if is_fit { "{}" } else { there });
            assert_eq!(aside.exists(), !is_fit, "its creator removes it");
        }
        symlink(&path, &link).unwrap();
        exchange(&aside, &link).unwrap_err();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        // The pipe was replaced with a file before it was opened.
        assert!(stream(&path).unwrap_err().to_string().contains("it changed during"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "my notes");
    }

    #[test]
    fn a_device_can_be_written() {
        write(Path::new("/dev/null"), "gone").unwrap();
    }
}

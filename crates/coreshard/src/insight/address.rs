//! Paths of sockets.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::error::{InsightError, InsightErrorKind};

/// Returns the user that this process acts for.
pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the folders for sockets, the preferred first: the user's runtime folder (XDG base directory specification),
/// then one in /tmp.
pub(super) fn folders() -> Vec<PathBuf> {
    // A privileged process must not create a folder chosen by its caller.
    let given = if coreshard_platform::is_privileged() {
        None
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
    };
    folders_of(own_user(), given)
}

fn folders_of(user: u32, given: Option<PathBuf>) -> Vec<PathBuf> {
    // The specification requires that relative paths are ignored.
    let given = given.filter(|dir| dir.is_absolute());
    let runtime = given.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]);
    let mut folders: Vec<PathBuf> =
        runtime.filter(|dir| dir.is_dir()).map(|dir| dir.join("coreshard")).collect();
    folders.push(PathBuf::from(format!("/tmp/coreshard-{user}")));
    folders.dedup();
    folders
}

/// Returns the name of a process's socket.
pub(super) fn socket_name(pid: u32) -> String {
    format!("{pid}.sock")
}

/// Creates the folder, if needed, and checks that other users cannot enter it.
pub(super) fn private_folder(folder: &Path) -> Result<(), InsightError> {
    let io =
        |error| InsightError::new(InsightErrorKind::Folder { folder: folder.to_owned(), error });
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
        _ => {}
    }
    // Do not follow links: in /tmp, any user may have created one.
    let found = fs::symlink_metadata(folder).map_err(io)?;
    let mode = found.mode() & 0o7777;
    if !found.is_dir() || found.uid() != own_user() || mode & 0o077 != 0 {
        let (owner, is_folder) = (found.uid(), found.is_dir());
        let folder = folder.to_owned();
        return Err(InsightError::new(InsightErrorKind::OpenFolder {
            folder,
            owner,
            mode,
            is_folder,
        }));
    }
    Ok(())
}

/// Removes the sockets of processes that have exited. Failures are ignored, as such a socket is harmless.
///
/// A missing process ID does not suffice: the process may be in another container with its own IDs. A missing listener
/// does: a socket has its name only while a process listens on it (see [`super::server`]).
pub(super) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".sock")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !is_alive(pid)) && is_abandoned(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns true if no process listens on the socket. Does not block, even if its backlog is full.
pub(super) fn is_abandoned(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refused = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    is_socket && refused() == Err(Errno::CONNREFUSED)
}

/// Returns true if there is a process with this ID.
pub(super) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Returns the name and the user of a process.
pub(super) fn process(pid: u32) -> io::Result<(String, u32)> {
    let folder = Path::new("/proc").join(pid.to_string());
    let name = String::from_utf8_lossy(&fs::read(folder.join("comm"))?).trim_end().to_owned();
    Ok((name, fs::metadata(folder)?.uid()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    /// Process IDs of another container are meaningless here.
    #[test]
    fn only_a_socket_at_which_nobody_listens_is_swept() {
        let folder = std::env::temp_dir().join(format!("coreshard-sweep-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [live, full, dead, file, other] =
            ["4294967201", "4294967202", "4294967203", "4294967204", "none"]
                .map(|name| folder.join(format!("{name}.sock")));
        let _listening = UnixListener::bind(&live).unwrap();
        // Another connection would exceed the backlog and block.
        let _busy = UnixListener::bind(&full).unwrap();
        rustix::net::listen(&_busy, 0).unwrap();
        let _waiting = UnixStream::connect(&full).unwrap();
        drop(UnixListener::bind(&dead).unwrap());
        drop(UnixListener::bind(&other).unwrap());
        fs::write(&file, "precious").unwrap();
        sweep(&folder);
        let left = [&live, &full, &dead, &file, &other].map(|path| path.exists());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, [true, true, false, true, true]);
    }

    #[test]
    fn a_runtime_folder_that_is_not_absolute_or_not_there_is_passed_over() {
        let folders = |given: &str| folders_of(4_294_967_000, Some(given.into()));
        let last = PathBuf::from("/tmp/coreshard-4294967000");
        assert_eq!(folders("relative"), std::slice::from_ref(&last));
        assert_eq!(folders("/tmp"), [PathBuf::from("/tmp/coreshard"), last]);
    }
}

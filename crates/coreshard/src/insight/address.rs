//! Where the sockets are.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::{InsightError, Kind};

/// The user that this process acts for.
pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Where sockets may be, the best place first: the user's own runtime folder (the XDG base directory
/// specification), else one in /tmp.
pub(super) fn folders() -> Vec<PathBuf> {
    let user = own_user();
    // The specification has paths that are not absolute ignored.
    let given =
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let runtime = given.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]);
    let mut folders: Vec<PathBuf> =
        runtime.filter(|dir| dir.is_dir()).map(|dir| dir.join("coreshard")).collect();
    folders.push(PathBuf::from(format!("/tmp/coreshard-{user}")));
    folders.dedup();
    folders
}

/// The name of a process's socket.
pub(super) fn socket_name(pid: u32) -> String {
    format!("{pid}.sock")
}

/// Makes the folder, if it is not there, and sees that nobody else can enter it.
pub(super) fn private_folder(folder: &Path) -> Result<(), InsightError> {
    let io = |error| InsightError::new(Kind::Folder { folder: folder.to_owned(), error });
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
        _ => {}
    }
    // Not through a link: in /tmp, anybody may have put one there.
    let found = fs::symlink_metadata(folder).map_err(io)?;
    let mode = found.mode() & 0o7777;
    if !found.is_dir() || found.uid() != own_user() || mode & 0o077 != 0 {
        let (owner, is_folder) = (found.uid(), found.is_dir());
        let folder = folder.to_owned();
        return Err(InsightError::new(Kind::OpenFolder { folder, owner, mode, is_folder }));
    }
    Ok(())
}

/// Removes the sockets of processes that are no more. What cannot be removed stays: it is only in
/// nobody's way.
pub(super) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".sock")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !is_alive(pid)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// True if there is a process with this id.
pub(super) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// The name and the user of a process.
pub(super) fn process(pid: u32) -> io::Result<(String, u32)> {
    let folder = Path::new("/proc").join(pid.to_string());
    let name = fs::read_to_string(folder.join("comm"))?.trim_end().to_owned();
    Ok((name, fs::metadata(folder)?.uid()))
}

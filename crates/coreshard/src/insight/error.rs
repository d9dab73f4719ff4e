//! Why a process's queues and pools cannot be shown.

use std::fmt;
use std::io;
use std::path::PathBuf;

use coreshard_topology::input;

use super::protocol::PROTOCOL_VERSION;

/// Why insight cannot be served or had. Its text says what was found, and what to do.
pub struct InsightError {
    kind: InsightErrorKind,
}

#[derive(Debug)]
pub(super) enum InsightErrorKind {
    Runtime(crate::RuntimeError),
    Folder { folder: PathBuf, error: io::Error },
    OpenFolder { folder: PathBuf, owner: u32, mode: u32, is_folder: bool },
    Bind { path: PathBuf, error: io::Error },
    Served { path: PathBuf },
    Thread { error: io::Error },
    NoProcess { pid: u32 },
    NotServed { pid: u32, program: String },
    OtherUser { pid: u32, program: String, user: u32, own: u32 },
    NoSocket { path: PathBuf },
    Stale { path: PathBuf },
    NotSocket { path: PathBuf },
    Connect { path: PathBuf, error: io::Error },
    StrangeServer { path: PathBuf, user: u32, own: u32 },
    OtherProcess { path: PathBuf, pid: u32, asked: u32 },
    Foreign { path: PathBuf },
    Version { path: PathBuf, theirs: u32 },
    Broken { path: PathBuf, what: String },
    NoAnswer { path: PathBuf, error: io::Error },
    Refused { path: PathBuf, reason: String },
}

impl InsightError {
    pub(super) fn new(kind: InsightErrorKind) -> Self {
        Self { kind }
    }

    /// True if there is nobody to ask any more: the process has ended, or has stopped to serve.
    pub fn is_gone(&self) -> bool {
        matches!(
            self.kind,
            InsightErrorKind::NoProcess { .. }
                | InsightErrorKind::NoSocket { .. }
                | InsightErrorKind::Stale { .. }
        )
    }

    /// True if the other side speaks another version of the protocol.
    pub fn is_version(&self) -> bool {
        matches!(self.kind, InsightErrorKind::Version { .. })
    }
}

impl fmt::Display for InsightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            InsightErrorKind::Runtime(error) => error.fmt(f),
            InsightErrorKind::Folder { folder, error } => write!(
                f,
                "the folder {} for the socket cannot be had: {error}; set XDG_RUNTIME_DIR to a \
                 folder of your own",
                input::path(folder)
            ),
            InsightErrorKind::OpenFolder { folder, is_folder: false, .. } => write!(
                f,
                "{} is not a folder, so no socket can be put there; remove it, or set \
                 XDG_RUNTIME_DIR to a folder of your own",
                input::path(folder)
            ),
            InsightErrorKind::OpenFolder { folder, owner, mode, .. } => write!(
                f,
                "the folder {} belongs to user {owner} with mode {mode:04o}, and must be this \
                 user's own with mode 0700; remove it, or set XDG_RUNTIME_DIR to a folder of your \
                 own",
                input::path(folder)
            ),
            InsightErrorKind::Bind { path, error } => {
                write!(f, "the socket {} cannot be made: {error}", input::path(path))
            }
            InsightErrorKind::Served { path } => write!(
                f,
                "the socket {} is served already; keep the first server, or give this one another \
                 path",
                input::path(path)
            ),
            InsightErrorKind::Thread { error } => {
                write!(f, "the thread that serves insight cannot be started: {error}")
            }
            InsightErrorKind::NoProcess { pid } => {
                write!(f, "there is no process {pid}; look it up with ps")
            }
            InsightErrorKind::NotServed { pid, program } => write!(
                f,
                "process {pid} ({program}) serves no insight: either it does not use Coreshard, or \
                 it must call coreshard::serve_insight(); where it was started with another \
                 XDG_RUNTIME_DIR, name its socket with --socket"
            ),
            InsightErrorKind::OtherUser { pid, program, user, own } => write!(
                f,
                "process {pid} ({program}) belongs to user {user} and you are user {own}; only the \
                 same user may look: run this as user {user}"
            ),
            InsightErrorKind::NoSocket { path } => write!(
                f,
                "there is no socket {}; the process may have ended, or not serve insight: it must \
                 call coreshard::serve_insight()",
                input::path(path)
            ),
            InsightErrorKind::Stale { path } => write!(
                f,
                "nobody listens at the socket {}: its process has ended without removing it, and \
                 the file may be removed",
                input::path(path)
            ),
            InsightErrorKind::NotSocket { path } => {
                write!(
                    f,
                    "{} is no socket; name the one that the process serves",
                    input::path(path)
                )
            }
            InsightErrorKind::Connect { path, error } => {
                write!(f, "the socket {} cannot be opened: {error}", input::path(path))
            }
            InsightErrorKind::StrangeServer { path, user, own } => write!(
                f,
                "the socket {} is served by user {user} and you are user {own}; what it says is \
                 not believed: run this as user {user}",
                input::path(path)
            ),
            InsightErrorKind::OtherProcess { path, pid, asked } => write!(
                f,
                "the socket {} is served by process {pid}, not by {asked}; look at process {pid}, \
                 or remove the file",
                input::path(path)
            ),
            InsightErrorKind::Foreign { path } => write!(
                f,
                "whoever serves {} is not a Coreshard process, or its client is not: it does not \
                 speak the protocol; give the socket that coreshard::serve_insight() made",
                input::path(path)
            ),
            InsightErrorKind::Version { path, theirs } => write!(
                f,
                "{} speaks version {theirs} of the protocol, and this release speaks version \
                 {PROTOCOL_VERSION}; use the command `coreshard` of the release that the process \
                 was built with",
                input::path(path)
            ),
            InsightErrorKind::Broken { path, what } => write!(
                f,
                "the answer from {} cannot be read: {what}; use the command `coreshard` of the \
                 release that the process was built with",
                input::path(path)
            ),
            InsightErrorKind::NoAnswer { path, error } => write!(
                f,
                "no answer came from {}: {error}; the process may be stopped, or about to end: try \
                 again",
                input::path(path)
            ),
            InsightErrorKind::Refused { path, reason } => {
                write!(f, "whoever serves {} refuses: {reason}", input::path(path))
            }
        }
    }
}

coreshard_topology::readable_debug!(InsightError);

impl std::error::Error for InsightError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            InsightErrorKind::Runtime(error) => Some(error),
            // The text of an `io::Error` is in this one's.
            _ => None,
        }
    }
}

//! Errors of insight.

use std::fmt;
use std::io;
use std::path::PathBuf;

use coreshard_topology::input;

use super::protocol::PROTOCOL_VERSION;

/// Why insight is not available. The message says what was found and what to do.
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

    /// Returns true if the process has exited or stopped serving.
    pub fn is_gone(&self) -> bool {
        matches!(
            self.kind,
            InsightErrorKind::NoProcess { .. }
                | InsightErrorKind::NoSocket { .. }
                | InsightErrorKind::Stale { .. }
        )
    }

    /// Returns true if the other side has another protocol version.
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
                "cannot use the folder {} for the socket: {error}; set XDG_RUNTIME_DIR to your own folder",
                input::path(folder)
            ),
            InsightErrorKind::OpenFolder { folder, is_folder: false, .. } => write!(
                f,
                "invalid socket folder {}: it is not a folder; remove it, or set XDG_RUNTIME_DIR to your own folder",
                input::path(folder)
            ),
            InsightErrorKind::OpenFolder { folder, owner, mode, .. } => write!(
                f,
                "invalid socket folder {}: expected this user as owner and mode 0700, found user {owner} and mode {mode:04o}; remove it, or set XDG_RUNTIME_DIR to your own folder",
                input::path(folder)
            ),
            InsightErrorKind::Bind { path, error } => {
                write!(f, "cannot create the socket {}: {error}", input::path(path))
            }
            InsightErrorKind::Served { path } => write!(
                f,
                "the socket {} is already served: keep the first server, or use another path",
                input::path(path)
            ),
            InsightErrorKind::Thread { error } => {
                write!(f, "cannot start the insight thread: {error}")
            }
            InsightErrorKind::NoProcess { pid } => {
                write!(f, "there is no process {pid}")
            }
            InsightErrorKind::NotServed { pid, program } => write!(
                f,
                "process {pid} ({program}) serves no insight: it must use Coreshard and call coreshard::serve_insight(); if it has another XDG_RUNTIME_DIR, give its socket with --socket"
            ),
            InsightErrorKind::OtherUser { pid, program, user, own } => write!(
                f,
                "process {pid} ({program}) belongs to user {user} and you are user {own}: run this as user {user}"
            ),
            InsightErrorKind::NoSocket { path } => write!(
                f,
                "there is no socket {}: the process has exited, or does not call coreshard::serve_insight()",
                input::path(path)
            ),
            InsightErrorKind::Stale { path } => write!(
                f,
                "no process listens on the socket {}: its process was killed, and the file may be removed",
                input::path(path)
            ),
            InsightErrorKind::NotSocket { path } => {
                write!(f, "invalid socket {}: the file is not a socket", input::path(path))
            }
            InsightErrorKind::Connect { path, error } => {
                write!(f, "cannot open the socket {}: {error}", input::path(path))
            }
            InsightErrorKind::StrangeServer { path, user, own } => write!(
                f,
                "the socket {} is served by user {user} and you are user {own}: run this as user {user}",
                input::path(path)
            ),
            InsightErrorKind::OtherProcess { path, pid, asked } => write!(
                f,
                "the socket {} is served by process {pid}, not by {asked}: use {pid}, or remove the file",
                input::path(path)
            ),
            InsightErrorKind::Foreign { path } => write!(
                f,
                "the server of {} is not a Coreshard process: use the socket of coreshard::serve_insight()",
                input::path(path)
            ),
            InsightErrorKind::Version { path, theirs } => write!(
                f,
                "{} has version {theirs} of the protocol, and this release version {PROTOCOL_VERSION}: use the command `coreshard` of the release that the process was built with",
                input::path(path)
            ),
            InsightErrorKind::Broken { path, what } => write!(
                f,
                "cannot read the answer from {}: {what}; use the command `coreshard` of the release that the process was built with",
                input::path(path)
            ),
            InsightErrorKind::NoAnswer { path, error } => write!(
                f,
                "no answer from {}: {error}; the process may be stopped or exiting: try again",
                input::path(path)
            ),
            InsightErrorKind::Refused { path, reason } => {
                write!(f, "the server of {} rejected the request: {reason}", input::path(path))
            }
        }
    }
}

coreshard_topology::readable_debug!(InsightError);

impl std::error::Error for InsightError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            InsightErrorKind::Runtime(error) => Some(error),
            // The message includes that of the `io::Error`.
            _ => None,
        }
    }
}

//! The client.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;

use super::address;
use super::error::{InsightError, InsightErrorKind};
use super::protocol::{self, Answer, FrameError, LONGEST_ANSWER, Request};
use super::snapshot::Snapshot;

/// Maximum wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads until a deadline, over any number of reads.
struct Until<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl<'a> Until<'a> {
    fn new(stream: &'a UnixStream, timeout: Duration) -> Self {
        Self { stream, until: Instant::now() + timeout }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// Requests the queues and pools of a process.
#[derive(Clone, Debug)]
pub struct InsightClient {
    path: PathBuf,
    pid: Option<u32>,
}

impl InsightClient {
    /// Connects to the process with this ID.
    ///
    /// # Errors
    /// If there is no such process, it belongs to another user, or it has no socket.
    pub fn of_process(pid: u32) -> Result<Self, InsightError> {
        let name = address::socket_name(pid);
        let found = address::folders().into_iter().map(|folder| folder.join(&name));
        if let Some(path) = found.into_iter().find(|path| path.exists()) {
            return Ok(Self { path, pid: Some(pid) });
        }
        let kind = match address::process(pid) {
            Err(_) => InsightErrorKind::NoProcess { pid },
            Ok((program, user)) if user != address::own_user() => {
                InsightErrorKind::OtherUser { pid, program, user, own: address::own_user() }
            }
            Ok((program, _)) => InsightErrorKind::NotServed { pid, program },
        };
        Err(InsightError::new(kind))
    }

    /// Uses the socket at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), pid: None }
    }

    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Requests the current queues and pools.
    ///
    /// # Errors
    /// If no process serves the socket, its process belongs to another user, is not a Coreshard process, or has another
    /// version of the protocol, or if no answer arrives within 5 s.
    pub fn snapshot(&self) -> Result<Snapshot, InsightError> {
        let path = || self.path.clone();
        let mut stream = UnixStream::connect(&self.path).map_err(|error| {
            InsightError::new(match (error.kind(), self.pid) {
                (ErrorKind::NotFound, _) => InsightErrorKind::NoSocket { path: path() },
                (ErrorKind::ConnectionRefused, Some(pid)) if !address::is_alive(pid) => {
                    InsightErrorKind::NoProcess { pid }
                }
                (ErrorKind::ConnectionRefused, _) if !is_socket(&self.path) => {
                    InsightErrorKind::NotSocket { path: path() }
                }
                (ErrorKind::ConnectionRefused, _) => InsightErrorKind::Stale { path: path() },
                _ => InsightErrorKind::Connect { path: path(), error },
            })
        })?;
        self.check_server(&stream)?;
        let asked = stream
            .set_read_timeout(Some(TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)))
            .and_then(|()| protocol::write(&mut stream, &Request::Snapshot));
        let no_answer =
            |error| InsightError::new(InsightErrorKind::NoAnswer { path: path(), error });
        match asked {
            // The server sent the reason before it hung up.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            asked => asked.map_err(no_answer)?,
        }
        let answer = protocol::read(&mut Until::new(&stream, TIMEOUT), LONGEST_ANSWER);
        Err(InsightError::new(match answer {
            Ok(Answer::Snapshot(snapshot)) => return Ok(snapshot),
            Ok(Answer::Refused(reason)) => InsightErrorKind::Refused { path: path(), reason },
            Err(FrameError::Io(error)) => return Err(no_answer(error)),
            Err(FrameError::Foreign) => InsightErrorKind::Foreign { path: path() },
            Err(FrameError::Version(theirs)) => InsightErrorKind::Version { path: path(), theirs },
            Err(FrameError::TooLong(bytes)) => {
                let what = format!("expected at most {LONGEST_ANSWER} bytes, found {bytes}");
                InsightErrorKind::Broken { path: path(), what }
            }
            Err(FrameError::Json(error)) => {
                InsightErrorKind::Broken { path: path(), what: error.to_string() }
            }
        }))
    }

    /// Checks the server's user and process as the kernel reports them.
    fn check_server(&self, stream: &UnixStream) -> Result<(), InsightError> {
        let path = || self.path.clone();
        let server = socket_peercred(stream).map_err(|error| {
            InsightError::new(InsightErrorKind::Connect { path: path(), error: error.into() })
        })?;
        let (user, own) = (server.uid.as_raw(), address::own_user());
        if user != own {
            return Err(InsightError::new(InsightErrorKind::StrangeServer {
                path: path(),
                user,
                own,
            }));
        }
        let pid = server.pid.as_raw_pid().unsigned_abs();
        match self.pid {
            Some(asked) if asked != pid => {
                Err(InsightError::new(InsightErrorKind::OtherProcess { path: path(), pid, asked }))
            }
            _ => Ok(()),
        }
    }
}

/// Returns true if the path is a socket, or if this cannot be determined.
fn is_socket(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.file_type().is_socket())
}

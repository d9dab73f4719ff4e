//! The side that asks.

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

/// How long a client waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads until a moment, however many reads that takes.
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

/// Asks a process about its queues and pools.
#[derive(Clone, Debug)]
pub struct InsightClient {
    path: PathBuf,
    pid: Option<u32>,
}

impl InsightClient {
    /// The process with this id.
    ///
    /// # Errors
    /// Where there is no such process, it is another user's, or it has no socket.
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

    /// Whoever serves the socket at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), pid: None }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The queues and pools as they are now.
    ///
    /// # Errors
    /// Where nobody serves the socket, it is not this user's, not a Coreshard process's or one
    /// with another version of the protocol, or no answer comes within 5 s.
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
            // It has said why before it hung up.
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
                let what = format!("it has {bytes} bytes, and at most {LONGEST_ANSWER} are read");
                InsightErrorKind::Broken { path: path(), what }
            }
            Err(FrameError::Json(error)) => {
                InsightErrorKind::Broken { path: path(), what: error.to_string() }
            }
        }))
    }

    /// By the kernel's word: who serves.
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

/// Whether what is there is a socket, by whatever name; also where that cannot be found out.
fn is_socket(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.file_type().is_socket())
}

//! The connections of a server: an event loop on one thread.
//!
//! 1. Only `poll` blocks this thread: sockets are non-blocking.
//! 2. A client is served for [`TIMEOUT`] in total, from its accept to its last byte.
//! 3. There are at most [`MAX_CONNECTIONS`]. A new one replaces the oldest.
//! 4. Each step reads the clock itself, as an earlier reading may be arbitrarily old.
//! 5. The thread exits once `is_over` is set and the listening socket is shut down, in this order.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;

use super::address;
use super::protocol::{
    self, Answer, FrameError, LONGEST_FRAME, LONGEST_REQUEST, PROTOCOL_VERSION, Request,
};
use super::snapshot::Snapshot;
use crate::Runtime;

/// Maximum time to serve a client.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after an accept failed (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
const MAX_CONNECTIONS: usize = 16;

/// Serves the clients of the insight socket.
pub(super) struct Connections<'a> {
    runtime: &'a Runtime,
    listener: &'a UnixListener,
    is_over: &'a AtomicBool,
    /// The oldest first.
    open: Vec<Connection>,
    /// When accepting resumes after a failure.
    accepts_from: Option<Instant>,
}

/// A client's connection.
struct Connection {
    stream: UnixStream,
    until: Instant,
    stage: Stage,
}

enum Stage {
    /// Reads the request, received so far.
    Reading(Vec<u8>),
    /// Writes the answer. `sent` bytes of it are already sent. After a rejection, the rest of the request must be read:
    /// otherwise closing the socket resets the connection, and the client may lose the answer.
    Writing { answer: Vec<u8>, sent: usize, is_refusal: bool },
    /// Discards the rest of the request, up to this many bytes.
    Draining(usize),
}

impl<'a> Connections<'a> {
    pub(super) fn new(
        runtime: &'a Runtime,
        listener: &'a UnixListener,
        is_over: &'a AtomicBool,
    ) -> Self {
        Self { runtime, listener, is_over, open: Vec::new(), accepts_from: None }
    }

    /// Serves clients until shutdown.
    pub(super) fn serve(mut self) {
        while !self.is_over.load(SeqCst) {
            self.expire();
            let (is_connecting, ready) = self.wait();
            let mut ready = ready.into_iter();
            let runtime = self.runtime;
            self.open.retain_mut(|connection| {
                !ready.next().unwrap_or(false) || connection.step(runtime).unwrap_or(false)
            });
            if is_connecting && self.accepts_from.is_none() {
                self.accept();
            }
        }
    }

    /// Closes connections at their time limit, and ends a pause of accepting.
    fn expire(&mut self) {
        let now = Instant::now();
        self.open.retain(|connection| connection.until > now);
        self.accepts_from = self.accepts_from.filter(|until| *until > now);
    }

    /// Waits for the listener or a client. Returns whether a client wants to connect, and which connections are ready.
    fn wait(&self) -> (bool, Vec<bool>) {
        let paused = self.accepts_from.is_some();
        let wanted = if paused { PollFlags::empty() } else { PollFlags::IN };
        let mut all = vec![PollFd::new(self.listener, wanted)];
        all.extend(
            self.open.iter().map(|connection| PollFd::new(&connection.stream, connection.wants())),
        );
        let ends = self.open.iter().map(|connection| connection.until).chain(self.accepts_from);
        let left = ends.min().map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut all, left.as_ref()).is_err() {
            // Interrupted, or out of memory: the next poll retries.
            return (false, Vec::new());
        }
        let mut ready = all.iter().map(|one| !one.revents().is_empty());
        (ready.next().unwrap_or(false), ready.collect())
    }

    fn accept(&mut self) {
        match self.listener.accept() {
            Ok((stream, _)) => {
                let own = address::own_user();
                let is_own = socket_peercred(&stream).is_ok_and(|who| who.uid.as_raw() == own);
                if is_own && stream.set_nonblocking(true).is_ok() {
                    if self.open.len() == MAX_CONNECTIONS {
                        self.open.remove(0);
                    }
                    let (until, stage) = (Instant::now() + TIMEOUT, Stage::Reading(Vec::new()));
                    self.open.push(Connection { stream, until, stage });
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) => {}
            Err(_) => self.accepts_from = Some(Instant::now() + ACCEPT_PAUSE),
        }
    }
}

impl Connection {
    fn wants(&self) -> PollFlags {
        match self.stage {
            Stage::Reading(_) | Stage::Draining(_) => PollFlags::IN,
            Stage::Writing { .. } => PollFlags::OUT,
        }
    }

    /// Makes progress without blocking. Returns false or an error when the connection has ended.
    fn step(&mut self, runtime: &Runtime) -> io::Result<bool> {
        let mut buffer = [0; 4 << 10];
        match &mut self.stage {
            Stage::Reading(request) => {
                let Some(bytes) = now(self.stream.read(&mut buffer))? else { return Ok(true) };
                request.extend_from_slice(&buffer[..bytes]);
                let Some(answer) = answer(runtime, request) else {
                    return Ok(bytes > 0 && request.len() < LONGEST_FRAME);
                };
                let is_refusal = matches!(answer, Answer::Refused(_));
                let mut frame = Vec::new();
                protocol::write(&mut frame, &answer)?;
                self.stage = Stage::Writing { answer: frame, sent: 0, is_refusal };
                self.step(runtime)
            }
            Stage::Writing { answer, sent, is_refusal } => {
                *sent += now(self.stream.write(&answer[*sent..]))?.unwrap_or(0);
                if *sent < answer.len() {
                    return Ok(true);
                }
                if !*is_refusal {
                    return Ok(false);
                }
                self.stream.shutdown(Shutdown::Write)?;
                self.stage = Stage::Draining(LONGEST_FRAME);
                Ok(true)
            }
            Stage::Draining(left) => {
                let Some(bytes) = now(self.stream.read(&mut buffer))? else { return Ok(true) };
                *left = left.saturating_sub(bytes);
                Ok(bytes > 0 && *left > 0)
            }
        }
    }
}

/// Returns `None` if the call would have blocked.
fn now(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// Returns the answer to a request; `None` if the request is incomplete.
fn answer(runtime: &Runtime, request: &[u8]) -> Option<Answer> {
    Some(match protocol::read(&mut &request[..], LONGEST_REQUEST) {
        Ok(Request::Snapshot) => Answer::Snapshot(Snapshot::of(runtime)),
        Err(FrameError::Io(_)) => return None,
        // The answer has this version's frame, whose header shows the client the problem.
        Err(FrameError::Foreign) => Answer::Refused("invalid frame".to_owned()),
        Err(FrameError::Version(theirs)) => Answer::Refused(format!(
            "expected version {PROTOCOL_VERSION} of the protocol, found version {theirs}"
        )),
        Err(FrameError::TooLong(bytes)) => Answer::Refused(format!(
            "expected a request of at most {LONGEST_REQUEST} bytes, found {bytes}"
        )),
        Err(FrameError::Json(error)) => {
            Answer::Refused(format!("cannot read the request: {error}"))
        }
    })
}

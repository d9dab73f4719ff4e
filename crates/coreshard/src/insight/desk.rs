//! The clients of a server, side by side on one thread.
//!
//! 1. No call of this thread waits but `poll`: sockets are non-blocking.
//! 2. A client has [`PATIENCE`] in all, from its accept to its last byte, however it deals the bytes out.
//! 3. There are at most [`MAX_CLIENTS`]; one more takes the place of the one that is here longest.
//! 4. The thread ends as soon as `is_over` is set and the listening socket is shut down, in this order.

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

/// How long a client is served.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long no connection is accepted after one could not be (too many open files).
const PAUSE: Duration = Duration::from_millis(200);
const MAX_CLIENTS: usize = 16;

/// Who is being served, and by whom.
pub(super) struct Desk<'a> {
    runtime: &'a Runtime,
    listener: &'a UnixListener,
    is_over: &'a AtomicBool,
    /// The one that is here longest first.
    clients: Vec<Client>,
    paused_until: Option<Instant>,
}

struct Client {
    stream: UnixStream,
    until: Instant,
    stage: Stage,
}

enum Stage {
    /// What it has said so far.
    Asks(Vec<u8>),
    /// The answer, how much of it is sent, and whether what is left unread must be taken then: else
    /// closing the socket resets the connection, and the client may lose the answer by that.
    Hears { answer: Vec<u8>, sent: usize, is_refusal: bool },
    /// How many more bytes are taken from it, to be thrown away.
    Leaves(usize),
}

impl<'a> Desk<'a> {
    pub(super) fn new(
        runtime: &'a Runtime,
        listener: &'a UnixListener,
        is_over: &'a AtomicBool,
    ) -> Self {
        Self { runtime, listener, is_over, clients: Vec::new(), paused_until: None }
    }

    /// Serves until it is over.
    pub(super) fn serve(mut self) {
        while !self.is_over.load(SeqCst) {
            let now = Instant::now();
            self.clients.retain(|client| client.until > now);
            self.paused_until = self.paused_until.filter(|until| *until > now);
            let (is_called, ready) = self.wait(now);
            let mut ready = ready.into_iter();
            let runtime = self.runtime;
            self.clients.retain_mut(|client| {
                !ready.next().unwrap_or(false) || client.step(runtime).unwrap_or(false)
            });
            if is_called && self.paused_until.is_none() {
                self.accept(now);
            }
        }
    }

    /// Waits for the listener or a client; tells whether there is somebody new, and which clients have
    /// come further.
    fn wait(&self, now: Instant) -> (bool, Vec<bool>) {
        let paused = self.paused_until.is_some();
        let wanted = if paused { PollFlags::empty() } else { PollFlags::IN };
        let mut all = vec![PollFd::new(self.listener, wanted)];
        all.extend(self.clients.iter().map(|client| PollFd::new(&client.stream, client.wants())));
        let ends = self.clients.iter().map(|client| client.until).chain(self.paused_until);
        let left = ends.min().map(|until| until.saturating_duration_since(now));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut all, left.as_ref()).is_err() {
            // Interrupted, or out of memory: the next look finds the same.
            return (false, Vec::new());
        }
        let mut ready = all.iter().map(|one| !one.revents().is_empty());
        (ready.next().unwrap_or(false), ready.collect())
    }

    fn accept(&mut self, now: Instant) {
        match self.listener.accept() {
            Ok((stream, _)) => {
                let own = address::own_user();
                let is_own = socket_peercred(&stream).is_ok_and(|who| who.uid.as_raw() == own);
                if is_own && stream.set_nonblocking(true).is_ok() {
                    if self.clients.len() == MAX_CLIENTS {
                        self.clients.remove(0);
                    }
                    let stage = Stage::Asks(Vec::new());
                    self.clients.push(Client { stream, until: now + PATIENCE, stage });
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) => {}
            Err(_) => self.paused_until = Some(now + PAUSE),
        }
    }
}

impl Client {
    fn wants(&self) -> PollFlags {
        match self.stage {
            Stage::Asks(_) | Stage::Leaves(_) => PollFlags::IN,
            Stage::Hears { .. } => PollFlags::OUT,
        }
    }

    /// Goes as far as can be gone without waiting; false when there is no more to do. A client that goes
    /// away is no trouble of this process's.
    fn step(&mut self, runtime: &Runtime) -> io::Result<bool> {
        let mut buffer = [0; 4 << 10];
        match &mut self.stage {
            Stage::Asks(said) => {
                let Some(bytes) = now(self.stream.read(&mut buffer))? else { return Ok(true) };
                said.extend_from_slice(&buffer[..bytes]);
                let Some(answer) = answer(runtime, said) else {
                    return Ok(bytes > 0 && said.len() < LONGEST_FRAME);
                };
                let is_refusal = matches!(answer, Answer::Refused(_));
                let mut frame = Vec::new();
                protocol::write(&mut frame, &answer)?;
                self.stage = Stage::Hears { answer: frame, sent: 0, is_refusal };
                self.step(runtime)
            }
            Stage::Hears { answer, sent, is_refusal } => {
                *sent += now(self.stream.write(&answer[*sent..]))?.unwrap_or(0);
                if *sent < answer.len() {
                    return Ok(true);
                }
                if !*is_refusal {
                    return Ok(false);
                }
                self.stream.shutdown(Shutdown::Write)?;
                self.stage = Stage::Leaves(LONGEST_FRAME);
                Ok(true)
            }
            Stage::Leaves(left) => {
                let Some(bytes) = now(self.stream.read(&mut buffer))? else { return Ok(true) };
                *left = left.saturating_sub(bytes);
                Ok(bytes > 0 && *left > 0)
            }
        }
    }
}

/// `None` where the call would have waited.
fn now(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// The answer to what was said; `None` while more must come.
fn answer(runtime: &Runtime, said: &[u8]) -> Option<Answer> {
    Some(match protocol::read(&mut &said[..], LONGEST_REQUEST) {
        Ok(Request::Snapshot) => Answer::Snapshot(Snapshot::of(runtime)),
        Err(FrameError::Io(_)) => return None,
        // Told in a frame of this version, from whose header the client sees what is wrong.
        Err(FrameError::Foreign) => Answer::Refused("this is not the protocol's frame".to_owned()),
        Err(FrameError::Version(theirs)) => Answer::Refused(format!(
            "it speaks version {PROTOCOL_VERSION} of the protocol, and was asked in version {theirs}"
        )),
        Err(FrameError::TooLong(bytes)) => Answer::Refused(format!(
            "a request of {bytes} bytes, and at most {LONGEST_REQUEST} are read"
        )),
        Err(FrameError::Json(error)) => {
            Answer::Refused(format!("the request cannot be read: {error}"))
        }
    })
}

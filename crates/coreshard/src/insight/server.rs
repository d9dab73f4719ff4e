//! The side that answers.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

use super::address;
use super::error::{InsightError, Kind};
use super::protocol::{self, Answer, FrameError, LONGEST_REQUEST, PROTOCOL_VERSION, Request};
use super::snapshot::Snapshot;
use crate::Runtime;

/// How long a client may keep the server waiting.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the server waits when no connection can be accepted (too many open files).
const PAUSE: Duration = Duration::from_millis(200);

/// Serves the process's runtime to `coreshard top`, until what is returned is dropped.
///
/// The socket is in `$XDG_RUNTIME_DIR/coreshard` or, where there is no such folder, in
/// `/tmp/coreshard-<user>`, and named after the process. Only the same user can open it. One thread
/// serves it, and sleeps while nobody asks.
///
/// ```
/// let _insight = coreshard::serve_insight()?;
/// // coreshard top <pid>
/// # Ok::<(), coreshard::insight::InsightError>(())
/// ```
///
/// # Errors
/// Where the process has no runtime (see [`runtime`](crate::runtime)), the folder is not this
/// user's own, the process serves already, or the socket or the thread cannot be had.
pub fn serve_insight() -> Result<InsightServer, InsightError> {
    let runtime = crate::runtime().map_err(|error| InsightError::new(Kind::Runtime(error)))?;
    InsightServer::bind(runtime)
}

/// Serves a runtime while it lives; see [`serve_insight`].
#[derive(Debug)]
#[must_use = "it serves until it is dropped"]
pub struct InsightServer {
    path: PathBuf,
    /// A child of a fork has the value, but not the thread.
    pid: u32,
    listener: Arc<UnixListener>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InsightServer {
    /// Serves `runtime` where `coreshard top` looks for it.
    ///
    /// # Errors
    /// As [`serve_insight`].
    pub fn bind(runtime: &Runtime) -> Result<Self, InsightError> {
        let folders = address::folders();
        let folder = folders.first().expect("there is always one in /tmp");
        address::private_folder(folder)?;
        address::sweep(folder);
        Self::bind_at(runtime, folder.join(address::socket_name(std::process::id())))
    }

    /// Serves `runtime` at `path`, for `coreshard top --socket`. The folder should let nobody else
    /// in; but a client of another user is refused in any case.
    ///
    /// # Errors
    /// Where somebody serves the path already, or the socket or the thread cannot be had.
    pub fn bind_at(runtime: &Runtime, path: impl Into<PathBuf>) -> Result<Self, InsightError> {
        let path = path.into();
        let bind = |error| InsightError::new(Kind::Bind { path: path.clone(), error });
        match UnixStream::connect(&path) {
            Ok(_) => return Err(InsightError::new(Kind::Served { path })),
            // Left behind by a process that was killed.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(&path) => {
                fs::remove_file(&path).map_err(bind)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path).map_err(bind)?;
        if let Err(error) = fs::set_permissions(&path, Permissions::from_mode(0o600)) {
            let _ = fs::remove_file(&path);
            return Err(bind(error));
        }
        let (listener, is_over) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (listener, is_over) = (Arc::clone(&listener), Arc::clone(&is_over));
            let runtime = runtime.clone();
            let serve = move || serve(&runtime, &listener, &is_over);
            thread::Builder::new().name("cs-insight".to_owned()).spawn(serve)
        };
        match thread {
            Ok(thread) => {
                let pid = std::process::id();
                Ok(Self { path, pid, listener, is_over, thread: Some(thread) })
            }
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(InsightError::new(Kind::Thread { error }))
            }
        }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for InsightServer {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // After a fork: socket and thread are the parent's.
            return;
        }
        self.is_over.store(true, SeqCst);
        let _ = fs::remove_file(&self.path);
        // On Linux this wakes a thread inside `accept`.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

fn serve(runtime: &Runtime, listener: &UnixListener, is_over: &AtomicBool) {
    loop {
        let accepted = listener.accept();
        if is_over.load(SeqCst) {
            return;
        }
        match accepted {
            // A client that goes away, or never asks, is no trouble of this process's.
            Ok((stream, _)) => drop(answer(runtime, stream)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn answer(runtime: &Runtime, mut stream: UnixStream) -> io::Result<()> {
    if socket_peercred(&stream)?.uid.as_raw() != address::own_user() {
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let answer = match protocol::read(&mut stream, LONGEST_REQUEST) {
        Ok(Request::Snapshot) => Answer::Snapshot(Snapshot::of(runtime)),
        Err(FrameError::Io(error)) => return Err(error),
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
    };
    protocol::write(&mut stream, &answer)?;
    if matches!(answer, Answer::Refused(_)) {
        // What is left unread when a socket is closed resets the connection, and the client may
        // lose the answer by that.
        stream.shutdown(Shutdown::Write)?;
        io::copy(&mut (&mut stream).take(u64::from(LONGEST_REQUEST)), &mut io::sink())?;
    }
    Ok(())
}

//! The server.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

use super::address;
use super::connections::Connections;
use super::error::{InsightError, InsightErrorKind};
use crate::Runtime;

/// Serves the process's runtime to `coreshard top`, until the returned value is dropped.
///
/// The socket is in `$XDG_RUNTIME_DIR/coreshard` or, without such a folder, in `/tmp/coreshard-<user>`, and named after
/// the process. Only the same user can open it. One thread serves it, and sleeps while there is no request.
///
/// ```
/// let _insight = coreshard::serve_insight()?;
/// // coreshard top <pid>
/// # Ok::<(), coreshard::insight::InsightError>(())
/// ```
///
/// # Errors
/// If the process has no runtime (see [`runtime`](crate::runtime)), the folder belongs to another user, the process
/// already serves, or the socket or the thread cannot be created.
pub fn serve_insight() -> Result<InsightServer, InsightError> {
    let runtime =
        crate::runtime().map_err(|error| InsightError::new(InsightErrorKind::Runtime(error)))?;
    InsightServer::bind(runtime)
}

/// Serves a runtime while it lives; see [`serve_insight`].
#[derive(Debug)]
#[must_use = "it serves until it is dropped"]
pub struct InsightServer {
    path: PathBuf,
    /// Device and inode of the socket, as it may have been replaced.
    file: Option<(u64, u64)>,
    /// A forked child has the value, but not the thread.
    pid: u32,
    listener: Arc<UnixListener>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InsightServer {
    /// Serves `runtime` at the default path of `coreshard top`.
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

    /// Serves `runtime` at `path`, for `coreshard top --socket`. Other users should not be able to enter the folder,
    /// and are rejected in any case.
    ///
    /// # Errors
    /// If the path is already served, or the socket or the thread cannot be created.
    pub fn bind_at(runtime: &Runtime, path: impl Into<PathBuf>) -> Result<Self, InsightError> {
        let path = path.into();
        let bind = |error| InsightError::new(InsightErrorKind::Bind { path: path.clone(), error });
        // Left by a process that was killed.
        if address::is_abandoned(&path) {
            fs::remove_file(&path).map_err(bind)?;
        } else if UnixStream::connect(&path).is_ok() {
            return Err(InsightError::new(InsightErrorKind::Served { path }));
        }
        let listener = listen(&path).map_err(bind)?;
        let file = identity(&path);
        let (listener, is_over) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (listener, is_over) = (Arc::clone(&listener), Arc::clone(&is_over));
            let runtime = runtime.clone();
            let serve = move || Connections::new(&runtime, &listener, &is_over).serve();
            thread::Builder::new().name("cs-insight".to_owned()).spawn(serve)
        };
        match thread {
            Ok(thread) => {
                let pid = std::process::id();
                Ok(Self { path, file, pid, listener, is_over, thread: Some(thread) })
            }
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(InsightError::new(InsightErrorKind::Thread { error }))
            }
        }
    }

    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for InsightServer {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // After a fork, the socket and thread belong to the parent.
            return;
        }
        self.is_over.store(true, SeqCst);
        if self.file == identity(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
        // On Linux this wakes a thread that waits for clients.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Creates a listening socket at `path` for its user only. The path must not exist.
///
/// It is created under another name and renamed once it listens, so a socket without a listener was left behind.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let owned = |listener: UnixListener, path: &Path| {
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let name = format!(".{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
    let aside = path.with_file_name(name);
    let _ = fs::remove_file(&aside);
    let listener = match UnixListener::bind(&aside) {
        Ok(listener) => listener,
        // The temporary name may exceed the kernel's limit even if `path` does not.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            let listener = UnixListener::bind(path)?;
            return owned(listener, path).inspect_err(|_| drop(fs::remove_file(path)));
        }
        Err(error) => return Err(error),
    };
    let named = owned(listener, &aside).and_then(|listener| {
        fs::hard_link(&aside, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&aside);
    named
}

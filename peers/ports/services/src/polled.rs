//! An experiment: a reactor without a thread. An item of the queue checks for readiness, wakes the tasks whose sockets
//! are ready, on the worker that will run them, and queues itself behind them. If no socket is ready, the worker waits
//! in `epoll_wait` for a short time, since queued items cannot end that wait.
//!
//! It shows the possible gain of a reactor that idle workers wait in, but it is not such a reactor: a pool without work
//! polls 500 times a second, and an item that is queued while one worker waits here relies on another.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use coreshard::Workqueue;
use hyper::rt::{Read, ReadBufCursor, Write};

const MOST_SOCKETS: usize = 4096;
const MOST_EVENTS: usize = 256;
const WAIT_MS: i32 = 2;

pub struct PolledReactor {
    epoll: OwnedFd,
    /// By the socket's number.
    sockets: Vec<Waiting>,
}

#[derive(Default)]
struct Waiting {
    to_read: Side,
    to_write: Side,
}

/// Reading, or writing.
#[derive(Default)]
struct Side {
    /// An operation is worth its system call.
    is_ready: AtomicBool,
    waiter: Mutex<Option<Waker>>,
}

impl PolledReactor {
    /// Starts polling.
    ///
    /// # Panics
    /// Panics if no epoll instance can be created, or if the queue is closed.
    pub fn start(queue: &Workqueue) -> Arc<Self> {
        // SAFETY: the call takes no pointers. The returned descriptor is checked, and has no other owner.
        let epoll = unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            assert!(epoll >= 0, "epoll: {}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(epoll)
        };
        let sockets = (0..MOST_SOCKETS).map(|_| Waiting::default()).collect();
        let reactor = Arc::new(Self { epoll, sockets });
        look(Arc::clone(&reactor), queue.clone());
        reactor
    }

    /// Registers a stream: this reactor wakes its tasks.
    ///
    /// # Panics
    /// Panics if the reactor has too many streams.
    pub fn stream(self: &Arc<Self>, stream: TcpStream) -> PolledStream {
        let number = stream.as_raw_fd();
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: number as u64 };
        // SAFETY: both descriptors are open, and the event is only read.
        let added = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, number, &raw mut event)
        };
        assert_eq!(added, 0, "epoll: {}", io::Error::last_os_error());
        assert!((number as usize) < MOST_SOCKETS, "a socket with a small number");
        PolledStream { reactor: Arc::clone(self), stream }
    }

    /// Wakes the tasks of ready sockets. Returns the number of ready sockets.
    fn wake_ready(&self, wait_ms: i32) -> usize {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST_EVENTS];
        // SAFETY: it writes at most this many events.
        let count = unsafe {
            let most = MOST_EVENTS as i32;
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), most, wait_ms)
        };
        // Negative if interrupted.
        let ready = &events[..usize::try_from(count).unwrap_or(0)];
        for event in ready {
            let (bits, number) = (event.events.cast_signed(), event.u64 as usize);
            let ends = libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP;
            if bits & (libc::EPOLLIN | ends) != 0 {
                wake(&self.sockets[number].to_read);
            }
            if bits & (libc::EPOLLOUT | ends) != 0 {
                wake(&self.sockets[number].to_write);
            }
        }
        ready.len()
    }
}

fn wake(side: &Side) {
    side.is_ready.store(true, SeqCst);
    let waker = side.waiter.lock().expect("nobody panics").take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn look(reactor: Arc<PolledReactor>, queue: Workqueue) {
    let again = queue.clone();
    let item = move || {
        if reactor.wake_ready(0) == 0 {
            reactor.wake_ready(WAIT_MS);
        }
        look(reactor, queue);
    };
    again.queue(item).expect("the queue is open");
}

pub struct PolledStream {
    reactor: Arc<PolledReactor>,
    stream: TcpStream,
}

impl PolledStream {
    /// Tries `operation` if readiness was reported since the last result that used it up. `is_end` decides by a result
    /// whether it did.
    fn poll<R>(
        &self,
        side: impl FnOnce(&Waiting) -> &Side,
        context: &Context<'_>,
        mut operation: impl FnMut(&TcpStream) -> io::Result<R>,
        is_end: impl FnOnce(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        let side = side(&self.reactor.sockets[self.stream.as_raw_fd() as usize]);
        loop {
            if !side.is_ready.load(SeqCst) {
                *side.waiter.lock().expect("no holder panics") = Some(context.waker().clone());
                // Readiness may have been reported in between, when no waker was registered.
                if !side.is_ready.load(SeqCst) {
                    return Poll::Pending;
                }
            }
            // Cleared before the operation: later readiness is reported again.
            side.is_ready.store(false, SeqCst);
            match operation(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(done) => {
                    if !is_end(&done) {
                        side.is_ready.store(true, SeqCst);
                    }
                    return Poll::Ready(Ok(done));
                }
                failed => return Poll::Ready(failed),
            }
        }
    }
}

impl Read for PolledStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // Reads through a buffer on the stack: hyper's buffer is not initialised.
        let mut bytes = [0; 8192];
        let most = bytes.len().min(buffer.remaining());
        let read = |mut stream: &TcpStream| stream.read(&mut bytes[..most]);
        self.poll(|socket| &socket.to_read, context, read, |length| (1..most).contains(length))
            .map_ok(|length| buffer.put_slice(&bytes[..length]))
    }
}

impl Write for PolledStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = |mut stream: &TcpStream| stream.write(bytes);
        self.poll(|socket| &socket.to_write, context, write, |length| *length < bytes.len())
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(std::net::Shutdown::Write))
    }
}

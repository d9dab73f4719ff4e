//! Block I/O: devices, a queue to one for each thread, requests with a callback.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coreshard::block::{
    Backend, Buffer, Completed, Device, File, FileOptions, HostAdapter, HostOptions, Memory,
    OpenError, Payload, Queue, QueueOptions, Request, Target, node_of_file,
};
use coreshard::{NodeId, ProcessGeneration};

use crate::check;
use crate::error::{Failure, Outcome, guard, guard_pointer};
use crate::given::{free, given, number, taken};

/// A file, a block device, or memory that is as one. Made by `cs_block_open` or `cs_block_memory`.
pub struct CsBlockDevice {
    device: Arc<Device>,
    made_in: ProcessGeneration,
}

/// One thread's queue to a device: all calls with it are that thread's. A callback may make any of them, closing included.
pub struct CsBlockQueue {
    inner: Rc<Inner>,
}

/// A call of C's borrows the queue, and lets go of it before callbacks are called, which may call with it, too. Whoever calls
/// them has this, so that it is there when one of them has closed the queue.
struct Inner {
    /// None once it is closed.
    queue: RefCell<Option<Queue>>,
    over: Over,
}

/// Requests that are over and not told of.
type Over = Rc<RefCell<VecDeque<Told>>>;

/// What a callback is told.
struct Told {
    done: unsafe extern "C" fn(*mut CsBlockBuffer, i64, *mut c_void),
    buffer: *mut CsBlockBuffer,
    result: i64,
    argument: *mut c_void,
}

impl Inner {
    /// Calls with the queue; then the callbacks of what is over. How many were called, and what `call` says.
    fn with<R>(self: Rc<Self>, call: impl FnOnce(&mut Queue) -> R) -> Outcome<(c_int, R)> {
        let result = match self.queue.borrow_mut().as_mut() {
            Some(queue) => call(queue),
            None => return Err(Failure::invalid("the block queue is closed")),
        };
        Ok((self.tell(), result))
    }

    fn tell(&self) -> c_int {
        let mut told = 0;
        // Not for long: what a callback does may put more there, or tell of some.
        while let Some(next) = { self.over.borrow_mut().pop_front() } {
            // SAFETY: by the header's contract.
            unsafe { (next.done)(next.buffer, next.result, next.argument) };
            told += 1;
        }
        told
    }
}

/// Bytes that a request reads or writes: with whoever made it, but from a request's submission to its callback. It has no bytes while a
/// request has them.
pub struct CsBlockBuffer {
    buffer: Buffer,
}

/// Open it for writing, too.
pub const CS_BLOCK_WRITE: c_uint = 1 << 0;
/// Past the page cache (O_DIRECT).
pub const CS_BLOCK_DIRECT: c_uint = 1 << 1;

/// Told, on the queue's thread, inside of `cs_block_poll` or `cs_block_wait`, that a request is over: its buffer, which is the
/// caller's again (null for a flush); the bytes that were transferred, or a negative errno; and what was given beside it.
pub type CsBlockDone =
    Option<unsafe extern "C" fn(buffer: *mut CsBlockBuffer, result: i64, argument: *mut c_void)>;

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        use std::error::Error as _;
        let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        let errno = cause.and_then(std::io::Error::raw_os_error).unwrap_or(libc::EINVAL);
        Self::new(errno, error.to_string())
    }
}

fn open(
    backend: Arc<dyn Backend<coreshard::Host>>,
    options: HostOptions,
) -> Outcome<Box<CsBlockDevice>> {
    device_on(&HostAdapter::new(options)?.target("c"), backend)
}

/// A device of a target's.
pub(crate) fn device_on(
    target: &Arc<Target>,
    backend: Arc<dyn Backend<coreshard::Host>>,
) -> Outcome<Box<CsBlockDevice>> {
    let device = target.device(backend)?;
    Ok(Box::new(CsBlockDevice { device, made_in: ProcessGeneration::current() }))
}

/// A file as `cs_block_open` is told of it, and the node that it is at.
pub(crate) fn file(path: *const c_char, flags: c_uint) -> Outcome<(Arc<File>, Option<NodeId>)> {
    given(path, "path")?;
    // SAFETY: C says that it is a string.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let options = FileOptions {
        write: flags & CS_BLOCK_WRITE != 0,
        direct: flags & CS_BLOCK_DIRECT != 0,
        ..FileOptions::default()
    };
    Ok((Arc::new(File::open(path, options)?), node_of_file(path)))
}

/// So many bytes of memory.
pub(crate) fn memory(bytes: u64) -> Outcome<Arc<Memory>> {
    let memory = Memory::try_new(bytes)
        .map_err(|_| Failure::new(libc::ENOMEM, format!("a device in memory of {bytes} bytes")))?;
    Ok(Arc::new(memory))
}

/// Opens a regular file or a block device (`CS_BLOCK_…` or-ed), for so many threads, each with a queue: the one device of a host
/// of its own. Null, and errno, where it is not there, or cannot be opened so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_open(
    path: *const c_char,
    flags: c_uint,
    threads: c_uint,
) -> *mut CsBlockDevice {
    guard_pointer(|| {
        let (file, node) = file(path, flags)?;
        let threads = threads.max(1) as usize;
        open(file, HostOptions { node, threads, ..HostOptions::default() })
    })
}

/// A device of so many bytes of memory, zeros at first, for so many threads: the one device of a host of its own.
#[unsafe(no_mangle)]
pub extern "C" fn cs_block_memory(bytes: u64, threads: c_uint) -> *mut CsBlockDevice {
    guard_pointer(|| {
        let options = HostOptions { threads: threads.max(1) as usize, ..HostOptions::default() };
        open(memory(bytes)?, options)
    })
}

/// Lets go of a device; its queues go on until they are closed. Null is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_close(device: *mut CsBlockDevice) {
    free(device);
}

/// The calling thread's queue to a device; `thread` is its number, below the threads that it was opened for, each with one
/// queue. Null, and errno, where that thread has one, or the process was forked since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_queue(
    device: *mut CsBlockDevice,
    thread: c_uint,
) -> *mut CsBlockQueue {
    guard_pointer(|| {
        let device = given(device, "device")?;
        if !device.made_in.is_current() {
            return Err(Failure::new(
                libc::ECHILD,
                "this process was forked from the one that opened the device: open it anew here",
            ));
        }
        let queue = device.device.queue(thread as usize, QueueOptions::default())?;
        let inner = Inner { queue: RefCell::new(Some(queue)), over: Over::default() };
        Ok(Box::new(CsBlockQueue { inner: Rc::new(inner) }))
    })
}

/// Ends a queue, on its thread: what is outstanding is cancelled or finished, and its callbacks called. Null is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_queue_close(queue: *mut CsBlockQueue) {
    if queue.is_null() {
        return;
    }
    guard(|| {
        let CsBlockQueue { inner } = *taken(queue, "block queue")?;
        let ended = inner.queue.borrow_mut().take();
        drop(ended);
        Ok(inner.tell())
    });
}

/// Zeroed bytes, aligned to a page. Null, and errno, for none.
#[unsafe(no_mangle)]
pub extern "C" fn cs_block_buffer_alloc(bytes: usize) -> *mut CsBlockBuffer {
    guard_pointer(|| {
        if bytes == 0 {
            return Err(Failure::invalid("a buffer of 0 bytes was asked for; it has at least one"));
        }
        let buffer = Buffer::try_aligned(bytes)
            .ok_or_else(|| Failure::new(libc::ENOMEM, format!("a buffer of {bytes} bytes")))?;
        Ok(Box::new(CsBlockBuffer { buffer }))
    })
}

/// Frees a buffer that no request has. Null is fine. One that a request has is never freed: its callback is given it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_free(buffer: *mut CsBlockBuffer) {
    // SAFETY: C says that it is one, or null.
    match unsafe { buffer.as_ref() } {
        Some(buffer) if buffer.buffer.is_empty() => {
            if check::is_on() {
                check::found(
                    "a block buffer is freed while a request has it; free it in the request's callback, or after",
                );
            }
        }
        _ => free(buffer),
    }
}

/// Where a buffer's bytes are. Null while a request has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_data(buffer: *mut CsBlockBuffer) -> *mut c_void {
    // SAFETY: C says that it is one, or null.
    unsafe { buffer.as_mut() }
        .filter(|buffer| !buffer.buffer.is_empty())
        .map_or(std::ptr::null_mut(), |buffer| buffer.buffer.as_mut_ptr().cast())
}

/// How many bytes it has; 0 while a request has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_length(buffer: *const CsBlockBuffer) -> usize {
    // SAFETY: as above.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.buffer.len())
}

/// Reads into a whole buffer. Where the request is refused (a negative errno), the buffer stays the caller's, and the
/// callback is not called. -EBUSY where another request has the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_read(
    queue: *mut CsBlockQueue,
    offset: u64,
    buffer: *mut CsBlockBuffer,
    done: CsBlockDone,
    argument: *mut c_void,
) -> c_int {
    guard(|| submit(queue, Some(buffer), |buffer| Request::read(offset, buffer), done, argument))
}

/// Writes a whole buffer; otherwise as `cs_block_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_write(
    queue: *mut CsBlockQueue,
    offset: u64,
    buffer: *mut CsBlockBuffer,
    done: CsBlockDone,
    argument: *mut c_void,
) -> c_int {
    guard(|| submit(queue, Some(buffer), |buffer| Request::write(offset, buffer), done, argument))
}

/// Makes what was written before durable (fsync).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_flush(
    queue: *mut CsBlockQueue,
    done: CsBlockDone,
    argument: *mut c_void,
) -> c_int {
    guard(|| submit(queue, None, |_| Request::fsync(), done, argument))
}

fn submit(
    queue: *mut CsBlockQueue,
    buffer: Option<*mut CsBlockBuffer>,
    request: impl FnOnce(Buffer) -> Request,
    done: CsBlockDone,
    argument: *mut c_void,
) -> Outcome {
    let queue = queue_of(queue)?;
    let done = done.ok_or_else(|| Failure::invalid("the callback is a null pointer"))?;
    // The handle stays where it is; the bytes go to the device and come back.
    let handle = buffer.unwrap_or(std::ptr::null_mut());
    let bytes = match buffer {
        // SAFETY: C says that it is one, or null.
        Some(handle) => match unsafe { handle.as_mut() } {
            Some(handle) if handle.buffer.is_empty() => {
                let message = "another request has the buffer; wait for its callback";
                return Err(Failure::new(libc::EBUSY, message));
            }
            Some(handle) => std::mem::replace(&mut handle.buffer, Buffer::from(Vec::new())),
            None => return Err(Failure::invalid("the buffer is a null pointer")),
        },
        None => Buffer::from(Vec::new()),
    };
    let give_back = move |payload: Payload| {
        if let (false, Some(bytes)) = (handle.is_null(), payload.into_one()) {
            // SAFETY: it is freed by nobody while a request has it.
            unsafe { (*handle).buffer = bytes };
        }
    };
    let over = Rc::clone(&queue.over);
    let then = move |completed: Completed| {
        give_back(completed.payload);
        let result = match completed.result {
            Ok(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            Err(error) => -i64::from(error.errno()),
        };
        over.borrow_mut().push_back(Told { done, buffer: handle, result, argument });
    };
    let called = match queue.queue.borrow_mut().as_mut() {
        Some(queue) => queue.call(request(bytes), then),
        None => return Err(Failure::invalid("the block queue is closed")),
    };
    match called {
        Ok(_) => Ok(0),
        Err(refused) => {
            let error = refused.error();
            let failure = Failure::new(error.errno(), error.to_string());
            give_back(refused.into_request().into_payload());
            Err(failure)
        }
    }
}

fn queue_of(queue: *mut CsBlockQueue) -> Outcome<Rc<Inner>> {
    Ok(Rc::clone(&given(queue, "block queue")?.inner))
}

/// Looks what is over, and calls its callbacks: how many there were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_poll(queue: *mut CsBlockQueue) -> c_int {
    guard(|| Ok(queue_of(queue)?.with(Queue::poll)?.0))
}

/// As `cs_block_poll`, but sleeps until a request is over, or for so many nanoseconds (`UINT64_MAX` for no limit). Returns at
/// once where nothing is outstanding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_wait(queue: *mut CsBlockQueue, timeout_ns: u64) -> c_int {
    guard(|| {
        let timeout = (timeout_ns != u64::MAX).then(|| Duration::from_nanos(timeout_ns));
        let queue = queue_of(queue)?;
        // Nobody sleeps while something is to be told.
        let is_over = !queue.over.borrow().is_empty();
        let wait = |queue: &mut Queue| if is_over { queue.poll() } else { queue.wait(timeout) };
        Ok(queue.with(wait)?.0)
    })
}

/// How many requests are outstanding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_outstanding(queue: *mut CsBlockQueue) -> c_int {
    guard(|| {
        let queue = queue_of(queue)?;
        // Those that are over, and whose callbacks are still to be called, are with them.
        let untold = queue.over.borrow().len();
        let outstanding = queue.queue.borrow().as_ref().map_or(0, Queue::outstanding);
        Ok(number(outstanding + untold))
    })
}

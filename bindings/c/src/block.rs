//! Block I/O: devices, one queue per thread, and requests with a callback.

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

/// A file, a block device, or memory used as a device. Made by `cs_block_open` or `cs_block_memory`.
pub struct CsBlockDevice {
    device: Arc<Device>,
    made_in: ProcessGeneration,
}

/// A thread's queue to a device. Only that thread may use it. A callback may make any calls with it, including closing.
pub struct CsBlockQueue {
    inner: Rc<Inner>,
}

/// A call from C borrows the queue and releases it before callbacks are called, which may use the queue themselves. The
/// caller of callbacks holds this value, so that it exists if one of them closes the queue.
struct Inner {
    /// `None` once it is closed.
    queue: RefCell<Option<Queue>>,
    over: Over,
}

/// Completed requests whose callbacks have not been called.
type Over = Rc<RefCell<VecDeque<Told>>>;

/// The arguments of a callback.
struct Told {
    done: unsafe extern "C" fn(*mut CsBlockBuffer, i64, *mut c_void),
    buffer: *mut CsBlockBuffer,
    result: i64,
    argument: *mut c_void,
}

impl Inner {
    /// Calls `call` with the queue, then the callbacks of completed requests. Returns their number and the result of
    /// `call`.
    fn with<R>(self: Rc<Self>, call: impl FnOnce(&mut Queue) -> R) -> Outcome<(c_int, R)> {
        let result = match self.queue.borrow_mut().as_mut() {
            Some(queue) => call(queue),
            None => return Err(Failure::invalid("the block queue is closed")),
        };
        Ok((self.tell(), result))
    }

    fn tell(&self) -> c_int {
        let mut told = 0;
        // The borrow is short: a callback may add entries or run other callbacks.
        while let Some(next) = { self.over.borrow_mut().pop_front() } {
            // SAFETY: by the header's contract.
            unsafe { (next.done)(next.buffer, next.result, next.argument) };
            told += 1;
        }
        told
    }
}

/// A buffer of a request. It belongs to its creator, except from a request's submission to its callback, when it has no
/// bytes.
pub struct CsBlockBuffer {
    buffer: Buffer,
}

/// Open for reading and writing.
pub const CS_BLOCK_WRITE: c_uint = 1 << 0;
/// Bypass the page cache (O_DIRECT).
pub const CS_BLOCK_DIRECT: c_uint = 1 << 1;

/// Reports a completed request, on the queue's thread, inside `cs_block_poll` or `cs_block_wait`. Arguments: the
/// buffer, which belongs to the caller again (null for a flush); the bytes transferred, or a negative errno; the
/// argument of the request.
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

/// Creates a device of a target.
pub(crate) fn device_on(
    target: &Arc<Target>,
    backend: Arc<dyn Backend<coreshard::Host>>,
) -> Outcome<Box<CsBlockDevice>> {
    let device = target.device(backend)?;
    Ok(Box::new(CsBlockDevice { device, made_in: ProcessGeneration::current() }))
}

/// Opens a file for `cs_block_open`, and finds its node.
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

/// Allocates a device in memory.
pub(crate) fn memory(bytes: u64) -> Outcome<Arc<Memory>> {
    let memory = Memory::try_new(bytes).map_err(|_| {
        Failure::new(libc::ENOMEM, format!("cannot allocate a device of {bytes} bytes"))
    })?;
    Ok(Arc::new(memory))
}

/// Opens a regular file or a block device (flags `CS_BLOCK_…`) for `threads` threads, each with a queue. It is the only
/// device of a new host. Returns null, and sets errno, if it does not exist or cannot be opened with these flags.
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

/// Creates a device of zeroed memory for `threads` threads. It is the only device of a new host.
#[unsafe(no_mangle)]
pub extern "C" fn cs_block_memory(bytes: u64, threads: c_uint) -> *mut CsBlockDevice {
    guard_pointer(|| {
        let options = HostOptions { threads: threads.max(1) as usize, ..HostOptions::default() };
        open(memory(bytes)?, options)
    })
}

/// Closes a device. Its queues remain usable until they are closed. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_close(device: *mut CsBlockDevice) {
    free(device);
}

/// Returns the calling thread's queue to a device. `thread` is its number, below the number of threads of the device,
/// each with one queue. Returns null, and sets errno, if that thread has a queue, or after a fork.
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
                "this process was forked from the one that opened the device: open it again here",
            ));
        }
        let queue = device.device.queue(thread as usize, QueueOptions::default())?;
        let inner = Inner { queue: RefCell::new(Some(queue)), over: Over::default() };
        Ok(Box::new(CsBlockQueue { inner: Rc::new(inner) }))
    })
}

/// Closes a queue, on its thread: outstanding requests are cancelled or finished, and their callbacks called. Null is
/// allowed.
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

/// Allocates zeroed bytes, aligned to a page. Returns null, and sets errno, for 0 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn cs_block_buffer_alloc(bytes: usize) -> *mut CsBlockBuffer {
    guard_pointer(|| {
        if bytes == 0 {
            return Err(Failure::invalid("invalid buffer size 0: expected at least 1 byte"));
        }
        let buffer = Buffer::try_aligned(bytes).ok_or_else(|| {
            Failure::new(libc::ENOMEM, format!("cannot allocate a buffer of {bytes} bytes"))
        })?;
        Ok(Box::new(CsBlockBuffer { buffer }))
    })
}

/// Frees a buffer that no request has. Null is allowed. A buffer in a request is not freed: its callback receives it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_free(buffer: *mut CsBlockBuffer) {
    // SAFETY: C says that it is one, or null.
    match unsafe { buffer.as_ref() } {
        Some(buffer) if buffer.buffer.is_empty() => {
            if check::is_on() {
                check::found(
                    "cannot free a block buffer while a request has it: free it in the request's callback, or later",
                );
            }
        }
        _ => free(buffer),
    }
}

/// Returns the address of a buffer's bytes. Null while a request has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_data(buffer: *mut CsBlockBuffer) -> *mut c_void {
    // SAFETY: C says that it is one, or null.
    unsafe { buffer.as_mut() }
        .filter(|buffer| !buffer.buffer.is_empty())
        .map_or(std::ptr::null_mut(), |buffer| buffer.buffer.as_mut_ptr().cast())
}

/// Returns the size of a buffer in bytes; 0 while a request has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_length(buffer: *const CsBlockBuffer) -> usize {
    // SAFETY: as above.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.buffer.len())
}

/// Reads into a whole buffer. If the request is rejected (a negative errno), the buffer remains the caller's, and the
/// callback is not called. Fails with -EBUSY if another request has the buffer.
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

/// Writes a whole buffer. Otherwise as `cs_block_read`.
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

/// Makes earlier writes durable (fsync).
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
    // The handle stays in place. The bytes go to the device and return.
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
            // SAFETY: it is not freed while a request has it.
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

/// Calls the callbacks of completed requests. Returns their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_poll(queue: *mut CsBlockQueue) -> c_int {
    guard(|| Ok(queue_of(queue)?.with(Queue::poll)?.0))
}

/// As `cs_block_poll`, but blocks until a request completes, or for `timeout_ns` nanoseconds (`UINT64_MAX` for no
/// limit). Returns at once if no request is outstanding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_wait(queue: *mut CsBlockQueue, timeout_ns: u64) -> c_int {
    guard(|| {
        let timeout = (timeout_ns != u64::MAX).then(|| Duration::from_nanos(timeout_ns));
        let queue = queue_of(queue)?;
        // Do not block while callbacks are pending.
        let is_over = !queue.over.borrow().is_empty();
        let wait = |queue: &mut Queue| if is_over { queue.poll() } else { queue.wait(timeout) };
        Ok(queue.with(wait)?.0)
    })
}

/// Returns the number of outstanding requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_outstanding(queue: *mut CsBlockQueue) -> c_int {
    guard(|| {
        let queue = queue_of(queue)?;
        // Completed requests whose callbacks have not been called count as outstanding.
        let untold = queue.over.borrow().len();
        let outstanding = queue.queue.borrow().as_ref().map_or(0, Queue::outstanding);
        Ok(number(outstanding + untold))
    })
}

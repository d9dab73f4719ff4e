//! Block I/O: devices, a queue to one for each thread, requests with a callback.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coreshard::ProcessGeneration;
use coreshard::block::{
    Backend, Buffer, Completed, Device, File, FileOptions, HostAdapter, HostOptions, Memory,
    OpenError, Payload, Queue, QueueOptions, Request, node_of_file,
};

use crate::error::{Failure, Outcome, guard, guard_pointer};

/// A file, a block device, or memory that is as one. Made by `cs_block_open` or `cs_block_memory`.
pub struct CsBlockDevice {
    device: Arc<Device>,
    made_in: ProcessGeneration,
}

/// One thread's queue to a device: all calls with it are that thread's.
pub struct CsBlockQueue {
    queue: Queue,
}

/// Bytes that a request reads or writes: with whoever made it, but from a request's submission to its callback.
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
    let host = HostAdapter::new(options)?;
    let device = host.target("c").device(backend)?;
    Ok(Box::new(CsBlockDevice { device, made_in: ProcessGeneration::current() }))
}

/// Opens a regular file or a block device (`CS_BLOCK_…` or-ed), for so many threads, each with a queue. Null, and errno, where
/// it is not there, or cannot be opened so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_open(
    path: *const c_char,
    flags: c_uint,
    threads: c_uint,
) -> *mut CsBlockDevice {
    guard_pointer(|| {
        if path.is_null() {
            return Err(Failure::invalid("the path is a null pointer"));
        }
        // SAFETY: C says that it is a string.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
        let file = FileOptions {
            write: flags & CS_BLOCK_WRITE != 0,
            direct: flags & CS_BLOCK_DIRECT != 0,
            ..FileOptions::default()
        };
        let file = File::open(path, file)?;
        let node = node_of_file(path);
        let threads = threads.max(1) as usize;
        open(Arc::new(file), HostOptions { node, threads, ..HostOptions::default() })
    })
}

/// A device of so many bytes of memory, zeros at first, for so many threads.
#[unsafe(no_mangle)]
pub extern "C" fn cs_block_memory(bytes: u64, threads: c_uint) -> *mut CsBlockDevice {
    guard_pointer(|| {
        let options = HostOptions { threads: threads.max(1) as usize, ..HostOptions::default() };
        let memory = Memory::try_new(bytes).map_err(|_| {
            Failure::new(libc::ENOMEM, format!("a device in memory of {bytes} bytes"))
        })?;
        open(Arc::new(memory), options)
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
        // SAFETY: C says that it is one, or null.
        let device = unsafe { device.as_ref() }
            .ok_or_else(|| Failure::invalid("the device is a null pointer"))?;
        if !device.made_in.is_current() {
            return Err(Failure::new(
                libc::ECHILD,
                "this process was forked from the one that opened the device: open it anew here",
            ));
        }
        let queue = device.device.queue(thread as usize, QueueOptions::default())?;
        Ok(Box::new(CsBlockQueue { queue }))
    })
}

/// Ends a queue, on its thread: what is outstanding is cancelled or finished, and its callbacks called. Null is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_queue_close(queue: *mut CsBlockQueue) {
    free(queue);
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

/// Frees a buffer that no request has. Null is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_free(buffer: *mut CsBlockBuffer) {
    free(buffer);
}

/// Where a buffer's bytes are. Not to be looked at while a request has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_data(buffer: *mut CsBlockBuffer) -> *mut c_void {
    // SAFETY: C says that it is one, or null.
    unsafe { buffer.as_mut() }
        .map_or(std::ptr::null_mut(), |buffer| buffer.buffer.as_mut_ptr().cast())
}

/// How many bytes it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_buffer_length(buffer: *const CsBlockBuffer) -> usize {
    // SAFETY: as above.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.buffer.len())
}

fn free<T>(given: *mut T) {
    if !given.is_null() {
        guard(|| {
            // SAFETY: made by `Box::into_raw`, and C says that it is used no more.
            drop(unsafe { Box::from_raw(given) });
            Ok(0)
        });
    }
}

/// Reads into a whole buffer. Where the request is refused (a negative errno), the buffer stays the caller's, and the
/// callback is not called.
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
        // SAFETY: C says that it is one, or null, and that nobody else has it.
        Some(handle) => match unsafe { handle.as_mut() } {
            Some(handle) => std::mem::replace(&mut handle.buffer, Buffer::from(Vec::new())),
            None => return Err(Failure::invalid("the buffer is a null pointer")),
        },
        None => Buffer::from(Vec::new()),
    };
    let give_back = move |payload: Payload| {
        if let (false, Some(bytes)) = (handle.is_null(), payload.into_one()) {
            // SAFETY: as above: it stays until its callback.
            unsafe { (*handle).buffer = bytes };
        }
    };
    let then = move |completed: Completed| {
        give_back(completed.payload);
        let result = match completed.result {
            Ok(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            Err(error) => -i64::from(error.errno()),
        };
        // SAFETY: by the header's contract.
        unsafe { done(handle, result, argument) };
    };
    match queue.call(request(bytes), then) {
        Ok(_) => Ok(0),
        Err(refused) => {
            let error = refused.error();
            let failure = Failure::new(error.errno(), error.to_string());
            give_back(refused.into_request().into_payload());
            Err(failure)
        }
    }
}

fn queue_of<'call>(queue: *mut CsBlockQueue) -> Outcome<&'call mut Queue> {
    // SAFETY: C says that it is one, or null, and this thread's.
    let queue = unsafe { queue.as_mut() };
    queue
        .map(|queue| &mut queue.queue)
        .ok_or_else(|| Failure::invalid("the block queue is a null pointer"))
}

/// Looks what is over, and calls its callbacks: how many there were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_poll(queue: *mut CsBlockQueue) -> c_int {
    guard(|| Ok(c_int::try_from(queue_of(queue)?.poll()).unwrap_or(c_int::MAX)))
}

/// As `cs_block_poll`, but sleeps until a request is over, or for so many nanoseconds (`UINT64_MAX` for no limit). Returns at
/// once where nothing is outstanding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_wait(queue: *mut CsBlockQueue, timeout_ns: u64) -> c_int {
    guard(|| {
        let timeout = (timeout_ns != u64::MAX).then(|| Duration::from_nanos(timeout_ns));
        Ok(c_int::try_from(queue_of(queue)?.wait(timeout)).unwrap_or(c_int::MAX))
    })
}

/// How many requests are outstanding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_block_outstanding(queue: *mut CsBlockQueue) -> c_int {
    guard(|| Ok(c_int::try_from(queue_of(queue)?.outstanding()).unwrap_or(c_int::MAX)))
}

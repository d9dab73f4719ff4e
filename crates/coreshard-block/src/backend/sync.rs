//! One system call per command, on the calling thread. Used for files whose reads never wait, and by the
//! thread pool.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use coreshard_platform::Platform;

use super::channel::{Channel, Command, Data};
use super::immediate::ImmediateChannel;
use crate::request::Op;

/// Executes the command on the calling thread. Returns the number of bytes, or the negative errno.
pub(super) fn perform(fd: RawFd, command: &Command) -> i32 {
    let offset = command.offset as libc::off_t;
    let bytes = command.bytes as libc::off_t;
    // SAFETY: by the contract of `Channel::start` the memory is valid until the completion. The descriptor is
    // open, since the caller holds its owner.
    let result = unsafe {
        match (command.op, command.data) {
            (Op::Read, Data::One { start, bytes, .. }) => {
                libc::pread(fd, start.cast(), bytes, offset)
            }
            (Op::Write, Data::One { start, bytes, .. }) => {
                libc::pwrite(fd, start.cast(), bytes, offset)
            }
            (Op::Read, Data::Many { pieces, count }) => {
                libc::preadv(fd, pieces, count as i32, offset)
            }
            (Op::Write, Data::Many { pieces, count }) => {
                libc::pwritev(fd, pieces, count as i32, offset)
            }
            (Op::Read | Op::Write, Data::None) => 0,
            // fallocate(2) refuses a length of 0; here it succeeds without effect, as an empty read does.
            (Op::Discard | Op::WriteZeroes, _) if command.bytes == 0 => 0,
            (Op::Fsync, _) => libc::fsync(fd) as isize,
            (Op::FsyncData, _) => libc::fdatasync(fd) as isize,
            (Op::Discard | Op::WriteZeroes, _) => {
                libc::fallocate(fd, fallocate_mode(command.op), offset, bytes) as isize
            }
        }
    };
    if result >= 0 {
        return i32::try_from(result).unwrap_or(i32::MAX);
    }
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Returns the mode for fallocate(2). Both modes keep the size.
pub(super) fn fallocate_mode(op: Op) -> i32 {
    match op {
        Op::Discard => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
        _ => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
    }
}

/// Creates the channel of a file; `why` is a part of its description.
pub(super) fn channel<P: Platform>(
    file: Arc<OwnedFd>,
    depth: u32,
    why: &str,
) -> impl Channel + use<P> {
    ImmediateChannel::<P, _>::new(format!("sync{why}"), depth, move |command: &Command| {
        perform(file.as_raw_fd(), command)
    })
}

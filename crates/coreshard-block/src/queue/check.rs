//! Checks that a device can execute a request.

use coreshard_platform::Platform;

use crate::backend::Geometry;
use crate::buffer::Buffer;
use crate::host::Device;
use crate::request::{MAX_BUFFERS, MAX_BYTES, Op, Payload, Request, Unfit};

/// Checks whether the request can succeed.
// Always inlined, as `Queue::submit`: another call costs 15 instructions per request.
#[inline(always)]
pub(super) fn check<P: Platform>(device: &Device<P>, request: &Request) -> Result<(), Unfit> {
    let geometry = device.geometry();
    let end = request.offset.checked_add(request.bytes as u64);
    let fits = device.is_online()
        && end.is_some_and(|end| end <= geometry.bytes)
        && (request.op == Op::Read || geometry.writable)
        && is_aligned(request.offset | request.bytes as u64, geometry.block_bytes)
        && (geometry.memory_align <= 1 || memory_is_aligned(request, geometry.memory_align))
        && request.bytes <= MAX_BYTES
        && !matches!(&request.payload, Payload::Many(buffers) if buffers.len() > MAX_BUFFERS);
    if fits { Ok(()) } else { check_again(device, request) }
}

/// The same, including the rare cases: the end of a file, and long requests that move no data.
#[cold]
#[inline(never)]
fn check_again<P: Platform>(device: &Device<P>, request: &Request) -> Result<(), Unfit> {
    let Geometry { bytes, block_bytes, memory_align, writable } = device.geometry();
    let op = request.op;
    // Bytes after a file's last whole block can be read, but only as a whole block.
    let whole = bytes.checked_next_multiple_of(u64::from(block_bytes.max(1)));
    let end = if op == Op::Read { whole.unwrap_or(bytes) } else { bytes };
    if !device.is_online() {
        return Err(if device.is_forked() { Unfit::Forked } else { Unfit::Offline });
    }
    if request.offset.checked_add(request.bytes as u64).is_none_or(|it| it > end) {
        return Err(Unfit::PastEnd { end });
    }
    if op != Op::Read && !writable {
        return Err(Unfit::ReadOnly);
    }
    if !is_aligned(request.offset | request.bytes as u64, block_bytes)
        || memory_align > 1 && !memory_is_aligned(request, memory_align)
    {
        return Err(Unfit::Unaligned { block_bytes, memory_align });
    }
    if request.bytes > MAX_BYTES && matches!(op, Op::Read | Op::Write) {
        return Err(Unfit::TooLong);
    }
    match &request.payload {
        Payload::Many(buffers) if buffers.len() > MAX_BUFFERS => {
            Err(Unfit::TooManyBuffers { given: buffers.len() })
        }
        _ => Ok(()),
    }
}

fn is_aligned(number: u64, to: u32) -> bool {
    to <= 1 || number.is_multiple_of(u64::from(to))
}

fn memory_is_aligned(request: &Request, to: u32) -> bool {
    let aligned = |buffer: &Buffer| buffer.start().addr().is_multiple_of(to as usize);
    match &request.payload {
        Payload::None => true,
        Payload::One(buffer) => aligned(buffer),
        Payload::Many(buffers) => buffers.iter().all(aligned),
    }
}

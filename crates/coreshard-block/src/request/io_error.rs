//! What goes wrong with requests, and what may be done about it.

use std::fmt;
use std::io;

use super::error_class::ErrorClass;
use super::op::Op;
use super::unfit::Unfit;

/// How a request failed. Its text names the device, the request, the kernel's reason, and what became of the device.
pub struct IoError {
    // Small where all goes well.
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: String,
    op: Op,
    offset: u64,
    bytes: usize,
    /// Of a write: what is known to have reached the device all the same.
    transferred: usize,
    class: ErrorClass,
    errno: i32,
    attempts: u32,
    /// Of a request that no device was asked for.
    unfit: Option<Unfit>,
}

impl IoError {
    #[expect(clippy::too_many_arguments, reason = "an error's text names them all")]
    pub(crate) fn new(
        device: &str,
        op: Op,
        offset: u64,
        bytes: usize,
        transferred: usize,
        class: ErrorClass,
        errno: i32,
        attempts: u32,
    ) -> Self {
        let device = device.to_owned();
        let unfit = None;
        let inner = Inner { device, op, offset, bytes, transferred, class, errno, attempts, unfit };
        Self { inner: Box::new(inner) }
    }

    /// Of a request that can never succeed as it is.
    pub(crate) fn unfit(device: &str, op: Op, offset: u64, bytes: usize, unfit: Unfit) -> Self {
        let mut error = Self::new(device, op, offset, bytes, 0, unfit.class(), unfit.errno(), 0);
        error.inner.unfit = Some(unfit);
        error
    }

    /// What it says of the next try.
    pub fn class(&self) -> ErrorClass {
        self.inner.class
    }

    /// The kernel's number for it.
    pub fn errno(&self) -> i32 {
        self.inner.errno
    }

    /// Bytes from the request's start that were transferred all the same. A write that failed in
    /// the middle is torn: it is never reported as done.
    pub fn transferred(&self) -> usize {
        self.inner.transferred
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { device, op, offset, bytes, transferred, class, errno, attempts, unfit } =
            &*self.inner;
        write!(f, "{device}: {op} of {bytes} bytes at {offset} failed ({class}")?;
        if let Some(unfit) = unfit {
            return write!(f, "): {unfit}");
        }
        if *attempts > 1 {
            write!(f, ", {attempts} attempts")?;
        }
        write!(f, "): {}", io::Error::from_raw_os_error(*errno))?;
        if *transferred > 0 {
            write!(f, "; {transferred} bytes were transferred before that")?;
        }
        match (*class, *errno) {
            // See `Queue::give_up`.
            (ErrorClass::Gone, libc::ETIMEDOUT) => f.write_str(
                "; the device never answered: it keeps the request's buffers for good, and is offline \
                 from here on",
            ),
            (ErrorClass::Gone, _) => f.write_str("; the device is offline from here on"),
            _ => Ok(()),
        }
    }
}

coreshard_topology::readable_debug!(IoError);

impl std::error::Error for IoError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_device_and_the_request() {
        let text = |class, errno, moved| {
            IoError::new("/mnt/f", Op::Write, 4096, 8192, moved, class, errno, 1).to_string()
        };
        let full = text(ErrorClass::of_errno(libc::ENOSPC), libc::ENOSPC, 512);
        assert!(
            full.starts_with("/mnt/f: write of 8192 bytes at 4096 failed (invalid): "),
            "{full}"
        );
        assert!(full.contains("512 bytes were transferred before that"), "{full}");
        let plain = text(ErrorClass::of_errno(libc::EINVAL), libc::EINVAL, 0);
        let said = std::io::Error::from_raw_os_error(libc::EINVAL).to_string();
        assert!(plain.ends_with(&said), "an errno has several causes: {plain}");
        let gone = text(ErrorClass::of_errno(libc::ENODEV), libc::ENODEV, 0);
        assert!(gone.contains("(gone)") && gone.ends_with("offline from here on"), "{gone}");
    }
}

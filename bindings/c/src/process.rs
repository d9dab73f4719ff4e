//! The process's runtime: what it is to be, what goes wrong in it, and its insight socket.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coreshard::insight::InsightServer;
use coreshard::{Diagnostic, PerProcess, RuntimeBuilder};

use crate::error::{Failure, guard};
use crate::given::sized;

/// What kind of trouble.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsTrouble {
    /// A work used a CPU for long while others waited.
    CpuHog = 1,
    /// A pool has works that wait, and begins none.
    Stall = 2,
    /// A pool needs one more worker and cannot have it.
    NoWorker = 3,
    /// A pool's books do not agree with one another: a bug of Coreshard's.
    Bug = 4,
    /// Something that this version's header does not name.
    Other = 5,
}

/// Told of trouble: what kind (`enum cs_trouble`), a sentence that is there during the call, and what was given beside it.
/// It is called on a thread of the library's, which is to have it back soon.
pub type CsTroubleFunction =
    Option<unsafe extern "C" fn(kind: c_int, sentence: *const c_char, argument: *mut c_void)>;

/// What the process's runtime is to be; zeros are the defaults. Begin with `CS_CONFIG_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CsConfig {
    /// `sizeof(struct cs_config)`.
    pub size: usize,
    /// How many workers run at once in the pools of one set of attributes; 0 for one a CPU.
    pub workers: c_uint,
    /// How many workers there are at most, blocked ones too; 0 for the default.
    pub max_workers: c_uint,
    /// CPU time after which a work is a hog, in nanoseconds; 0 for the default.
    pub cpu_intensive_ns: u64,
    /// After so long without a begun work a pool that has some is stalled, in nanoseconds; 0 for the default.
    pub stall_after_ns: u64,
    /// How long a worker sleeps before it ends, in nanoseconds; 0 for the default.
    pub idle_timeout_ns: u64,
    /// Told of trouble; may be null.
    pub on_trouble: CsTroubleFunction,
    /// Given to it.
    pub trouble_argument: *mut c_void,
}

// SAFETY: C says that the function may be called with its argument on any thread.
unsafe impl Send for CsConfig {}
// SAFETY: as above.
unsafe impl Sync for CsConfig {}

impl CsConfig {
    fn apply(&self, mut builder: RuntimeBuilder) -> RuntimeBuilder {
        let given = *self;
        if given.workers != 0 {
            builder = builder.workers(given.workers as usize);
        }
        if given.max_workers != 0 {
            builder = builder.max_workers(given.max_workers as usize);
        }
        if given.cpu_intensive_ns != 0 {
            builder = builder.cpu_intensive_threshold(Duration::from_nanos(given.cpu_intensive_ns));
        }
        if given.stall_after_ns != 0 {
            builder = builder.stall_after(Duration::from_nanos(given.stall_after_ns));
        }
        if given.idle_timeout_ns != 0 {
            builder = builder.idle_timeout(Duration::from_nanos(given.idle_timeout_ns));
        }
        if given.on_trouble.is_some() {
            builder = builder.on_diagnostic(move |trouble| given.tell(trouble));
        }
        builder
    }

    fn tell(&self, trouble: &Diagnostic) {
        let Some(function) = self.on_trouble else { return };
        let kind = match trouble {
            Diagnostic::CpuHog(_) => CsTrouble::CpuHog,
            Diagnostic::Stall(_) => CsTrouble::Stall,
            Diagnostic::NoWorker(_) => CsTrouble::NoWorker,
            Diagnostic::Bug(_) => CsTrouble::Bug,
            _ => CsTrouble::Other,
        };
        let sentence = CString::new(trouble.to_string().replace('\0', " ")).unwrap_or_default();
        // SAFETY: by the header's contract.
        unsafe { function(kind as c_int, sentence.as_ptr(), self.trouble_argument) };
    }
}

/// Says what the process's runtime is to be, before the first queue is made; -EEXIST after that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_configure(config: *const CsConfig) -> c_int {
    guard(|| {
        // SAFETY: all zeros are the defaults, and numbers and addresses may be any.
        let given = unsafe { sized(config, "the configuration has", "it with CS_CONFIG_INIT") }?;
        coreshard::configure(move |builder| CsConfig::apply(&given, builder))
            .map_err(|error| Failure::new(libc::EEXIST, error.to_string()))?;
        Ok(0)
    })
}

static INSIGHT: PerProcess<Mutex<Option<InsightServer>>> = PerProcess::new();

/// Serves the socket at which `coreshard top` sees this process's queues and pools; 1 if it is served already.
#[unsafe(no_mangle)]
pub extern "C" fn cs_serve_insight() -> c_int {
    guard(|| {
        let mut server = INSIGHT.here().lock().unwrap_or_else(PoisonError::into_inner);
        if server.is_some() {
            return Ok(1);
        }
        let served = coreshard::serve_insight();
        *server = Some(served.map_err(|error| Failure::new(libc::EIO, error.to_string()))?);
        Ok(0)
    })
}

/// Serves it no more; 1 if it was not served.
#[unsafe(no_mangle)]
pub extern "C" fn cs_stop_insight() -> c_int {
    guard(|| {
        let server = INSIGHT.here().lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(server.is_none().into())
    })
}

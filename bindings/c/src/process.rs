//! The process's runtime: configuration, diagnostics, and the insight socket.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coreshard::insight::InsightServer;
use coreshard::{Diagnostic, PerProcess, RuntimeBuilder};

use crate::error::{Failure, guard};
use crate::given::sized;

/// The kind of diagnostic.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsTrouble {
    /// A work used a CPU for long while others waited.
    CpuHog = 1,
    /// A pool has waiting works and starts none.
    Stall = 2,
    /// A pool needs another worker and cannot start it.
    NoWorker = 3,
    /// The state of a pool is inconsistent: a bug in Coreshard.
    Bug = 4,
    /// A kind unknown to this version of the header.
    Other = 5,
}

/// Receives a diagnostic: its kind (`enum cs_trouble`), a message valid during the call, and the configured argument.
/// It is called on a thread of the library and must return soon.
pub type CsTroubleFunction =
    Option<unsafe extern "C" fn(kind: c_int, sentence: *const c_char, argument: *mut c_void)>;

/// The configuration of the process's runtime; zeros are the defaults. Initialize it with `CS_CONFIG_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CsConfig {
    /// `sizeof(struct cs_config)`.
    pub size: usize,
    /// Running workers in the pools of one set of attributes; 0 for one per CPU.
    pub workers: c_uint,
    /// Maximum number of workers, including blocked ones; 0 for the default.
    pub max_workers: c_uint,
    /// CPU time after which a work is reported as a hog, in nanoseconds; 0 for the default.
    pub cpu_intensive_ns: u64,
    /// Time without a started work after which a pool with waiting works is reported as stalled, in nanoseconds; 0 for
    /// the default.
    pub stall_after_ns: u64,
    /// Time after which an idle worker exits, in nanoseconds; 0 for the default.
    pub idle_timeout_ns: u64,
    /// Receives diagnostics; may be null.
    pub on_trouble: CsTroubleFunction,
    /// The argument of `on_trouble`.
    pub trouble_argument: *mut c_void,
}

// SAFETY: C guarantees that the function may be called with its argument on any thread.
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

/// Configures the process's runtime, before the first queue is made; -EEXIST after that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cs_configure(config: *const CsConfig) -> c_int {
    guard(|| {
        // SAFETY: all zeros are the defaults, and any numbers and addresses are valid.
        let given = unsafe { sized(config, "the configuration has", "it with CS_CONFIG_INIT") }?;
        coreshard::configure(move |builder| CsConfig::apply(&given, builder))
            .map_err(|error| Failure::new(libc::EEXIST, error.to_string()))?;
        Ok(0)
    })
}

static INSIGHT: PerProcess<Mutex<Option<InsightServer>>> = PerProcess::new();

/// Serves the socket at which `coreshard top` sees this process's queues and pools. Returns 1 if it is already served.
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

/// Stops serving the socket. Returns 1 if it was not served.
#[unsafe(no_mangle)]
pub extern "C" fn cs_stop_insight() -> c_int {
    guard(|| {
        let server = INSIGHT.here().lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(server.is_none().into())
    })
}

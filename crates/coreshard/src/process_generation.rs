//! Identifies the process in which something was created.

use coreshard_platform::{Host, Platform as _};

/// Identifies one process in a chain of forks. Threads of objects from another process do not exist here, and locks may
/// be held forever. Use it in a library that keeps state for the whole process and whose users may fork. A runtime and
/// its queues check this themselves.
///
/// Forks are counted from the first runtime or the first call, in this process or the one it was forked from. The first
/// call registers a fork handler with the C library (`pthread_atfork`). Later calls load one word, and may be made in a
/// signal handler and between fork and exec.
///
/// A fork that races with the first call or the first runtime in another thread may be missed: the child then takes
/// itself for its parent. If threads may do both at once, make a call earlier, as a language binding does when it is
/// imported.
///
/// # Examples
/// ```
/// use coreshard::ProcessGeneration;
///
/// struct Cache {
///     queue: coreshard::Workqueue,
///     made_in: ProcessGeneration,
/// }
///
/// let queue = coreshard::workqueue()?.name("cache").build()?;
/// let cache = Cache { queue, made_in: ProcessGeneration::current() };
/// // In a forked child, `is_current` is false: create a queue there.
/// assert!(cache.made_in.is_current());
/// cache.queue.queue(|| println!("looked through"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessGeneration(u32);

impl ProcessGeneration {
    /// Returns the generation of the calling process.
    ///
    /// ```
    /// use coreshard::ProcessGeneration;
    ///
    /// assert_eq!(ProcessGeneration::current(), ProcessGeneration::current());
    /// ```
    #[inline(always)]
    pub fn current() -> Self {
        // Each simulated process has its own.
        #[cfg(feature = "testing")]
        if let Some(generation) = crate::test_machine::SimulatedProcess::generation() {
            return Self(generation);
        }
        Self(Host::process_generation())
    }

    /// Returns true in the process that made this value, and false in processes forked from it.
    ///
    /// ```
    /// assert!(coreshard::ProcessGeneration::current().is_current());
    /// ```
    #[inline(always)]
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Returns true if the process was forked from one that had a runtime or had called [`Self::current`].
    ///
    /// ```
    /// assert!(!coreshard::ProcessGeneration::current().is_forked());
    /// ```
    #[inline(always)]
    pub fn is_forked(self) -> bool {
        self.0 != 0
    }
}

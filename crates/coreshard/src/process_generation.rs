//! Which process something was made in.

use coreshard_platform::{Host, Platform as _};

/// One process of a line of forks: what was made in another one has its threads there, and whoever held its locks may be
/// there, too. For a library that keeps something for the whole process and whose users may fork; a runtime and its
/// queues know by themselves.
///
/// Forks are counted from where this process, or the one that it was forked from, had a runtime or asked first: before, there
/// was nothing to leave behind. The first call has the C library tell of forks (`pthread_atfork`); those after it load one word, and
/// may be made in a signal handler and between fork and exec.
///
/// A fork that one thread has begun is not told of where another one makes the first call, or the first runtime, meanwhile: the child then
/// takes itself for its parent. Where threads may do both at once, make a call before there are such, as a language's package does when it
/// is imported.
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
/// // In a child that this process forks, `is_current` is false: a queue of its own is to be made there.
/// assert!(cache.made_in.is_current());
/// cache.queue.queue(|| println!("looked through"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessGeneration(u32);

impl ProcessGeneration {
    /// That of the calling process.
    ///
    /// ```
    /// use coreshard::ProcessGeneration;
    ///
    /// assert_eq!(ProcessGeneration::current(), ProcessGeneration::current());
    /// ```
    #[inline(always)]
    pub fn current() -> Self {
        // Each simulated process is one of its own.
        #[cfg(feature = "testing")]
        if let Some(generation) = crate::test_machine::SimulatedProcess::generation() {
            return Self(generation);
        }
        Self(Host::process_generation())
    }

    /// Whether the calling process is this one. False in those that were forked from it.
    ///
    /// ```
    /// assert!(coreshard::ProcessGeneration::current().is_current());
    /// ```
    #[inline(always)]
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Whether it was forked from a process that had a runtime, or had asked.
    ///
    /// ```
    /// assert!(!coreshard::ProcessGeneration::current().is_forked());
    /// ```
    #[inline(always)]
    pub fn is_forked(self) -> bool {
        self.0 != 0
    }
}

//! A member's thread that the program starts.

use std::fmt;

use coreshard_platform::ThreadSpec;

/// A member's thread that the program must start, for [`TeamBuilder::build_on`](crate::TeamBuilder::build_on).
///
/// The team lacks the member until [`run`](Self::run) is called: work that is sent to all members waits for it. If this is
/// dropped, the member never starts.
#[must_use = "the team lacks a member until it runs"]
pub struct MemberThread {
    pub(super) index: usize,
    pub(super) has_name: bool,
    pub(super) spec: ThreadSpec,
    pub(super) body: Box<dyn FnOnce() + Send>,
}

impl MemberThread {
    /// Returns the member's index.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("own threads").members(2).build_on(&mut |member| {
    ///     let mut thread = std::thread::Builder::new().name(format!("member {}", member.index()));
    ///     if let Some(name) = member.name() {
    ///         thread = thread.name(name.to_owned());
    ///     }
    ///     if let Some(bytes) = member.stack_bytes() {
    ///         thread = thread.stack_size(bytes);
    ///     }
    ///     thread.spawn(|| member.run())?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(team.broadcast(|index| index), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the thread's name, if the builder sets one.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("own threads").members(2).build_on(&mut |member| {
    ///     let mut thread = std::thread::Builder::new().name(format!("member {}", member.index()));
    ///     if let Some(name) = member.name() {
    ///         thread = thread.name(name.to_owned());
    ///     }
    ///     if let Some(bytes) = member.stack_bytes() {
    ///         thread = thread.stack_size(bytes);
    ///     }
    ///     thread.spawn(|| member.run())?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(team.broadcast(|index| index), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.has_name.then_some(&*self.spec.name)
    }

    /// Returns the thread's stack size, if the builder sets one.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("own threads").members(2).build_on(&mut |member| {
    ///     let mut thread = std::thread::Builder::new().name(format!("member {}", member.index()));
    ///     if let Some(name) = member.name() {
    ///         thread = thread.name(name.to_owned());
    ///     }
    ///     if let Some(bytes) = member.stack_bytes() {
    ///         thread = thread.stack_size(bytes);
    ///     }
    ///     thread.spawn(|| member.run())?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(team.broadcast(|index| index), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stack_bytes(&self) -> Option<usize> {
        self.spec.stack_bytes
    }

    /// Runs the member on this thread, until the team ends. On a worker's thread, the worker counts as blocked until then, as
    /// in [`blocking`](crate::blocking).
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("own threads").members(2).build_on(&mut |member| {
    ///     let mut thread = std::thread::Builder::new().name(format!("member {}", member.index()));
    ///     if let Some(name) = member.name() {
    ///         thread = thread.name(name.to_owned());
    ///     }
    ///     if let Some(bytes) = member.stack_bytes() {
    ///         thread = thread.stack_size(bytes);
    ///     }
    ///     thread.spawn(|| member.run())?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(team.broadcast(|index| index), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(self) {
        (self.body)();
    }
}

impl fmt::Debug for MemberThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberThread").field("index", &self.index).finish_non_exhaustive()
    }
}

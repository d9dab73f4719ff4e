//! A member's thread, where the program starts it.

use std::fmt;

use coreshard_platform::ThreadSpec;

/// A member's thread that is to be started, by whoever makes the team ([`TeamBuilder::build_on`](crate::TeamBuilder::build_on)).
///
/// The team lacks the member until [`run`](Self::run) is called: what is sent to all waits for it. One that is dropped never
/// comes.
#[must_use = "the team lacks a member until it runs"]
pub struct MemberThread {
    pub(super) index: usize,
    pub(super) has_name: bool,
    pub(super) spec: ThreadSpec,
    pub(super) body: Box<dyn FnOnce() + Send>,
}

impl MemberThread {
    /// Which member it is.
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

    /// What it is to be called, where the builder says so.
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

    /// How large its stack is to be, where the builder says so.
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

    /// Is the member, on this thread, until the team ends. On a worker's thread the worker counts as blocked until then, as in
    /// [`blocking`](crate::blocking), and is what it was afterwards.
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

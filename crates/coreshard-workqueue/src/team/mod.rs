//! Teams: a fixed number of threads, each with an index of its own.

use std::any::Any;
use std::io;
use std::marker::PhantomData;

use coreshard_platform::Platform;
use coreshard_topology::Scope;

use crate::base::error::BuildError;
use crate::base::rungs::{Intake, Wake};
use crate::runtime::Runtime;

/// Makes a [`Team`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct TeamBuilder<'runtime, P: Platform> {
    runtime: &'runtime Runtime<P>,
}

impl<P: Platform> Runtime<P> {
    /// Makes a team on this runtime. The name is for reports.
    pub fn team(&self, name: impl Into<String>) -> TeamBuilder<'_, P> {
        let _ = name.into();
        TeamBuilder { runtime: self }
    }
}

impl<P: Platform> TeamBuilder<'_, P> {
    /// How many threads it has; 0 (the default) is as many as CPUs may be used.
    pub fn members(self, _members: usize) -> Self {
        self
    }
    /// What its threads are called, by index. `None` for none.
    pub fn thread_names(self, _name: impl FnMut(usize) -> Option<String> + 'static) -> Self {
        self
    }
    /// The size of its threads' stacks.
    pub fn stack_bytes(self, _bytes: usize) -> Self {
        self
    }
    /// Runs on each thread before all else, with its index. A panic goes to the panic handler.
    pub fn on_start(self, _hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self
    }
    /// Runs on each thread as it ends, with its index. A panic goes to the panic handler.
    pub fn on_exit(self, _hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self
    }
    /// Is given what detached work (`spawn`, `spawn_broadcast`) and hooks throw. Without one the process aborts.
    pub fn on_panic(self, _handler: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static) -> Self {
        self
    }
    /// Detached work and scopes' work of one thread runs in the order of its spawning, where `spawn` else runs the last first.
    pub fn breadth_first(self) -> Self {
        self
    }
    /// When a member that was chosen is woken.
    pub fn wake(self, _wake: Wake) -> Self {
        self
    }
    /// How work from outside enters.
    pub fn intake(self, _intake: Intake) -> Self {
        self
    }
    /// Who shares a pool.
    pub fn scope(self, _scope: Scope) -> Self {
        self
    }
    /// The wanted size of a cache shard, in cores.
    pub fn shard_size(self, _cores: usize) -> Self {
        self
    }
    /// The thread that calls `build` is the member with index 0: it does what the team has to do whenever it waits for
    /// some of it.
    pub fn with_current_thread(self) -> Self {
        self
    }
    /// Starts it.
    pub fn build(self) -> Result<Team<P>, TeamError> {
        let _ = self.runtime;
        todo!()
    }
    /// Starts it on threads of the caller's: `start` is called for each member, and is to see to it that
    /// [`MemberThread::run`] is called on a thread of its own. Not called after this returns.
    pub fn build_on(
        self,
        _start: &mut dyn FnMut(MemberThread<P>) -> io::Result<()>,
    ) -> Result<Team<P>, TeamError> {
        todo!()
    }
}

/// Why there is no team.
#[derive(Debug)]
pub enum TeamError {
    /// A thread could not be started: what the operating system, or who was to start it, said.
    Thread(io::Error),
    /// This thread is a member of a team already, or a worker of a queue.
    CurrentThreadTaken,
    /// What a queue cannot be made for, too.
    Build(BuildError),
}

/// A member's thread that is to be started.
pub struct MemberThread<P: Platform> {
    platform: PhantomData<P>,
}

impl<P: Platform> MemberThread<P> {
    /// Its index.
    pub fn index(&self) -> usize {
        todo!()
    }
    /// What it is to be called.
    pub fn name(&self) -> Option<&str> {
        todo!()
    }
    /// How large its stack is to be.
    pub fn stack_bytes(&self) -> Option<usize> {
        todo!()
    }
    /// Is a member, until the team ends.
    pub fn run(self) {
        todo!()
    }
}

/// A fixed number of threads, each with an index of its own.
///
/// Clones are handles to the same team. When the last is dropped, what was given to it is done, and then its
/// threads end; the drop does not wait for that.
pub struct Team<P: Platform> {
    platform: PhantomData<P>,
}

impl<P: Platform> Clone for Team<P> {
    fn clone(&self) -> Self {
        Self { platform: PhantomData }
    }
}

/// Whether there was something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yielded {
    /// Some work was run.
    Ran,
    /// There was none.
    Idle,
}

impl<P: Platform> Team<P> {
    /// The team that this thread is a member of. On a worker of an ordinary queue: that queue's workers, as far as
    /// they can be used as a team (no index, no broadcast).
    pub fn here() -> Option<Self> {
        todo!()
    }
    /// How many members it has.
    pub fn members(&self) -> usize {
        todo!()
    }
    /// This thread's index, if it is a member of this team.
    pub fn index(&self) -> Option<usize> {
        todo!()
    }
    /// Whether work waits on this thread's own list, or among its forked jobs; `None` where it is no member.
    pub fn has_pending(&self) -> Option<bool> {
        todo!()
    }
    /// Calls `op` on a member and waits for it; at once, where this thread is one.
    pub fn install<R: Send>(&self, _op: impl FnOnce() -> R + Send) -> R {
        todo!()
    }
    /// Runs `op` on a member some time: on a member's thread it is the next that this thread begins, if no other takes it.
    pub fn spawn(&self, _op: impl FnOnce() + Send + 'static) {
        todo!()
    }
    /// As `spawn`, in the order of such calls on this thread.
    pub fn spawn_fifo(&self, _op: impl FnOnce() + Send + 'static) {
        todo!()
    }
    /// Calls `op` once on each member, with its index, and waits for all; results by index.
    pub fn broadcast<R: Send>(&self, _op: impl Fn(usize) -> R + Sync) -> Vec<R> {
        todo!()
    }
    /// Calls `op` once on each member, with its index, some time.
    pub fn spawn_broadcast(&self, _op: impl Fn(usize) + Send + Sync + 'static) {
        todo!()
    }
    /// Runs one thing that waits, if there is one. `None` where this thread is no member.
    pub fn yield_now(&self) -> Option<Yielded> {
        todo!()
    }
    /// As `yield_now`, only what waits on this thread's own list.
    pub fn yield_local(&self) -> Option<Yielded> {
        todo!()
    }
    /// Calls `op` on a member (at once, where this thread is one) and waits for it and for all that is spawned in the scope.
    pub fn scope<'scope, R: Send>(
        &self,
        _op: impl FnOnce(&TeamScope<'scope, P>) -> R + Send,
    ) -> R {
        todo!()
    }
    /// Calls `op` here, whatever thread this is, and waits for all that is spawned in the scope, which members do.
    pub fn in_place_scope<'scope, R>(&self, _op: impl FnOnce(&TeamScope<'scope, P>) -> R) -> R {
        todo!()
    }
}

/// In which work is spawned that may borrow what is outside of it.
pub struct TeamScope<'scope, P: Platform> {
    marker: PhantomData<(P, Box<dyn FnOnce(&TeamScope<'scope, P>) + Send + Sync + 'scope>)>,
}

impl<'scope, P: Platform> TeamScope<'scope, P> {
    /// Runs `op` on a member some time, at the latest before the scope ends; on a thread the last that was spawned first.
    pub fn spawn(&self, _op: impl FnOnce(&TeamScope<'scope, P>) + Send + 'scope) {
        todo!()
    }
    /// As `spawn`, in the order of such calls in this scope on this thread.
    pub fn spawn_fifo(&self, _op: impl FnOnce(&TeamScope<'scope, P>) + Send + 'scope) {
        todo!()
    }
    /// Calls `op` once on each member, with its index.
    pub fn spawn_broadcast(&self, _op: impl Fn(&TeamScope<'scope, P>, usize) + Send + Sync + 'scope) {
        todo!()
    }
    /// The team.
    pub fn members(&self) -> usize {
        todo!()
    }
}

/// As [`join`](crate::join); each closure is told whether it runs on another thread than the caller's. On a thread that is no
/// worker, and no member, both run here.
pub fn join_told<P: Platform, A, B>(
    a: impl FnOnce(bool) -> A,
    b: impl FnOnce(bool) -> B + Send,
) -> (A, B)
where
    B: Send,
{
    let (_, _) = (a, b);
    todo!()
}

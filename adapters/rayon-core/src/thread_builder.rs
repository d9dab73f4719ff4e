//! Starts the threads of a pool.

use std::fmt;
use std::io;

use coreshard_workqueue::{MemberThread, TeamBuilder, TeamError};

use crate::team::{Here, Team};

/// A thread of a pool that must be started. The closure of [`spawn_handler`](crate::ThreadPoolBuilder::spawn_handler) gets it,
/// and must make sure that [`run`](Self::run) is called on a separate thread.
pub struct ThreadBuilder {
    member: MemberThread,
}

impl ThreadBuilder {
    /// Returns its index in the pool.
    pub fn index(&self) -> usize {
        self.member.index()
    }

    /// Returns the name from [`thread_name`](crate::ThreadPoolBuilder::thread_name).
    pub fn name(&self) -> Option<&str> {
        self.member.name()
    }

    /// Returns the size from [`stack_size`](crate::ThreadPoolBuilder::stack_size), in bytes.
    pub fn stack_size(&self) -> Option<usize> {
        self.member.stack_bytes()
    }

    /// Works for the pool until the pool ends.
    pub fn run(self) {
        self.member.run();
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("index", &self.index())
            .field("name", &self.name())
            .field("stack_size", &self.stack_size())
            .finish_non_exhaustive()
    }
}

/// Starts a team's threads. Public since it bounds public methods; code outside cannot name it.
pub trait ThreadSpawn {
    #[doc(hidden)]
    fn start(self, builder: TeamBuilder<'_, Here>) -> Result<Team, TeamError>;
}

/// Threads that the runtime starts.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    fn start(self, builder: TeamBuilder<'_, Here>) -> Result<Team, TeamError> {
        builder.build()
    }
}

/// Threads that the program starts.
#[derive(Debug)]
pub struct CustomSpawn<F>(pub(crate) F);

impl<F> ThreadSpawn for CustomSpawn<F>
where
    F: FnMut(ThreadBuilder) -> io::Result<()>,
{
    fn start(mut self, builder: TeamBuilder<'_, Here>) -> Result<Team, TeamError> {
        builder.build_on(&mut |member| (self.0)(ThreadBuilder { member }))
    }
}

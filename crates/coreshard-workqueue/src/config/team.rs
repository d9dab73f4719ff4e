//! The settings that only a team's pool has.

use std::fmt;
use std::sync::Arc;

use coreshard_platform::user::{self, Thrown, User};

use crate::insight::diagnostic::say;

/// Receives the index of a member.
pub(crate) type IndexHook = Box<User<dyn Fn(usize) + Send + Sync>>;

/// Receives a panic that no caller waits for.
pub(crate) type ThrownHandler = Box<User<dyn Fn(Thrown) + Send + Sync>>;

/// The members of one team, and their hooks.
#[derive(Default)]
pub(crate) struct TeamSpec {
    /// How many threads the team has, for as long as it lives.
    pub(crate) members: usize,
    pub(crate) on_start: Option<IndexHook>,
    pub(crate) on_exit: Option<IndexHook>,
    pub(crate) on_panic: Option<ThrownHandler>,
    /// A member's own work is run in the order of its spawning.
    pub(crate) breadth_first: bool,
    /// The member with index 0 is the thread that made the team.
    pub(crate) has_current_thread: bool,
    /// The process that its threads belong to, as counted by [`Platform::process_generation`].
    ///
    /// [`Platform::process_generation`]: coreshard_platform::Platform::process_generation
    pub(crate) process_generation: u32,
}

impl TeamSpec {
    /// Reports a panic that no caller waits for.
    pub(crate) fn on_panic(&self, thrown: Thrown) {
        let outcome = match &self.on_panic {
            Some(handler) => handler.call(|handler| handler(thrown)),
            None => Err(thrown),
        };
        if let Err(thrown) = outcome {
            let panic = crate::base::error::message_of(thrown.payload());
            say(|| {
                tracing::error!(panic, "a team's detached work, or its panic handler, panicked")
            });
        }
    }

    /// Calls a hook with a member's index, and catches its panic.
    pub(crate) fn run_hook(&self, hook: Option<&IndexHook>, index: usize) {
        if let Some(hook) = hook
            && let Err(thrown) = hook.call(|hook| hook(index))
        {
            self.on_panic(thrown);
        }
    }

    /// Calls detached work, and catches its panic.
    pub(crate) fn call(&self, work: impl FnOnce()) {
        if let Err(thrown) = user::call(work) {
            self.on_panic(thrown);
        }
    }
}

/// The team of a pool. No two teams share one.
#[derive(Clone)]
pub(crate) struct OfTeam(pub(crate) Arc<TeamSpec>);

impl PartialEq for OfTeam {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for OfTeam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfTeam").field("members", &self.0.members).finish_non_exhaustive()
    }
}

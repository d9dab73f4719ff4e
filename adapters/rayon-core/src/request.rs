//! A program's settings for a team, and the building of the team.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::rc::Rc;
use std::sync::Arc;

use crate::build_error::ThreadPoolBuildError;
use crate::settings;
use crate::team::Team;
use crate::thread_builder::ThreadSpawn;

type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;
type ThreadHook = dyn Fn(usize) + Send + Sync;
type ThreadName = dyn FnMut(usize) -> String;

/// Settings that several teams may share.
#[derive(Clone, Default)]
pub(crate) struct Common {
    pub(crate) num_threads: usize,
    pub(crate) panic_handler: Option<Arc<PanicHandler>>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) start_handler: Option<Arc<ThreadHook>>,
    pub(crate) exit_handler: Option<Arc<ThreadHook>>,
    pub(crate) breadth_first: bool,
}

#[derive(Default)]
pub(crate) struct Request {
    pub(crate) common: Common,
    pub(crate) use_current_thread: bool,
    pub(crate) get_thread_name: Option<Box<ThreadName>>,
}

impl Request {
    /// Builds a team with this name.
    pub(crate) fn start(
        self,
        name: String,
        spawn: impl ThreadSpawn,
    ) -> Result<Team, ThreadPoolBuildError> {
        let settings = settings::get()?;
        let runtime = coreshard::runtime().map_err(ThreadPoolBuildError::other)?;
        let Common { num_threads, panic_handler, stack_size, .. } = self.common;
        let members = if num_threads == 0 { settings::threads() } else { num_threads };
        let mut team = settings.apply(runtime.team(name)).members(members.min(Team::MAX_MEMBERS));
        if self.use_current_thread {
            team = team.with_current_thread();
        }
        team = team.on_panic(move |payload| report_panic(panic_handler.as_deref(), payload));
        if let Some(mut name) = self.get_thread_name {
            team = team.thread_names(move |index| Some(name(index)));
        }
        if let Some(bytes) = stack_size {
            team = team.stack_bytes(bytes);
        }
        if let Some(hook) = self.common.start_handler {
            team = team.on_start(move |index| hook(index));
        }
        if let Some(hook) = self.common.exit_handler {
            team = team.on_exit(move |index| hook(index));
        }
        if self.common.breadth_first {
            team = team.breadth_first();
        }
        spawn.start(team).map_err(ThreadPoolBuildError::of)
    }

    /// Builds a team with this name. Also returns the recipe that a forked process needs to build it again.
    pub(crate) fn start_again(
        mut self,
        name: String,
        spawn: impl ThreadSpawn,
    ) -> (Result<Team, ThreadPoolBuildError>, Recipe) {
        let names = Rc::new(RefCell::new(Vec::new()));
        if let Some(mut name_of) = self.get_thread_name.take() {
            let names = Rc::clone(&names);
            self.get_thread_name = Some(Box::new(move |index| {
                let name = name_of(index);
                names.borrow_mut().push((index, name.clone()));
                name
            }));
        }
        let common = self.common.clone();
        let team = self.start(name, spawn);
        (team, Recipe { common, thread_names: names.take() })
    }
}

/// The rest of a request after its team was built, for a process that is forked later. Closures that were called once for each
/// thread are replaced by their results: the threads' names, and threads of the runtime.
pub(crate) struct Recipe {
    common: Common,
    thread_names: Vec<(usize, String)>,
}

impl Recipe {
    pub(crate) fn request(&self) -> Request {
        let names = self.thread_names.clone();
        let name_of = move |index| {
            let named = names.iter().find(|(named, _)| *named == index);
            named.map(|(_, name)| name.clone()).unwrap_or_default()
        };
        let name_of: Box<ThreadName> = Box::new(name_of);
        Request {
            common: self.common.clone(),
            use_current_thread: false,
            get_thread_name: (!self.thread_names.is_empty()).then_some(name_of),
        }
    }
}

/// Passes the payload of a panic that no caller waits for to the handler. Without a handler, or if the handler panics, the process
/// ends: as in the published package, no such panic is ignored.
fn report_panic(handler: Option<&PanicHandler>, payload: Box<dyn Any + Send>) {
    let Some(handler) = handler else { end("the pool has no panic handler") };
    if catch_unwind(AssertUnwindSafe(|| handler(payload))).is_err() {
        end("the pool's panic handler panicked");
    }
}

#[cold]
#[allow(clippy::print_stderr, reason = "the process's last words")]
fn end(why: &str) -> ! {
    eprintln!("rayon on Coreshard: spawned work or a hook panicked, and {why}: the process ends");
    process::abort();
}

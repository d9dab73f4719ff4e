//! The pool of all threads without another pool.

use std::sync::OnceLock;

use coreshard_platform::PerProcess;

use crate::build_error::ThreadPoolBuildError;
use crate::request::{Recipe, Request};
use crate::team::Team;
use crate::thread_builder::{DefaultSpawn, ThreadSpawn};

/// Its name in reports.
const NAME: &str = "rayon";

/// Built once in each process: if that fails, it is not retried with other settings. A forked process builds its own, since it has
/// no threads of its parent.
static GLOBAL: PerProcess<OnceLock<Global>> = PerProcess::new();

struct Global {
    team: Result<Team, String>,
    recipe: Recipe,
}

impl Global {
    fn start(
        request: Request,
        spawn: impl ThreadSpawn,
    ) -> (Self, Result<(), ThreadPoolBuildError>) {
        let (team, recipe) = request.start_again(NAME.to_owned(), spawn);
        let (team, outcome) = match team {
            Ok(team) => (Ok(team), Ok(())),
            Err(error) => (Err(error.to_string()), Err(error)),
        };
        (Self { team, recipe }, outcome)
    }
}

/// Returns the global team. If it does not exist, builds it with default settings, or in a forked process with the parent's.
///
/// # Panics
/// Panics if it cannot be built, or could not be built when it was first needed.
#[inline]
pub(crate) fn team() -> &'static Team {
    match GLOBAL.here().get() {
        Some(Global { team: Ok(team), .. }) => team,
        _ => make_default(),
    }
}

#[cold]
fn make_default() -> &'static Team {
    let made = GLOBAL.here().get_or_init(|| {
        let parents = GLOBAL.inherited().and_then(OnceLock::get);
        let request = parents.map(|parents| parents.recipe.request()).unwrap_or_default();
        Global::start(request, DefaultSpawn).0
    });
    match &made.team {
        Ok(team) => team,
        Err(why) => panic!("The global thread pool has not been initialized: {why}"),
    }
}

/// Builds it as requested.
pub(crate) fn make(request: Request, spawn: impl ThreadSpawn) -> Result<(), ThreadPoolBuildError> {
    let mut outcome = Err(ThreadPoolBuildError::global_exists());
    GLOBAL.here().get_or_init(|| {
        let (global, made) = Global::start(request, spawn);
        outcome = made;
        global
    });
    outcome
}

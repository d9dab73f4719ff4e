//! The pool of all threads that are in no other.

use std::sync::OnceLock;

use coreshard_platform::PerProcess;

use crate::build_error::ThreadPoolBuildError;
use crate::request::{Recipe, Request};
use crate::team::Team;
use crate::thread_builder::{DefaultSpawn, ThreadSpawn};

/// What it is called in reports.
const NAME: &str = "rayon";

/// Made once in each process: if that fails, it is not tried again with other settings. A forked process makes its own, since the parent's
/// threads are not there.
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

/// The global team. If it was not made yet, it is made with default settings; in a forked process with the parent's.
///
/// # Panics
/// If it cannot be made, or could not be when it was first needed.
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

/// Makes it as `request` says.
pub(crate) fn make(request: Request, spawn: impl ThreadSpawn) -> Result<(), ThreadPoolBuildError> {
    let mut outcome = Err(ThreadPoolBuildError::global_exists());
    GLOBAL.here().get_or_init(|| {
        let (global, made) = Global::start(request, spawn);
        outcome = made;
        global
    });
    outcome
}

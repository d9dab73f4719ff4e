//! The pool of all who have none of their own.

use std::sync::OnceLock;

use crate::build_error::ThreadPoolBuildError;
use crate::builder::ThreadPoolBuilder;
use crate::current::Team;
use crate::thread_builder::ThreadSpawn;

/// What it is called in reports.
const NAME: &str = "rayon";

/// Made once, for better or worse: who failed to make it is not followed by another with other settings.
static GLOBAL: OnceLock<Result<Team, String>> = OnceLock::new();

/// The global team, which is made with default settings where nobody made it yet.
///
/// # Panics
/// Where it cannot be made, or could not be by who was first.
#[inline]
pub(crate) fn team() -> &'static Team {
    match GLOBAL.get() {
        Some(Ok(team)) => team,
        _ => make_default(),
    }
}

#[cold]
fn make_default() -> &'static Team {
    let made = GLOBAL.get_or_init(|| {
        ThreadPoolBuilder::new().start(NAME.to_owned()).map_err(|error| error.to_string())
    });
    match made {
        Ok(team) => team,
        Err(why) => panic!("The global thread pool has not been initialized: {why}"),
    }
}

/// Makes it as `builder` says.
pub(crate) fn make<S: ThreadSpawn>(
    builder: ThreadPoolBuilder<S>,
) -> Result<(), ThreadPoolBuildError> {
    let mut outcome = Err(ThreadPoolBuildError::global_exists());
    GLOBAL.get_or_init(|| match builder.start(NAME.to_owned()) {
        Ok(team) => {
            outcome = Ok(());
            Ok(team)
        }
        Err(error) => {
            let why = error.to_string();
            outcome = Err(error);
            Err(why)
        }
    });
    outcome
}

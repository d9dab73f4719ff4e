//! Where in the program's source a thread waits: the innermost function that is nobody's whom programs build on.

use std::fmt;

use backtrace::Backtrace;

use crate::report::own_code::crate_of;

/// Crates whose functions are between a program and its wait.
const BELOW: [&str; 9] = [
    "coreshard",
    "coreshard_workqueue",
    "coreshard_platform",
    "coreshard_sim",
    "core",
    "std",
    "alloc",
    "corosensei",
    "backtrace",
];

/// A stack as it was, whose names are sought when it is shown.
pub(super) struct WaitedAt(Backtrace);

impl WaitedAt {
    pub(super) fn here() -> Self {
        Self(Backtrace::new_unresolved())
    }
}

impl fmt::Display for WaitedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stack = self.0.clone();
        stack.resolve();
        let mut symbols = stack.frames().iter().flat_map(|frame| frame.symbols());
        let own = symbols.find(|symbol| {
            symbol.name().is_some_and(|name| {
                let found = crate_of(&format!("{name:#}"), symbol.filename());
                found.is_some_and(|found| !BELOW.contains(&found.as_str()))
            })
        });
        let Some(own) = own else { return Ok(()) };
        let name = own.name().map(|name| format!("{name:#}")).unwrap_or_default();
        write!(f, ", in {name}")?;
        match (own.filename(), own.lineno()) {
            (Some(file), Some(line)) => write!(f, " at {}:{line}", file.display()),
            _ => Ok(()),
        }
    }
}

//! The place in the program's source where a thread waits: the innermost function outside the crates that
//! programs build on.

use std::fmt;

use backtrace::Backtrace;

use crate::report::own_code::is_programs_own;

/// Crates of the runtime, whose functions lie between a program and its wait.
const BELOW: [&str; 3] = ["coreshard", "coreshard_workqueue", "coreshard_platform"];

/// A captured stack, whose names are resolved when it is shown.
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
        let own = symbols.find_map(|symbol| {
            let name = format!("{:#}", symbol.name()?);
            is_programs_own(&name, symbol.filename(), &BELOW)?.then_some((name, symbol))
        });
        let Some((name, own)) = own else { return Ok(()) };
        write!(f, ", in {name}")?;
        match (own.filename(), own.lineno()) {
            (Some(file), Some(line)) => write!(f, " at {}:{line}", file.display()),
            _ => Ok(()),
        }
    }
}

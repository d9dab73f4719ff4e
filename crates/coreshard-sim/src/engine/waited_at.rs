//! Where in the program's source a thread waits: the innermost function that is nobody's whom programs build on.

use std::fmt;

use backtrace::Backtrace;

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
                let name = format!("{name:#}");
                crate_of(&name).is_some_and(|found| !BELOW.contains(&found))
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

/// `<a::B as c::D>::e` is of `a`. `None` for what is no path, such as a function of C's.
fn crate_of(name: &str) -> Option<&str> {
    let name = name.trim_start_matches(['<', '&', '[', '(', '*']);
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    name[end..].starts_with("::").then_some(&name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_of_its_crate() {
        assert_eq!(crate_of("mail::send::{{closure}}"), Some("mail"));
        assert_eq!(crate_of("<core::option::Option<T> as mail::Send>::send"), Some("core"));
        assert_eq!(crate_of("clone"), None);
        assert_eq!(crate_of("__libc_start_main"), None);
    }
}

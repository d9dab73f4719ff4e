//! What is thrown where nobody waits: the program's handler is told, else the process ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;

pub(crate) type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;

/// Gives `thrown` to the handler. Where there is none, or it throws itself, the process ends: as published, no such panic goes
/// unseen.
pub(crate) fn tell(handler: Option<&PanicHandler>, thrown: Box<dyn Any + Send>) {
    let Some(handler) = handler else { end("no pool's panic handler is there for it") };
    if catch_unwind(AssertUnwindSafe(|| handler(thrown))).is_err() {
        end("the pool's panic handler panicked");
    }
}

#[cold]
#[allow(clippy::print_stderr, reason = "the process's last words")]
fn end(why: &str) -> ! {
    eprintln!("rayon on Coreshard: spawned work or a hook panicked, and {why}: the process ends");
    process::abort();
}

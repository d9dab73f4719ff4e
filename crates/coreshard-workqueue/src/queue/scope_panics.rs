//! All that a scope's items threw.

use std::fmt;

use coreshard_platform::Platform;
use coreshard_platform::user;

use super::panics::Panic;
use super::scope::{WorkScope, run_to_end};
use super::workqueue::Workqueue;

/// What the body of a scope and its items threw; see [`Workqueue::try_scope`].
pub struct ScopePanics {
    body: Option<Panic>,
    items: Vec<Panic>,
}

impl ScopePanics {
    /// What the body threw.
    pub fn body(&self) -> Option<&Panic> {
        self.body.as_ref()
    }

    /// What items threw, in the order in which they ended; without those whose handle has told it.
    pub fn items(&self) -> &[Panic] {
        &self.items
    }

    /// All of it, the body's first.
    pub fn into_panics(self) -> impl Iterator<Item = Panic> {
        self.body.into_iter().chain(self.items)
    }
}

impl fmt::Display for ScopePanics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = usize::from(self.body.is_some()) + self.items.len();
        let first = self.body.iter().chain(&self.items).next().map_or("", Panic::message);
        write!(f, "{count} panics in a scope, the first: {first}")
    }
}

coreshard_topology::readable_debug!(ScopePanics);

impl std::error::Error for ScopePanics {}

impl<P: Platform> Workqueue<P> {
    /// As [`scope`](Self::scope), but nothing is thrown: an error has all that the body and the items threw.
    ///
    /// # Errors
    /// Where something was thrown; the body's result is dropped then.
    ///
    /// # Panics
    /// With [`Forked`](crate::Forked), as there.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// # let queue = runtime.workqueue().build()?;
    /// let outcome = queue.try_scope(|scope| {
    ///     for name in ["one", "two"] {
    ///         scope.queue(move || panic!("{name} is broken")).expect("the queue is open");
    ///     }
    /// });
    /// let mut messages: Vec<String> =
    ///     outcome.unwrap_err().items().iter().map(|panic| panic.message().to_owned()).collect();
    /// messages.sort();
    /// assert_eq!(messages, ["one is broken", "two is broken"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope WorkScope<'scope, 'env, P>) -> R,
    ) -> Result<R, ScopePanics> {
        let (result, items) = run_to_end(self, true, body);
        let mut items: Vec<_> = items.into_iter().map(Panic::thrown).collect();
        match result {
            Ok(value) if items.is_empty() => Ok(value),
            Ok(value) => {
                items.extend(user::discard(value).err().map(Panic::thrown));
                Err(ScopePanics { body: None, items })
            }
            Err(thrown) => Err(ScopePanics { body: Some(Panic::thrown(thrown)), items }),
        }
    }
}

//! Who is told of a panic: the owner of the handle, or, where no handle tells of it, the queue's panic
//! handler; each panic once. What a worker catches, it brings to [`QueueCore::on_panic`] itself; what a handle
//! is to tell waits in an [`Unclaimed`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use coreshard_platform::Platform;
use coreshard_platform::user::Thrown;

use crate::base::by_value::ByValue;
use crate::base::error::{Dropped, Forked, WouldDeadlock, message_of};
use crate::queue::link::{QueueCore, core_here};

/// What an item, or a future, threw.
///
/// Dropping it is safe anywhere: what the payload's own destructor throws is kept for good then, and told to nobody;
/// [`into_payload`](Self::into_payload) has it where it can be heard.
pub struct Panic {
    thrown: ByValue<Thrown>,
}

impl Panic {
    pub(crate) fn thrown(thrown: Thrown) -> Self {
        Self { thrown: ByValue::new(thrown) }
    }

    /// What is told in the same way as what an item throws.
    pub(super) fn of(what: impl Any + Send) -> Self {
        Self::thrown(Thrown::new(Box::new(what)))
    }

    /// What was thrown, for [`std::panic::resume_unwind`] or to be looked into.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("panics").build()?;
    /// let panic = queue.submit(|| std::panic::panic_any(7_u32))?.join().unwrap_err();
    /// assert_eq!(panic.into_payload().downcast_ref(), Some(&7_u32));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.thrown.into_value().into_payload()
    }

    /// The message, if what was thrown is a text.
    ///
    /// ```
    /// let queue = coreshard::workqueue()?.name("panics").build()?;
    /// let panic = queue.submit(|| panic!("no {}", "tea"))?.join().unwrap_err();
    /// assert_eq!(panic.message(), "no tea");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn message(&self) -> &str {
        message_of(&self.thrown)
    }

    /// True if it is no panic: the item was dropped before anybody had begun it ([`Dropped`]).
    pub fn is_dropped(&self) -> bool {
        self.thrown.downcast_ref::<Dropped>().is_some()
    }

    pub(crate) fn resume(self) -> ! {
        self.thrown.into_value().resume()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(forked) = self.thrown.downcast_ref::<Forked>() {
            return forked.fmt(f);
        }
        if let Some(dropped) = self.thrown.downcast_ref::<Dropped>() {
            return dropped.fmt(f);
        }
        match self.thrown.downcast_ref::<WouldDeadlock>() {
            Some(deadlock) => deadlock.fmt(f),
            None => write!(f, "the work item panicked: {}", self.message()),
        }
    }
}

coreshard_topology::readable_debug!(Panic);

impl std::error::Error for Panic {}

/// What an item threw, for the owner of its handle; if nobody claims it, the queue's panic handler is
/// told.
pub(crate) struct Unclaimed<P: Platform> {
    thrown: Option<Thrown>,
    core: Option<Arc<QueueCore<P>>>,
}

impl<P: Platform> Unclaimed<P> {
    /// Thrown by the item that this worker runs.
    #[cold]
    pub(crate) fn here(thrown: Thrown) -> Self {
        Self { thrown: Some(thrown), core: core_here() }
    }

    /// Thrown by something of this queue.
    #[cold]
    pub(crate) fn of(core: &Arc<QueueCore<P>>, thrown: Thrown) -> Self {
        Self { thrown: Some(thrown), core: Some(Arc::clone(core)) }
    }

    /// Of no queue: whoever does not claim it does not hear of it.
    #[cold]
    pub(crate) fn of_nobody(thrown: Thrown) -> Self {
        Self { thrown: Some(thrown), core: None }
    }

    /// Takes it over: the caller tells of it.
    pub(crate) fn claim(mut self) -> Thrown {
        self.thrown.take().expect("it is claimed once")
    }
}

impl<P: Platform> Drop for Unclaimed<P> {
    fn drop(&mut self) {
        if let (Some(thrown), Some(core)) = (self.thrown.take(), &self.core) {
            core.on_panic(thrown);
        }
    }
}

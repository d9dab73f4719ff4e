//! Delivery of panics, each exactly once: to the owner of the handle, or, if no handle reports it, to the queue's panic
//! handler. A worker passes the panics that it catches to [`QueueCore::on_panic`]. A panic that a handle is to report is stored
//! in an [`Unclaimed`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use coreshard_platform::Platform;
use coreshard_platform::user::Thrown;

use crate::base::by_value::ByValue;
use crate::base::error::{Dropped, Forked, WouldDeadlock, message_of};
use crate::queue::link::{QueueCore, core_here};

/// The panic of an item or a future.
///
/// Dropping it is safe anywhere: if the payload's own destructor panics, that second payload is leaked and not reported.
/// [`into_payload`](Self::into_payload) returns the payload, so that the caller can handle such a panic.
pub struct Panic {
    thrown: ByValue<Thrown>,
}

impl Panic {
    pub(crate) fn thrown(thrown: Thrown) -> Self {
        Self { thrown: ByValue::new(thrown) }
    }

    /// Wraps a value that is reported in the same way as an item's panic.
    pub(super) fn of(what: impl Any + Send) -> Self {
        Self::thrown(Thrown::new(Box::new(what)))
    }

    /// Returns the payload, for [`std::panic::resume_unwind`] or for inspection.
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

    /// Returns the message, if the payload is a string.
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

    /// Returns true if the item did not panic but was dropped before it had begun ([`Dropped`]).
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

/// An item's panic for the owner of its handle; if it is not claimed, it goes to the queue's panic handler.
/// One word, since each result has room for one.
pub(crate) struct Unclaimed<P: Platform>(Option<Box<Owned<P>>>);

struct Owned<P: Platform> {
    thrown: Thrown,
    core: Option<Arc<QueueCore<P>>>,
}

impl<P: Platform> Unclaimed<P> {
    /// A panic of the item that this worker runs.
    #[cold]
    pub(crate) fn here(thrown: Thrown) -> Self {
        Self::owned(thrown, core_here())
    }

    /// A panic of an item or a future of this queue.
    #[cold]
    pub(crate) fn of(core: &Arc<QueueCore<P>>, thrown: Thrown) -> Self {
        Self::owned(thrown, Some(Arc::clone(core)))
    }

    /// A panic of no queue: if it is not claimed, it is not reported.
    #[cold]
    pub(crate) fn of_nobody(thrown: Thrown) -> Self {
        Self::owned(thrown, None)
    }

    fn owned(thrown: Thrown, core: Option<Arc<QueueCore<P>>>) -> Self {
        Self(Some(Box::new(Owned { thrown, core })))
    }

    /// Claims the panic: the caller reports it.
    pub(crate) fn claim(mut self) -> Thrown {
        self.0.take().expect("it is claimed once").thrown
    }
}

impl<P: Platform> Drop for Unclaimed<P> {
    fn drop(&mut self) {
        if let Some(Owned { thrown, core: Some(core) }) = self.0.take().map(|owned| *owned) {
            core.on_panic(thrown);
        }
    }
}

//! An item that was set aside and is returned.

use coreshard_platform::user::{self, Thrown, User};

/// It is run once, or dropped under `catch_unwind`; [`Returned::discard`] returns the panic of the drop.
pub(crate) struct Returned {
    body: Box<dyn ReturnedBody>,
}

/// The actions on it.
pub(crate) trait ReturnedBody: Send {
    /// Runs it. May unwind with a panic of user code that is reported nowhere else.
    fn run(self: Box<Self>);
    /// Drops its contents, and notifies the threads that wait for it.
    fn discard(self: Box<Self>) -> Result<(), Thrown>;
    /// True if a handle to it may exist.
    fn has_handle(&self) -> bool {
        false
    }
}

impl Returned {
    pub(crate) fn new(body: impl ReturnedBody + 'static) -> Self {
        Self { body: Box::new(body) }
    }

    pub(super) fn closure(work: impl FnOnce() + Send + 'static) -> Self {
        Self::new(ReturnedClosure(User::new(work)))
    }

    pub(crate) fn run(self) {
        self.body.run();
    }

    pub(crate) fn discard(self) -> Result<(), Thrown> {
        self.body.discard()
    }

    pub(crate) fn has_handle(&self) -> bool {
        self.body.has_handle()
    }
}

struct ReturnedClosure<F>(User<F>);

impl<F: FnOnce() + Send> ReturnedBody for ReturnedClosure<F> {
    fn run(self: Box<Self>) {
        (self.0.into_code())();
    }

    fn discard(self: Box<Self>) -> Result<(), Thrown> {
        user::discard(self.0.into_code())
    }
}

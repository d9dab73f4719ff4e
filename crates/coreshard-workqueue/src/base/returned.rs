//! What comes back of an item that was set aside.

use coreshard_platform::user::{self, Thrown, User};

/// It is run once, or dropped in front of the net; [`Returned::discard`] tells what that throws.
pub(crate) struct Returned {
    body: Box<dyn ReturnedBody>,
}

/// What is done with it.
pub(crate) trait ReturnedBody: Send {
    /// May unwind, if a user's code does that nobody else tells of.
    fn run(self: Box<Self>);
    /// Drops what it holds, and tells whoever waits for it.
    fn discard(self: Box<Self>) -> Result<(), Thrown>;
    /// True if somebody may wait for it.
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

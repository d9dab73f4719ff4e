//! Which public types are `Send` and which are `Sync`. The compiler infers it, and this file states the
//! expectation. Each line is checked while this file is compiled.

use std::cell::Cell;
use std::rc::Rc;

use coreshard_platform::{ByteAtomics, Host, RealTime};
use coreshard_rt::*;

/// Fails to compile if a type has the trait after all: the method is then ambiguous.
macro_rules! lacks {
    ($type:ty: $($trait:ident)+) => { $(
        const _: fn() = || {
            trait Twice<Which> { fn found() {} }
            impl<T: ?Sized> Twice<()> for T {}
            struct Has;
            impl<T: ?Sized + $trait> Twice<Has> for T {}
            let _ = <$type as Twice<_>>::found;
        };
    )+ };
}

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}
const fn both<T: Send + Sync>() {}

/// Types that are generic over the platform, on every platform: generic code could not use an executor that
/// is `Sync` only on some.
const fn on_every_platform<P: RealTime>() {
    both::<Executor<P>>();
    both::<TaskHandle<P, Cell<u8>>>();
    both::<PeriodicHandle<P>>();
    both::<TimerHandle<P>>();
    both::<ExecutorBuilder<P>>();
    both::<InheritMutex<P, Cell<u8>>>();
    both::<CeilingMutex<P, Cell<u8>>>();
    send::<LockError<u8>>();
    writers::<P>();
}

const fn writers<P: ByteAtomics>() {
    both::<PriorityIndex<P>>();
    both::<LevelWriter<P>>();
}

const _: () = {
    on_every_platform::<Host>();
    both::<Activation>();
    both::<CpuMask>();
    both::<CpuSnapshot>();
    both::<DeadlineHeap>();
    both::<Degradation>();
    both::<Incident>();
    both::<PeriodicStats>();
    both::<RtError>();
    send::<Periodic>();
    send::<Overrun>();
    send::<TaskPanic>();
    sync::<TaskHandle<Host, u8>>();
};

// A result that is not `Send` cannot come from another thread.
lacks!(TaskHandle<Host, Rc<u8>>: Send Sync);
// A panic payload is `Send`, but its type is unknown.
lacks!(TaskPanic: Sync);
// A hook is called by one thread at a time.
lacks!(Overrun: Sync);
// The lock hands its data from thread to thread, so the data must be `Send`.
lacks!(InheritMutex<Host, Rc<u8>>: Send Sync);
lacks!(CeilingMutex<Host, Rc<u8>>: Send Sync);
// The kernel identifies the holder by its thread, and the ceiling belongs to its thread.
lacks!(InheritGuard<'static, Host, u8>: Send Sync);
lacks!(CeilingGuard<'static, Host, u8>: Send Sync);
lacks!(InheritGuard<'static, Host, Cell<u8>>: Send Sync);
lacks!(CeilingGuard<'static, Host, Cell<u8>>: Send Sync);
lacks!(LockError<CeilingGuard<'static, Host, u8>>: Send Sync);

#[test]
fn it_compiles() {}

//! Which public types may go to another thread, and which may be shared: the compiler decides, and this
//! says what it is to decide. Each line is checked while this file is compiled.

use std::cell::Cell;
use std::rc::Rc;

use coreshard_platform::{ByteAtomics, Host, RealTime};
use coreshard_rt::*;

/// Fails to compile where a type has a trait after all: the method is then found twice.
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

/// What is generic over the platform, on every platform: an executor that is only shared on some would not
/// be usable in generic code.
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

// A result that may not go to another thread may not come from one.
lacks!(TaskHandle<Host, Rc<u8>>: Send Sync);
// What was thrown may go on, but is any type that may.
lacks!(TaskPanic: Sync);
// A hook is called by one thread at a time.
lacks!(Overrun: Sync);
// The lock lends its data to one thread after the other, so the data must be one that may go.
lacks!(InheritMutex<Host, Rc<u8>>: Send Sync);
lacks!(CeilingMutex<Host, Rc<u8>>: Send Sync);
// The kernel knows the holder by its thread, and the ceiling is its thread's.
lacks!(InheritGuard<'static, Host, u8>: Send Sync);
lacks!(CeilingGuard<'static, Host, u8>: Send Sync);
lacks!(InheritGuard<'static, Host, Cell<u8>>: Send Sync);
lacks!(CeilingGuard<'static, Host, Cell<u8>>: Send Sync);
lacks!(LockError<CeilingGuard<'static, Host, u8>>: Send Sync);

#[test]
fn it_compiles() {}

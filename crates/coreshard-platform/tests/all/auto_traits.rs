//! Which public types are `Send` and which are `Sync`. The compiler infers it, and this file states the
//! expectation. Each line is checked while this file is compiled.

use std::cell::Cell;
use std::rc::Rc;

use coreshard_platform::user::Thrown;
use coreshard_platform::*;

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
const fn both<T: Send + Sync>() {}

const fn on_every_platform<P: Platform>() {
    both::<P::AtomicU32>();
    both::<P::AtomicU64>();
    both::<P::AtomicPtr<Rc<u8>>>();
    send::<P::Thread>();
    both::<Lock<P, Cell<u8>>>();
    both::<LockGuard<'static, P, u8>>();
    send::<LockGuard<'static, P, Cell<u8>>>();
    both::<Parker<P>>();
    both::<PerCpuCounter<P>>();
}

const _: () = {
    on_every_platform::<Host>();
    both::<AffinityError>();
    both::<CpuClock>();
    both::<InheritError>();
    both::<LockedMemory>();
    both::<MemoryLockError>();
    both::<NodeMemory>();
    both::<NodeMemoryError>();
    both::<Padded<u8>>();
    both::<PolicyError>();
    both::<SpawnError>();
    both::<ThreadSpec>();
    both::<Time>();
    send::<HostCell<u8>>();
    send::<Thrown>();
};

// A lock hands its data from thread to thread, so the data must be `Send`.
lacks!(Lock<Host, Rc<u8>>: Send Sync);
// Sharing a guard shares the data.
lacks!(LockGuard<'static, Host, Cell<u8>>: Sync);
lacks!(LockGuard<'static, Host, Rc<u8>>: Send Sync);
// The protocol around a cell decides who may use it, not the cell.
lacks!(HostCell<u8>: Sync);
lacks!(HostCell<Rc<u8>>: Send);
lacks!(Padded<Cell<u8>>: Sync);
lacks!(Padded<Rc<u8>>: Send Sync);
// A panic payload is `Send`, but its type is unknown.
lacks!(Thrown: Sync);

#[test]
fn it_compiles() {}

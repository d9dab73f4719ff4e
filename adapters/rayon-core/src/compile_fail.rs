//! What the bounds forbid: each example fails to compile, with the error that is named.

/// Both halves of a join may not have the same thing to themselves.
///
/// ```compile_fail,E0524
/// let mut numbers = [3, 1, 2];
/// let all = &mut numbers[..];
/// rayon_core::join(|| all.sort(), || all.reverse());
/// ```
///
/// Nor one half the whole, and the other a part.
///
/// ```compile_fail,E0500
/// fn sort_twice(all: &mut [u32]) {
///     let (left, _right) = all.split_at_mut(1);
///     rayon_core::join(|| left.sort(), || all.sort());
/// }
/// ```
///
/// The two parts they may.
///
/// ```no_run
/// fn sort_both(all: &mut [u32]) {
///     let (left, right) = all.split_at_mut(1);
///     rayon_core::join(|| left.sort(), || right.sort());
/// }
/// ```
struct JoinedBorrows;

/// What cannot be sent stays here: it is no result of either half,
///
/// ```compile_fail,E0277
/// rayon_core::join(|| std::rc::Rc::new(1), || ());
/// ```
///
/// ```compile_fail,E0277
/// rayon_core::join(|| (), || std::rc::Rc::new(2));
/// ```
///
/// no part of a closure,
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(3);
/// rayon_core::join(|| *shared, || *shared);
/// ```
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(4);
/// rayon_core::scope(|_| println!("{shared}"));
/// ```
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(5);
/// rayon_core::spawn(move || println!("{shared}"));
/// ```
///
/// ```compile_fail,E0277
/// let counted = std::cell::Cell::new(6);
/// rayon_core::broadcast(|_| counted.set(7));
/// ```
///
/// and is only lent to a scope that stays on this thread.
///
/// ```no_run
/// let shared = std::rc::Rc::new(8);
/// rayon_core::in_place_scope(|_| println!("{shared}"));
/// ```
struct Unsendable;

/// The context of a closure is about the thread that it runs on.
///
/// ```compile_fail,E0277
/// fn send(_: impl Send) {}
/// rayon_core::join_context(|context| send(context), |_| ());
/// ```
///
/// ```compile_fail,E0277
/// fn share(_: impl Sync) {}
/// rayon_core::join_context(|context| share(context), |_| ());
/// ```
///
/// ```compile_fail,E0277
/// fn send(_: impl Send) {}
/// rayon_core::broadcast(|context| send(context));
/// ```
///
/// ```compile_fail,E0277
/// fn share(_: impl Sync) {}
/// rayon_core::broadcast(|context| share(context));
/// ```
///
/// Nor is it a result.
///
/// ```compile_fail,E0277
/// rayon_core::broadcast(|context| context);
/// ```
struct Contexts;

/// What is spawned in a scope borrows from outside of it alone:
///
/// ```no_run
/// let number = 1;
/// rayon_core::scope(|scope| scope.spawn(|_| println!("{number}")));
/// ```
///
/// not from the closure that the scope is given to,
///
/// ```compile_fail,E0373
/// rayon_core::scope(|scope| {
///     let number = 2;
///     scope.spawn(|_| println!("{number}"));
/// });
/// ```
///
/// ```compile_fail,E0373
/// rayon_core::scope_fifo(|scope| {
///     let number = 3;
///     scope.spawn_fifo(|_| println!("{number}"));
/// });
/// ```
///
/// ```compile_fail,E0373
/// rayon_core::in_place_scope(|scope| {
///     let number = 4;
///     scope.spawn_broadcast(|_, _| println!("{number}"));
/// });
/// ```
///
/// nor what a task of the scope has.
///
/// ```compile_fail,E0373
/// rayon_core::scope(|scope| {
///     scope.spawn(|scope| {
///         let number = 5;
///         scope.spawn(|_| println!("{number}"));
///     });
/// });
/// ```
///
/// And without a scope it borrows nothing.
///
/// ```compile_fail,E0373
/// let number = 6;
/// rayon_core::spawn(|| println!("{number}"));
/// ```
struct Borrows;

/// A scope is of one lifetime, neither of a shorter one
///
/// ```compile_fail
/// fn shorter<'a, 'b: 'a, 's>(scope: &'s rayon_core::Scope<'b>) -> &'s rayon_core::Scope<'a> {
///     scope
/// }
/// ```
///
/// nor of a longer one.
///
/// ```compile_fail
/// fn longer<'a, 'b: 'a, 's>(scope: &'s rayon_core::Scope<'a>) -> &'s rayon_core::Scope<'b> {
///     scope
/// }
/// ```
///
/// ```compile_fail
/// fn shorter<'a, 'b: 'a, 's>(scope: &'s rayon_core::ScopeFifo<'b>) -> &'s rayon_core::ScopeFifo<'a> {
///     scope
/// }
/// ```
///
/// ```compile_fail
/// fn longer<'a, 'b: 'a, 's>(scope: &'s rayon_core::ScopeFifo<'a>) -> &'s rayon_core::ScopeFifo<'b> {
///     scope
/// }
/// ```
///
/// It does not leave its closure.
///
/// ```compile_fail,E0521
/// let mut kept = None;
/// rayon_core::in_place_scope(|scope| kept = Some(scope));
/// ```
struct ScopeLifetimes;

/// A pool of scoped threads does not leave its closure, and a builder not its thread.
///
/// ```compile_fail
/// let pool = rayon_core::ThreadPoolBuilder::new().build_scoped(|thread| thread.run(), |pool| pool).unwrap();
/// ```
///
/// ```compile_fail,E0277
/// fn send(_: impl Send) {}
/// send(rayon_core::ThreadPoolBuilder::new());
/// ```
///
/// Nobody else implements the trait of those who start threads, or makes what is made for them.
///
/// ```compile_fail,E0405
/// struct Mine;
/// impl rayon_core::ThreadSpawn for Mine {}
/// ```
///
/// ```compile_fail,E0451
/// let builder = rayon_core::ThreadBuilder { member: todo!() };
/// ```
struct Pools;

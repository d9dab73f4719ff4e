//! Programs that the bounds forbid: each example fails to compile, with the named error.

/// The halves of a join cannot both borrow the same value mutably.
///
/// ```compile_fail,E0524
/// let mut numbers = [3, 1, 2];
/// let all = &mut numbers[..];
/// rayon_core::join(|| all.sort(), || all.reverse());
/// ```
///
/// Nor can one half borrow the whole, and the other a part.
///
/// ```compile_fail,E0500
/// fn sort_twice(all: &mut [u32]) {
///     let (left, _right) = all.split_at_mut(1);
///     rayon_core::join(|| left.sort(), || all.sort());
/// }
/// ```
///
/// They can borrow disjoint parts.
///
/// ```no_run
/// fn sort_both(all: &mut [u32]) {
///     let (left, right) = all.split_at_mut(1);
///     rayon_core::join(|| left.sort(), || right.sort());
/// }
/// ```
struct JoinedBorrows;

/// A value that is not `Send` cannot be the result of either half,
///
/// ```compile_fail,E0277
/// rayon_core::join(|| std::rc::Rc::new(1), || ());
/// ```
///
/// ```compile_fail,E0277
/// rayon_core::join(|| (), || std::rc::Rc::new(2));
/// ```
///
/// it cannot be captured by a closure,
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
/// and it can only be borrowed by a scope that stays on this thread.
///
/// ```no_run
/// let shared = std::rc::Rc::new(8);
/// rayon_core::in_place_scope(|_| println!("{shared}"));
/// ```
struct Unsendable;

/// The context of a closure belongs to the thread that it runs on.
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
/// Nor can it be a result.
///
/// ```compile_fail,E0277
/// rayon_core::broadcast(|context| context);
/// ```
struct Contexts;

/// Work spawned in a scope can only borrow from outside the scope:
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
/// nor from a task of the scope.
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
/// Without a scope, it cannot borrow at all.
///
/// ```compile_fail,E0373
/// let number = 6;
/// rayon_core::spawn(|| println!("{number}"));
/// ```
struct Borrows;

/// A scope has one lifetime, neither a shorter one
///
/// ```compile_fail
/// fn shorter<'a, 'b: 'a, 's>(scope: &'s rayon_core::Scope<'b>) -> &'s rayon_core::Scope<'a> {
///     scope
/// }
/// ```
///
/// nor a longer one.
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
/// It cannot leave its closure.
///
/// ```compile_fail,E0521
/// let mut kept = None;
/// rayon_core::in_place_scope(|scope| kept = Some(scope));
/// ```
struct ScopeLifetimes;

/// A pool of scoped threads cannot leave its closure, and a builder cannot leave its thread.
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
/// Other crates cannot implement the trait of thread starters, or create a `ThreadBuilder`.
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

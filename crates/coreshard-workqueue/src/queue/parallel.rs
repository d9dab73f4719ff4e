//! Operations that block their caller: installs, scopes, loops, and a call in each pod.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::user;
use coreshard_platform::{AtomicInt, Platform};
use coreshard_topology::{Pod, PodId};

use super::Workqueue;
use super::link::holds_turn_of;
use super::results::{ScopePanics, Wait, Waiter, WorkScope, install, install_helping, run_to_end};
use crate::base::error::{Refused, RefusedReason};
use crate::base::target::Target;
use crate::fork::{Chunks, Elements, Zip, reduce, spread};
use crate::insight::Label;
use crate::insight::stats::PoolId;
use crate::pool::{Pool, worker_here};

impl<P: Platform> Workqueue<P> {
    /// Runs `work` on one of the queue's workers and waits for its result. On a worker, [`join`](crate::join) finds other
    /// workers to help.
    ///
    /// Inside an item of this queue, on one of its workers, `work` is part of that item and is called at once. Anywhere else it
    /// is an ordinary item, subject to the queue's limit, order and state. Allocates nothing, except inside an item of another
    /// queue with the same attributes: there it waits as [`JoinHandle::join`](crate::JoinHandle::join) does.
    ///
    /// # Errors
    /// Fails if the queue is shut down. Also fails in a queue that runs one item at a time, if it is called on behalf of an item
    /// of this queue but not on one of its workers: `work` could not begin before that item has finished. On an error `work` is
    /// dropped, uncalled.
    ///
    /// # Panics
    /// Panics with the panic of `work`.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("sums").build()?;
    /// let numbers = vec![1_u64; 1_000];
    /// // It borrows, and forks on the queue's workers.
    /// let sum = queue.install(|| {
    ///     let (left, right) = numbers.split_at(500);
    ///     let (left, right) = coreshard::join(|| left.iter().sum::<u64>(), || right.iter().sum::<u64>());
    ///     left + right
    /// })?;
    /// assert_eq!(sum, 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("ThreadPool::install", "block_in_place"))]
    #[track_caller]
    pub fn install<F, R>(&self, work: F) -> Result<R, Refused>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.install_and(work, None)
    }

    /// Runs `work` like [`install`](Self::install); a caller outside the pool calls `then` with the item's pool before it
    /// waits.
    #[track_caller]
    fn install_and<F, R>(&self, work: F, then: Option<fn(&Pool<P>)>) -> Result<R, Refused>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let waiter = Waiter::here::<P>(self.id());
        if waiter.as_ref().is_some_and(|waiter| waiter.is_part_of_item(self.shared())) {
            return Ok(work());
        }
        let entry = self.enter(Target::Here)?;
        match waiter.map_or(Wait::Sleep, |waiter| waiter.wait_for(&entry)) {
            Wait::Help => Ok(install_helping::<P, _, _>(entry, work)),
            Wait::Sleep => {
                // The pool is counted, on a line that all callers share, only if it is needed.
                let then = then.map(|then| (entry.pool(), then));
                let call = || then.into_iter().for_each(|(pool, then)| then(&pool));
                Ok(install::<P, _, _>(entry, work, call))
            }
            Wait::Never => {
                entry.abandon();
                Err(RefusedReason::WouldDeadlock.into())
            }
        }
    }

    /// Calls `body` with a scope through which it can queue work that borrows from outside, and waits until all of that work
    /// has finished.
    ///
    /// On a worker that may run them (see [`JoinHandle::join`](crate::JoinHandle::join)), the caller runs the scope's items
    /// that have not begun, so scopes may nest as deep as there is stack. Such an item runs within the caller's thread state:
    /// locks that are held, cells that are borrowed.
    ///
    /// `body` runs on the caller's thread, as in rayon's `in_place_scope`. [`WorkScope::submit`] gives handles to results;
    /// [`try_scope`](Self::try_scope) returns all panics.
    ///
    /// # Panics
    /// Panics with the panic of `body`, or else with that of the first item to panic, after all items have finished. Other
    /// panics go to the queue's panic handler. Panics with [`Forked`](crate::Forked) in a process that `body` forked: the
    /// scope's items never finish there.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("pixels").build()?;
    /// let mut picture = vec![1_u8; 64 * 1024];
    /// queue.scope(|scope| {
    ///     for part in picture.chunks_mut(4096) {
    ///         scope.queue(|| part.iter_mut().for_each(|pixel| *pixel *= 2)).expect("the queue is open");
    ///     }
    /// });
    /// assert!(picture.iter().all(|pixel| *pixel == 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "in_place_scope")]
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope WorkScope<'scope, 'env, P>) -> R,
    ) -> R {
        let (result, mut items) = run_to_end(self.shared(), false, body);
        // One is rethrown to the caller; another one goes to the queue's panic handler.
        let (thrown, other) = match (result, items.pop()) {
            (Ok(value), None) => return value,
            (Ok(value), Some(items)) => (items, user::discard(value).err()),
            (Err(bodys), items) => (bodys, items),
        };
        if let Some(other) = other {
            self.on_panic(other);
        }
        thrown.resume()
    }

    /// Runs a scope like [`scope`](Self::scope), but returns all panics of the body and the items as an error.
    ///
    /// # Errors
    /// Fails if the body or an item panicked; the body's result is then dropped.
    ///
    /// # Panics
    /// Panics with [`Forked`](crate::Forked), as [`scope`](Self::scope) does.
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
        let (result, items) = run_to_end(self.shared(), true, body);
        ScopePanics::unless_none(result, items)
    }

    /// Calls `body` with each element of `elements`, on as many of the queue's workers as are available, and waits for all
    /// calls. Workers that finish early take over elements from slower ones.
    ///
    /// # Errors
    /// Fails as [`install`](Self::install) does: `body` is then dropped, uncalled.
    ///
    /// # Panics
    /// Panics with the panic of the first call of `body` to panic. Other elements may or may not be done.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("pixels").build()?;
    /// let mut pixels = vec![1_u8; 10_000];
    /// queue.for_each_mut(&mut pixels, |pixel| *pixel = 255 - *pixel)?;
    /// assert!(pixels.iter().all(|pixel| *pixel == 254));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("par_iter_mut", "parallel for"))]
    pub fn for_each_mut<T, F>(&self, elements: &mut [T], body: F) -> Result<(), Refused>
    where
        T: Send,
        F: Fn(&mut T) + Sync + Send,
    {
        let each = |piece: &mut [T]| piece.iter_mut().for_each(&body);
        self.on_workers(|workers| spread::<P, _>(elements, workers, &each))
    }

    /// Calls `body` with ranges that cover `numbers` and do not overlap, on as many of the queue's workers as are available,
    /// and waits for all calls. The lengths of the ranges depend on which workers are available.
    ///
    /// # Errors
    /// Fails as [`install`](Self::install) does: `body` is then dropped, uncalled.
    ///
    /// # Panics
    /// Panics with the panic of the first call of `body` to panic. Other ranges may or may not be done.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let queue = coreshard::workqueue()?.name("rows").build()?;
    /// let rows = AtomicUsize::new(0);
    /// queue.for_each_range(0..480, |range| _ = rows.fetch_add(range.len(), Relaxed))?;
    /// assert_eq!(rows.into_inner(), 480);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "into_par_iter")]
    pub fn for_each_range<F>(&self, numbers: Range<usize>, body: F) -> Result<(), Refused>
    where
        F: Fn(Range<usize>) + Sync + Send,
    {
        self.on_workers(|workers| spread::<P, _>(numbers, workers, &body))
    }

    /// Calls `map` with each element, on as many of the queue's workers as are available, and returns the results in the order
    /// of the elements. These come from a slice (`&slice[..]`), a mutable slice (`&mut slice[..]`), or a range (`0..n`).
    ///
    /// # Errors
    /// Fails as [`install`](Self::install) does: `map` is then dropped, uncalled.
    ///
    /// # Panics
    /// Panics with the panic of the first call of `map` to panic, once no call is running. Other elements may have been mapped;
    /// results are dropped.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// # let queue = runtime.workqueue().build()?;
    /// let words = ["to", "be", "or", "not"];
    /// let lengths = queue.map_collect(&words[..], |word| word.len()).expect("the queue is open");
    /// assert_eq!(lengths, [2, 2, 2, 3]);
    /// let squares = queue.map_collect(0..5, |number| number * number).expect("the queue is open");
    /// assert_eq!(squares, [0, 1, 4, 9, 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("par_iter", "collect"))]
    pub fn map_collect<E, R, F>(&self, elements: E, map: F) -> Result<Vec<R>, Refused>
    where
        E: Elements,
        R: Send,
        F: Fn(E::Item) -> R + Sync + Send,
    {
        let mut results: Vec<Option<R>> = Vec::new();
        results.resize_with(elements.len(), || None);
        let places = Zip(elements, &mut results[..]);
        let each = |Zip(elements, places): Zip<E, &mut [Option<R>]>| {
            for (element, place) in elements.into_iter().zip(places) {
                *place = Some(map(element));
            }
        };
        self.on_workers(|workers| spread::<P, _>(places, workers, &each))?;
        Ok(results.into_iter().flatten().collect())
    }

    /// Calls `map` with each element, on as many of the queue's workers as are available, and combines the results with
    /// `reduce`, two neighbours at a time, the earlier first. Returns `None` without elements. The grouping depends on
    /// which workers are available, so `reduce` must be associative; it need not be commutative.
    ///
    /// # Errors
    /// Fails as [`install`](Self::install) does: both are then dropped, uncalled.
    ///
    /// # Panics
    /// Panics with the panic of the first call of either to panic, once no call is running.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// # let queue = runtime.workqueue().build()?;
    /// let words = ["to", "be", "or", "not"];
    /// let text = queue.map_reduce(&words[..], |word| word.to_string(), |a, b| a + " " + &b);
    /// assert_eq!(text.expect("the queue is open").as_deref(), Some("to be or not"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("fold", "sum"))]
    pub fn map_reduce<E, R, F, G>(
        &self,
        elements: E,
        map: F,
        reduce: G,
    ) -> Result<Option<R>, Refused>
    where
        E: Elements,
        R: Send,
        F: Fn(E::Item) -> R + Sync + Send,
        G: Fn(R, R) -> R + Sync + Send,
    {
        let leaf = |elements: E| elements.into_iter().map(&map).reduce(&reduce);
        let run = |workers| self::reduce::<P, _, _>(elements, workers, &leaf, &reduce);
        self.on_workers(run)
    }

    /// Calls `body` with each element, on as many of the queue's workers as are available, until one call returns an error;
    /// then no further element is begun. If several calls failed, the error of the earliest element is returned; an earlier
    /// element that was not begun might also have failed.
    ///
    /// # Errors
    /// The outer error is that of [`install`](Self::install): `body` is then dropped, uncalled. The inner error is that of
    /// `body`: elements before and after it may or may not be done.
    ///
    /// # Panics
    /// Panics with the panic of the first call of `body` to panic, once no call is running.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// # let queue = runtime.workqueue().build()?;
    /// let is_number = |text: &&str| text.parse::<u32>().map(drop);
    /// assert!(queue.try_for_each(&["1", "2"][..], is_number)?.is_ok());
    /// assert!(queue.try_for_each(&["1", "two"][..], is_number)?.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_for_each<E, R, F>(&self, elements: E, body: F) -> Result<Result<(), R>, Refused>
    where
        E: Elements,
        R: Send,
        F: Fn(E::Item) -> Result<(), R> + Sync + Send,
    {
        let failed = P::AtomicU32::new(0);
        let leaf = |elements: E| {
            for element in elements {
                // Relaxed: it only saves work; correctness does not depend on when it is seen.
                if failed.load(Relaxed) != 0 {
                    return None;
                }
                if let Err(error) = body(element) {
                    failed.store(1, Relaxed);
                    return Some(error);
                }
            }
            None
        };
        let run = |workers| reduce::<P, _, _>(elements, workers, &leaf, &|first, _| first);
        Ok(self.on_workers(run)?.map_or(Ok(()), Err))
    }

    /// Calls `body` with chunks of `elements` elements (the last may have fewer) and with the number of elements before each
    /// chunk, on as many of the queue's workers as are available.
    ///
    /// # Errors
    /// Fails as [`install`](Self::install) does: `body` is then dropped, uncalled.
    ///
    /// # Panics
    /// Panics if the chunk size is 0. Panics with the panic of the first call of `body` to panic, once no call is running;
    /// other chunks may or may not be done.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// # let queue = runtime.workqueue().build()?;
    /// // The rows of a picture of 5 columns.
    /// let mut pixels = vec![0; 20];
    /// queue
    ///     .for_each_chunk(&mut pixels[..], 5, |before, row| row.fill(before / 5))
    ///     .expect("the queue is open");
    /// assert_eq!(pixels[10..15], [2; 5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("par_chunks", "par_chunks_mut"))]
    pub fn for_each_chunk<E, F>(&self, whole: E, elements: usize, body: F) -> Result<(), Refused>
    where
        E: Elements,
        F: Fn(usize, E) + Sync + Send,
    {
        assert!(elements > 0, "a chunk has at least one element, not 0");
        let chunks = Chunks::new(whole, elements);
        let each = |chunks: Chunks<E>| chunks.for_each(&body);
        self.on_workers(|workers| spread::<P, _>(chunks, workers, &each))
    }

    /// Calls `run` on a worker, with the number of workers.
    #[track_caller]
    fn on_workers<R: Send>(&self, run: impl FnOnce(usize) -> R + Send) -> Result<R, Refused> {
        let workers = self.shared().worker_limit();
        self.install_and(|| run(workers), Some(Pool::call_for_loop))
    }

    /// Calls `body` once in each of the queue's pods, on a worker there, and returns the results by pod. Use it to create or
    /// read state that a pod's workers share, such as a cache.
    ///
    /// Unlike rayon's `broadcast`, it does not call `body` once on each worker, since workers start and exit at any time. A
    /// [hook](crate::Hooks::on_start) creates state for each worker. `body` is called for each CPU only if the queue's scope is
    /// [`Cpu`](coreshard_topology::Scope::Cpu), like the kernel's `schedule_on_each_cpu()`.
    ///
    /// If the queue's pods change during the call ([`Runtime::set_usable`](crate::Runtime::set_usable),
    /// [`change`](Self::change)), the results come from the pods that it has at the end. `body` may also have been called in
    /// pods that no longer exist.
    ///
    /// Each call is an item of the queue, except that a caller inside one of the queue's items runs its own pod's call itself.
    /// The method waits until all calls have finished, as [`scope`](Self::scope) does, and helps with none of them.
    ///
    /// # Errors
    /// Fails if the queue is closed, possibly after some calls, or if it is called inside an item of this queue and the queue
    /// has a limit or an order.
    ///
    /// # Panics
    /// Panics with the panic of the first call of `body` to panic, after all calls.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_topology::{Scope, Topology};
    /// # use coreshard_workqueue::{Runtime, current};
    /// # let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1")?;
    /// # let runtime = Runtime::<Host>::builder(topology).laid_over(coreshard_platform::affinity()?).build()?;
    /// let queue = runtime.workqueue().scope(Scope::Cache).build()?;
    /// let pools = queue.on_each_pod(|pod| {
    ///     let here = current::<Host>().expect("a worker");
    ///     assert_eq!(here.pod(), pod);
    ///     here.pool()
    /// }).expect("the queue is open");
    /// assert_eq!(pools, [queue.stats().pools[0].id, queue.stats().pools[1].id]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("broadcast", "schedule_on_each_cpu"))]
    #[track_caller]
    pub fn on_each_pod<F, R>(&self, body: F) -> Result<Vec<R>, Refused>
    where
        F: Fn(PodId) -> R + Sync + Send,
        R: Send,
    {
        if holds_turn_of::<P>(self.id()) {
            return Err(RefusedReason::WouldDeadlock.into());
        }
        let mut results = BTreeMap::new();
        loop {
            let set = self.shared().generations.set();
            let pods: Vec<_> = set.pods.iter().zip(set.pools().map(|pool| pool.id)).collect();
            self.on_pods(&pods, &body, &mut results)?;
            if pods.iter().all(|(_, pool)| results.contains_key(pool)) {
                let result = |(_, pool): &(_, PoolId)| results.remove(pool);
                return Ok(pods.iter().filter_map(result).collect());
            }
            // The queue's pods have changed in the meantime.
        }
    }

    /// Calls `body` on a worker of each pool that has no result yet, if the queue still uses that pool.
    fn on_pods<F, R>(
        &self,
        pods: &[(&Pod, PoolId)],
        body: &F,
        results: &mut BTreeMap<PoolId, R>,
    ) -> Result<(), RefusedReason>
    where
        F: Fn(PodId) -> R + Sync + Send,
        R: Send,
    {
        let is_here = |pool| worker_here::<P>().is_some_and(|here| here.pool == pool);
        let waiter =
            Waiter::here::<P>(self.id()).filter(|waiter| waiter.is_part_of_item(self.shared()));
        let mut made: Vec<_> = pods.iter().map(|_| None).collect();
        let queued = self.scope(|scope| {
            let mut own = None;
            for ((pod, pool), result) in pods.iter().zip(&mut made) {
                if results.contains_key(pool) {
                    continue;
                }
                if waiter.is_some() && is_here(*pool) {
                    own = Some((pod.id, result));
                    continue;
                }
                let cpu = pod.cpus.iter().next().expect("a pod has CPUs");
                let work = move || *result = is_here(*pool).then(|| body(pod.id));
                match scope.queue_there(Target::Cpu(cpu), Label::item::<F>(), work) {
                    Ok(()) | Err(RefusedReason::NoSuchCpu(_)) => {}
                    Err(reason) => return Err(reason),
                }
            }
            if let Some((pod, result)) = own {
                *result = Some(body(pod));
            }
            Ok(())
        });
        let made = pods.iter().zip(made).filter_map(|((_, pool), made)| Some((*pool, made?)));
        results.extend(made);
        queued
    }
}

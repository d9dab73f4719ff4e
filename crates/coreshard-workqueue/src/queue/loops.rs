//! Loops over slices and ranges, on a queue's workers.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

use super::workqueue::Workqueue;
use crate::base::error::Refused;
use crate::fork::{Chunks, Elements, Zip, reduce, spread};

impl<P: Platform> Workqueue<P> {
    /// Calls `map` with each element, on as many of the queue's workers as find time, and returns what it
    /// returned, in the order of the elements: of a slice (`&slice[..]`), one that is changed (`&mut slice[..]`), or a range (`0..n`).
    ///
    /// # Errors
    /// Where [`install`](Self::install) has one: `map` is dropped then, uncalled.
    ///
    /// # Panics
    /// With what the first call of `map` to panic threw, when none runs any more. Other elements may have been
    /// mapped; results are dropped.
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

    /// Calls `map` with each element, on as many of the queue's workers as find time, and brings the results
    /// together by `reduce`, two neighbours at a time, the earlier first; `None` where there is no element. How they are grouped
    /// depends on who finds time, so `reduce` is to be associative; it need not be commutative.
    ///
    /// # Errors
    /// Where [`install`](Self::install) has one: both are dropped then, uncalled.
    ///
    /// # Panics
    /// With what the first call of either to panic threw, when none runs any more.
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

    /// Calls `body` with each element, on as many of the queue's workers as find time, until one call returns an
    /// error: then no further element is begun. Of the errors that there were until then that is returned
    /// whose element comes first; an earlier element that was not begun might have been another.
    ///
    /// # Errors
    /// The outer one where [`install`](Self::install) has one: `body` is dropped then, uncalled. The inner one is that of `body`:
    /// elements before and after it may be done or not.
    ///
    /// # Panics
    /// With what the first call of `body` to panic threw, when none runs any more.
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
                // Relaxed: it spares work, and nothing depends on when it is seen.
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

    /// Calls `body` with chunks of `elements` elements, of which the last may have fewer, and with the number
    /// of elements before each, on as many of the queue's workers as find time.
    ///
    /// # Errors
    /// Where [`install`](Self::install) has one: `body` is dropped then, uncalled.
    ///
    /// # Panics
    /// Where a chunk is to have no element. With what the first call of `body` to panic threw, when none runs
    /// any more; other chunks may be done or not.
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

    /// Calls `run` on a worker, with how many of them there are.
    #[track_caller]
    fn on_workers<R: Send>(&self, run: impl FnOnce(usize) -> R + Send) -> Result<R, Refused> {
        let workers = self.shared().worker_limit();
        self.install(|| run(workers))
    }
}

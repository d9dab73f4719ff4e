//! The nested calls, mapped to each executor's functions.

pub(crate) trait Executor: Sync {
    /// Runs `work` on a worker, as the program would at its start.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R;
    /// A scope with one item.
    fn one(&self, work: impl FnOnce() + Send);
    /// A scope with two items.
    fn two(&self, a: impl FnOnce() + Send, b: impl FnOnce() + Send);
    fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B);
    /// A parallel loop, split into parts by the executor.
    fn each(&self, count: usize, body: impl Fn(usize) + Sync + Send);
    /// A scope with an item for each.
    fn items(&self, count: usize, body: impl Fn(usize) + Sync);
}

pub(crate) struct Coreshard(coreshard::Workqueue);

impl Coreshard {
    pub(crate) fn start() -> Self {
        let builder = coreshard::workqueue().expect("the machine can be read");
        Self(builder.name("nested").build().expect("a queue"))
    }

    /// Starts one that shares no worker with the other.
    pub(crate) fn start_apart() -> Self {
        let builder = coreshard::workqueue().expect("the machine can be read");
        let builder = builder.name("driver").scope(coreshard::Scope::System).rescuer(true);
        Self(builder.build().expect("a queue"))
    }
}

impl Executor for Coreshard {
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.install(work).expect("the queue is open")
    }

    fn one(&self, work: impl FnOnce() + Send) {
        self.0.scope(|scope| scope.queue(work).expect("the queue is open"));
    }

    fn two(&self, a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
        self.0.scope(|scope| {
            scope.queue(a).expect("the queue is open");
            scope.queue(b).expect("the queue is open");
        });
    }

    fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        coreshard::join(a, b)
    }

    fn each(&self, count: usize, body: impl Fn(usize) + Sync + Send) {
        let part = |numbers: std::ops::Range<usize>| numbers.for_each(&body);
        self.0.for_each_range(0..count, part).expect("the queue is open");
    }

    fn items(&self, count: usize, body: impl Fn(usize) + Sync) {
        let body = &body;
        self.0.scope(|scope| {
            for at in 0..count {
                scope.queue(move || body(at)).expect("the queue is open");
            }
        });
    }
}

pub(crate) struct Rayon(rayon::ThreadPool);

impl Rayon {
    pub(crate) fn start() -> Self {
        Self(rayon::ThreadPoolBuilder::new().build().expect("a pool"))
    }
}

impl Executor for Rayon {
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.install(work)
    }

    fn one(&self, work: impl FnOnce() + Send) {
        self.0.scope(|scope| scope.spawn(|_| work()));
    }

    fn two(&self, a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
        self.0.scope(|scope| {
            scope.spawn(|_| a());
            scope.spawn(|_| b());
        });
    }

    fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        rayon::join(a, b)
    }

    fn each(&self, count: usize, body: impl Fn(usize) + Sync + Send) {
        use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
        self.0.install(|| (0..count).into_par_iter().for_each(body));
    }

    fn items(&self, count: usize, body: impl Fn(usize) + Sync) {
        let body = &body;
        self.0.scope(|scope| {
            for at in 0..count {
                scope.spawn(move |_| body(at));
            }
        });
    }
}

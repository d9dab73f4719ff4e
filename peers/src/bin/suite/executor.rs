//! The executors that the programs fork on.

/// Makes two calls, or any number, in parallel if workers are available.
pub(crate) trait Executor: Sized + Sync {
    fn start(threads: usize) -> Result<Self, String>;

    /// Calls it on a worker.
    fn run<T: Send>(&self, main: impl FnOnce() -> T + Send) -> T;

    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send)
    -> (A, B);

    fn join_each<T: Send>(items: &mut [T], run: impl Fn(&mut T) + Sync);
}

pub(crate) struct Coreshard(coreshard::Workqueue);

impl Executor for Coreshard {
    fn start(threads: usize) -> Result<Self, String> {
        let runtime = coreshard::runtime_builder()
            .map_err(|error| error.to_string())?
            .workers(threads)
            .build()
            .map_err(|error| error.to_string())?;
        let queue = runtime.workqueue().name("suite").build().map_err(|error| error.to_string())?;
        Ok(Self(queue))
    }

    fn run<T: Send>(&self, main: impl FnOnce() -> T + Send) -> T {
        self.0.install(main).unwrap_or_else(|_| panic!("the queue is open"))
    }

    fn join<A: Send, B: Send>(
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        coreshard::join(a, b)
    }

    fn join_each<T: Send>(items: &mut [T], run: impl Fn(&mut T) + Sync) {
        coreshard::join_each(items, run);
    }
}

pub(crate) struct Rayon(rayon::ThreadPool);

impl Executor for Rayon {
    fn start(threads: usize) -> Result<Self, String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map(Self).map_err(|error| error.to_string())
    }

    fn run<T: Send>(&self, main: impl FnOnce() -> T + Send) -> T {
        self.0.install(main)
    }

    fn join<A: Send, B: Send>(
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        rayon::join(a, b)
    }

    /// Splits the items in halves, which suits Coreshard: a scope would cost more, with an allocation for each item.
    fn join_each<T: Send>(items: &mut [T], run: impl Fn(&mut T) + Sync) {
        fn each<T: Send>(items: &mut [T], run: &(impl Fn(&mut T) + Sync)) {
            match items {
                [] => {}
                [item] => run(item),
                [first, second] => {
                    rayon::join(|| run(first), || run(second));
                }
                _ => {
                    let (first, second) = items.split_at_mut(items.len() / 2);
                    rayon::join(|| each(first, run), || each(second, run));
                }
            }
        }
        each(items, &run);
    }
}

pub(crate) struct Plain;

impl Executor for Plain {
    fn start(_threads: usize) -> Result<Self, String> {
        Ok(Self)
    }

    fn run<T: Send>(&self, main: impl FnOnce() -> T + Send) -> T {
        main()
    }

    fn join<A: Send, B: Send>(
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        (a(), b())
    }

    fn join_each<T: Send>(items: &mut [T], run: impl Fn(&mut T) + Sync) {
        items.iter_mut().for_each(run);
    }
}

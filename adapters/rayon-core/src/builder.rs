//! Builds pools.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::build_error::ThreadPoolBuildError;
use crate::global;
use crate::pool::ThreadPool;
use crate::request::Request;
use crate::team::Team;
use crate::thread_builder::{CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadSpawn};

/// The most threads that a pool can have. A request for more gets this many.
pub fn max_num_threads() -> usize {
    Team::MAX_MEMBERS
}

/// Builds a [`ThreadPool`], or configures the global pool.
///
/// ```
/// # use rayon_core as rayon;
/// let pool = rayon::ThreadPoolBuilder::new()
///     .num_threads(4)
///     .thread_name(|index| format!("mail-{index}"))
///     .build()?;
/// assert_eq!(pool.current_num_threads(), 4);
///
/// rayon::ThreadPoolBuilder::new().num_threads(2).build_global()?;
/// assert_eq!(rayon::current_num_threads(), 2);
/// # Ok::<(), rayon::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    request: Request,
    spawn_handler: S,
}

// By hand: a derived one would be for every `S`, and `ThreadPoolBuilder::default()` be of no known type.
impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self { request: Request::default(), spawn_handler: DefaultSpawn }
    }
}

impl ThreadPoolBuilder {
    /// Returns a builder with default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a pool whose threads may borrow, and exit before this returns. `wrapper` is called on each of its threads and must
    /// call [`ThreadBuilder::run`]; `with_pool` is called on this thread.
    ///
    /// ```
    /// # use rayon_core as rayon;
    /// let name = String::from("borrowed");
    /// let length = rayon::ThreadPoolBuilder::new().num_threads(2).build_scoped(
    ///     |thread| {
    ///         println!("thread {} of {name}", thread.index());
    ///         thread.run();
    ///     },
    ///     |pool| pool.install(|| name.len()),
    /// )?;
    /// assert_eq!(length, 8);
    /// # Ok::<(), rayon::ThreadPoolBuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        let wrapper = &wrapper;
        std::thread::scope(|scope| {
            let start = |thread: ThreadBuilder| {
                let mut settings = std::thread::Builder::new();
                if let Some(name) = thread.name() {
                    settings = settings.name(name.to_owned());
                }
                if let Some(bytes) = thread.stack_size() {
                    settings = settings.stack_size(bytes);
                }
                settings.spawn_scoped(scope, move || wrapper(thread)).map(drop)
            };
            let pool = self.spawn_handler(start).build()?;
            Ok(with_pool(&pool))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Builds the pool.
    ///
    /// # Errors
    /// Fails if a thread cannot be started, if this thread is to be a member and belongs to another pool, if the process has no
    /// runtime, or if the environment has an invalid setting.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let number = BUILT.fetch_add(1, Relaxed) + 1;
        let name = format!("rayon-{number}");
        self.request.start(name, self.spawn_handler).map(ThreadPool::of)
    }

    /// Builds the global pool, which is otherwise built at its first use.
    ///
    /// # Errors
    /// Fails if it exists already, and as [`build`](Self::build) does.
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        global::make(self.request, self.spawn_handler)
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Lets `spawn` start the threads: it is called for each, and must make sure that [`ThreadBuilder::run`] is called on a
    /// separate thread.
    ///
    /// ```
    /// # use rayon_core as rayon;
    /// let pool = rayon::ThreadPoolBuilder::new()
    ///     .num_threads(2)
    ///     .spawn_handler(|thread| {
    ///         std::thread::Builder::new().name("mine".to_owned()).spawn(|| thread.run())?;
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// let name = pool.install(|| std::thread::current().name().map(str::to_owned));
    /// assert_eq!(name.as_deref(), Some("mine"));
    /// # Ok::<(), rayon::ThreadPoolBuildError>(())
    /// ```
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder { request: self.request, spawn_handler: CustomSpawn(spawn) }
    }

    /// Sets the function that returns a thread's name, by index.
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.request.get_thread_name = Some(Box::new(closure));
        self
    }

    /// Sets the number of threads. 0, the default: the value of `RAYON_NUM_THREADS`, or else the number of usable CPUs.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.request.common.num_threads = num_threads;
        self
    }

    /// Makes the thread that calls [`build`](Self::build) the member with index 0. It runs the pool's work while it waits for
    /// some of it. No hook is called on it.
    pub fn use_current_thread(mut self) -> Self {
        self.request.use_current_thread = true;
        self
    }

    /// Sets the handler of panics of spawned work and of the hooks. It gets the payload, on the thread that panicked. Without a
    /// handler, or if the handler panics, the process aborts.
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.request.common.panic_handler = Some(Arc::new(panic_handler));
        self
    }

    /// Sets the size of the threads' stacks, in bytes.
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.request.common.stack_size = Some(stack_size);
        self
    }

    /// Runs the spawned work of one thread in the order of its spawning.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.request.common.breadth_first = true;
        self
    }

    /// Sets a hook that is called first on each thread, with its index.
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.request.common.start_handler = Some(Arc::new(start_handler));
        self
    }

    /// Sets a hook that is called on each thread as it exits, with its index.
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.request.common.exit_handler = Some(Arc::new(exit_handler));
        self
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn closure<T>(given: &Option<T>) -> Option<fmt::Arguments<'static>> {
            given.as_ref().map(|_| format_args!("<closure>"))
        }
        let Request { common, use_current_thread, get_thread_name } = &self.request;
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &common.num_threads)
            .field("use_current_thread", use_current_thread)
            .field("get_thread_name", &closure(get_thread_name))
            .field("panic_handler", &closure(&common.panic_handler))
            .field("stack_size", &common.stack_size)
            .field("start_handler", &closure(&common.start_handler))
            .field("exit_handler", &closure(&common.exit_handler))
            .field("breadth_first", &common.breadth_first)
            .finish()
    }
}

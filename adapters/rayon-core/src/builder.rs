//! What is asked of a pool.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::build_error::ThreadPoolBuildError;
use crate::current::Team;
use crate::global;
use crate::pool::ThreadPool;
use crate::settings;
use crate::thread_builder::{CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadSpawn};
use crate::unwatched;

/// The most threads that a pool can have. Who asks for more has so many.
pub fn max_num_threads() -> usize {
    Team::MAX_MEMBERS
}

pub(crate) type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;
type ThreadHook = dyn Fn(usize) + Send + Sync;
type ThreadName = dyn FnMut(usize) -> String;

/// Makes a [`ThreadPool`], or says what the global pool is to be.
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
    num_threads: usize,
    use_current_thread: bool,
    panic_handler: Option<Arc<PanicHandler>>,
    get_thread_name: Option<Box<ThreadName>>,
    stack_size: Option<usize>,
    start_handler: Option<Arc<ThreadHook>>,
    exit_handler: Option<Arc<ThreadHook>>,
    spawn_handler: S,
    breadth_first: bool,
}

// By hand: a derived one would be for every `S`, and `ThreadPoolBuilder::default()` be of no known type.
impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self {
            num_threads: 0,
            use_current_thread: false,
            panic_handler: None,
            get_thread_name: None,
            stack_size: None,
            start_handler: None,
            exit_handler: None,
            spawn_handler: DefaultSpawn,
            breadth_first: false,
        }
    }
}

impl ThreadPoolBuilder {
    /// One that asks for nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a pool whose threads may borrow, and end before this returns. `wrapper` is called on each of its threads and is to
    /// call [`ThreadBuilder::run`]; `with_pool` on this one.
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
    /// Makes the pool.
    ///
    /// # Errors
    /// Where a thread cannot be started, this thread is to be one of the pool's and is another's, the process has no runtime, or
    /// the environment asks for what there is not.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let number = BUILT.fetch_add(1, Relaxed) + 1;
        self.start(format!("rayon-{number}")).map(ThreadPool::of)
    }

    /// Makes the global pool, which else is made when somebody first needs it.
    ///
    /// # Errors
    /// Where it is there already, and as [`build`](Self::build).
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        global::make(self)
    }

    /// Makes a team of this name, and says what another process needs to make it again.
    pub(crate) fn start_again(
        mut self,
        name: String,
    ) -> (Result<Team, ThreadPoolBuildError>, Recipe) {
        let names = Rc::new(RefCell::new(Vec::new()));
        if let Some(mut name_of) = self.get_thread_name.take() {
            let names = Rc::clone(&names);
            self.get_thread_name = Some(Box::new(move |index| {
                let name = name_of(index);
                names.borrow_mut().push((index, name.clone()));
                name
            }));
        }
        let recipe = Recipe {
            num_threads: self.num_threads,
            panic_handler: self.panic_handler.clone(),
            thread_names: Vec::new(),
            stack_size: self.stack_size,
            start_handler: self.start_handler.clone(),
            exit_handler: self.exit_handler.clone(),
            breadth_first: self.breadth_first,
        };
        let team = self.start(name);
        let thread_names = names.take();
        (team, Recipe { thread_names, ..recipe })
    }

    /// Makes a team of this name.
    pub(crate) fn start(self, name: String) -> Result<Team, ThreadPoolBuildError> {
        let settings = settings::get()?;
        let runtime = coreshard::runtime().map_err(ThreadPoolBuildError::other)?;
        let members = match self.num_threads {
            0 => settings::threads(),
            asked => asked,
        };
        let mut team = settings.apply(runtime.team(name)).members(members.min(max_num_threads()));
        if self.use_current_thread {
            team = team.with_current_thread();
        }
        let handler = self.panic_handler;
        team = team.on_panic(move |thrown| unwatched::tell(handler.as_deref(), thrown));
        if let Some(mut name) = self.get_thread_name {
            team = team.thread_names(move |index| Some(name(index)));
        }
        if let Some(bytes) = self.stack_size {
            team = team.stack_bytes(bytes);
        }
        if let Some(hook) = self.start_handler {
            team = team.on_start(move |index| hook(index));
        }
        if let Some(hook) = self.exit_handler {
            team = team.on_exit(move |index| hook(index));
        }
        if self.breadth_first {
            team = team.breadth_first();
        }
        self.spawn_handler.start(team).map_err(ThreadPoolBuildError::of)
    }
}

/// What is left of a builder after its team was made, for a process that is forked later. Closures that were called once for each thread
/// are replaced by their results: the threads' names, and threads of the runtime's own.
#[derive(Default)]
pub(crate) struct Recipe {
    num_threads: usize,
    panic_handler: Option<Arc<PanicHandler>>,
    thread_names: Vec<(usize, String)>,
    stack_size: Option<usize>,
    start_handler: Option<Arc<ThreadHook>>,
    exit_handler: Option<Arc<ThreadHook>>,
    breadth_first: bool,
}

impl Recipe {
    /// Returns a builder of such a team.
    pub(crate) fn builder(&self) -> ThreadPoolBuilder {
        let names = self.thread_names.clone();
        let name_of = move |index| {
            let named = names.iter().find(|(named, _)| *named == index);
            named.map(|(_, name)| name.clone()).unwrap_or_default()
        };
        let name_of: Box<ThreadName> = Box::new(name_of);
        ThreadPoolBuilder {
            num_threads: self.num_threads,
            use_current_thread: false,
            panic_handler: self.panic_handler.clone(),
            get_thread_name: (!self.thread_names.is_empty()).then_some(name_of),
            stack_size: self.stack_size,
            start_handler: self.start_handler.clone(),
            exit_handler: self.exit_handler.clone(),
            spawn_handler: DefaultSpawn,
            breadth_first: self.breadth_first,
        }
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Has `spawn` start the threads: it is called for each, and is to see to it that [`ThreadBuilder::run`] is called on a
    /// thread of its own.
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
        ThreadPoolBuilder {
            num_threads: self.num_threads,
            use_current_thread: self.use_current_thread,
            panic_handler: self.panic_handler,
            get_thread_name: self.get_thread_name,
            stack_size: self.stack_size,
            start_handler: self.start_handler,
            exit_handler: self.exit_handler,
            spawn_handler: CustomSpawn(spawn),
            breadth_first: self.breadth_first,
        }
    }

    /// What the thread of an index is called.
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.get_thread_name = Some(Box::new(closure));
        self
    }

    /// How many threads there are. 0, the default: as many as `RAYON_NUM_THREADS` says, else as CPUs may be used.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = num_threads;
        self
    }

    /// Makes the thread that calls [`build`](Self::build) the one with index 0. It does the pool's work while it waits for some
    /// of it, and no hook is called on it.
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// Is given what spawned work and the hooks throw, on the thread where it was thrown. Without one the process aborts, as it
    /// does where the handler throws itself.
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.panic_handler = Some(Arc::new(panic_handler));
        self
    }

    /// The size of the threads' stacks, in bytes.
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.stack_size = Some(stack_size);
        self
    }

    /// Has spawned work of one thread run in the order of its spawning.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.breadth_first = true;
        self
    }

    /// Is called on each thread before all else, with its index.
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.start_handler = Some(Arc::new(start_handler));
        self
    }

    /// Is called on each thread as it ends, with its index.
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.exit_handler = Some(Arc::new(exit_handler));
        self
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn closure<T>(given: &Option<T>) -> Option<fmt::Arguments<'static>> {
            given.as_ref().map(|_| format_args!("<closure>"))
        }
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("use_current_thread", &self.use_current_thread)
            .field("get_thread_name", &closure(&self.get_thread_name))
            .field("panic_handler", &closure(&self.panic_handler))
            .field("stack_size", &self.stack_size)
            .field("start_handler", &closure(&self.start_handler))
            .field("exit_handler", &closure(&self.exit_handler))
            .field("breadth_first", &self.breadth_first)
            .finish()
    }
}

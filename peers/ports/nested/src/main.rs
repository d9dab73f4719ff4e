//! Nested scopes, joins and loops, on Coreshard and on rayon: do they end, how long do they take, and how
//! many threads do they need?

mod executor;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use executor::{Coreshard, Executor, Rayon};

#[derive(Parser)]
#[command(about = "Nested scopes, joins and loops")]
struct Arguments {
    shape: Shape,
    executor: Which,
    /// The depth, or, for the last five shapes, the number of outer parts.
    size: u32,
    /// The lock that is held while the inner parts run.
    #[arg(long, default_value = "none")]
    lock: Held,
    /// The kind of inner parts in the last five shapes.
    #[arg(long, default_value = "join")]
    inner: Inner,
    /// The outer parts of the last five shapes are items of a scope, not parts of a loop.
    #[arg(long)]
    outer_items: bool,
    /// Depth of the inner tree; the inner loop and the inner scope have 2 to that power parts.
    #[arg(long, default_value_t = 6)]
    inner_depth: u32,
    /// Rounds of arithmetic of each leaf; one is about 1 ns.
    #[arg(long, default_value_t = 100)]
    work: u64,
    /// How often the shape is run, one after the other.
    #[arg(long, default_value_t = 1)]
    times: u32,
    #[arg(long, default_value_t = 60.0)]
    limit_s: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Coreshard,
    Rayon,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shape {
    /// A scope with one item, which opens a scope with one item, …
    ScopeChain,
    /// A scope with two items that each open a scope with two.
    ScopeTree,
    /// A join whose first half is the rest of the chain.
    JoinChainFirst,
    /// A join whose second half is the rest of the chain.
    JoinChainSecond,
    /// A join of two joins.
    JoinTree,
    /// A loop whose bodies hold a shared mutex while they wait for inner parts (rayon 592).
    #[value(alias = "rayon592")]
    UnderMutex,
    /// The same, with the inner parts in a separate pool, as a driver would have (rayon 1174).
    #[value(alias = "rayon1174")]
    OtherPool,
    /// A loop whose bodies share few cells, which inner parts fill at first use.
    UnderOnce,
    /// A loop whose body holds a lock for reading, or now and then for writing (rayon 1205).
    #[value(alias = "rayon1205")]
    UnderRwLock,
    /// A loop in a loop in a loop, with a mutex around the innermost.
    ThreeLoops,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Held {
    /// Nothing.
    None,
    /// A separate mutex for each part: no thread ever waits for it.
    Own,
    /// One mutex for each level: parts of the same level block one another.
    Level,
}

#[derive(Clone, Copy, ValueEnum)]
enum Inner {
    Join,
    Loop,
    Scope,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let limit = Duration::from_secs_f64(arguments.limit_s);
    harness::run(limit, Duration::from_micros(250), || match arguments.executor {
        Which::Coreshard => timed(&arguments, &Coreshard::start(), Coreshard::start_apart),
        Which::Rayon => timed(&arguments, &Rayon::start(), Rayon::start),
    })
}

fn timed<E: Executor>(
    arguments: &Arguments,
    executor: &E,
    other: impl FnOnce() -> E,
) -> harness::Done {
    let other = matches!(arguments.shape, Shape::OtherPool).then(other);
    let program = Program {
        arguments,
        executor,
        inner: other.as_ref().unwrap_or(executor),
        levels: (0..=arguments.size.min(4096)).map(|_| Mutex::new(())).collect(),
        leaves: AtomicU64::new(0),
    };
    harness::timed(|| {
        for _ in 0..arguments.times {
            program.run();
        }
        program.leaves.load(Relaxed)
    })
}

struct Program<'a, E> {
    arguments: &'a Arguments,
    executor: &'a E,
    /// The executor of the inner parts.
    inner: &'a E,
    levels: Vec<Mutex<()>>,
    leaves: AtomicU64,
}

impl<E: Executor> Program<'_, E> {
    fn run(&self) {
        let size = self.arguments.size;
        match self.arguments.shape {
            Shape::ScopeChain => self.scope_chain(size),
            Shape::ScopeTree => self.scope_tree(size),
            Shape::JoinChainFirst => self.executor.install(|| self.join_chain(size, true)),
            Shape::JoinChainSecond => self.executor.install(|| self.join_chain(size, false)),
            Shape::JoinTree => self.executor.install(|| self.join_tree(size)),
            Shape::UnderMutex | Shape::OtherPool => {
                let one_for_all = Mutex::new(());
                self.outer(|_| {
                    let _held = one_for_all.lock().expect("nobody panics");
                    self.inner_parts();
                });
            }
            Shape::UnderOnce => {
                let cells: Vec<_> =
                    (0..size.div_ceil(8)).map(|_| std::sync::OnceLock::new()).collect();
                self.outer(|at| {
                    cells[at / 8].get_or_init(|| self.inner_parts());
                });
            }
            Shape::UnderRwLock => {
                let one_for_all = std::sync::RwLock::new(());
                self.outer(|at| {
                    if at % 8 == 7 {
                        let _held = one_for_all.write().expect("nobody panics");
                        self.inner_parts();
                    } else {
                        let _held = one_for_all.read().expect("nobody panics");
                        self.inner_parts();
                    }
                });
            }
            Shape::ThreeLoops => {
                let one_for_all = Mutex::new(());
                self.outer(|_| {
                    self.executor.each(8, |_| {
                        let _held = one_for_all.lock().expect("nobody panics");
                        self.inner_parts();
                    });
                });
            }
        }
    }

    fn leaf(&self) {
        let mut value = 1_u64;
        for round in 0..self.arguments.work {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round));
        }
        self.leaves.fetch_add(1, Relaxed);
    }

    fn held<R>(&self, level: u32, inside: impl FnOnce() -> R) -> R {
        match self.arguments.lock {
            Held::None => inside(),
            Held::Own => {
                let own = Mutex::new(());
                let _held = own.lock().expect("it is not shared");
                inside()
            }
            Held::Level => {
                let _held = self.levels[level as usize].lock().expect("nobody panics");
                inside()
            }
        }
    }

    fn scope_chain(&self, depth: u32) {
        if depth == 0 {
            return self.leaf();
        }
        self.held(depth, || self.executor.one(|| self.scope_chain(depth - 1)));
    }

    fn scope_tree(&self, depth: u32) {
        if depth == 0 {
            return self.leaf();
        }
        self.held(depth, || {
            self.executor.two(|| self.scope_tree(depth - 1), || self.scope_tree(depth - 1));
        });
    }

    fn join_chain(&self, depth: u32, first: bool) {
        if depth == 0 {
            return self.leaf();
        }
        let (rest, leaf) = (|| self.join_chain(depth - 1, first), || self.leaf());
        self.held(depth, || {
            if first {
                self.executor.join(rest, leaf);
            } else {
                self.executor.join(leaf, rest);
            }
        });
    }

    fn join_tree(&self, depth: u32) {
        if depth == 0 {
            return self.leaf();
        }
        self.held(depth, || {
            self.executor.join(|| self.join_tree(depth - 1), || self.join_tree(depth - 1));
        });
    }

    fn outer(&self, body: impl Fn(usize) + Sync + Send) {
        if self.arguments.outer_items {
            self.executor.items(self.arguments.size as usize, body);
        } else {
            self.executor.each(self.arguments.size as usize, body);
        }
    }

    fn inner_parts(&self) {
        let depth = self.arguments.inner_depth;
        match self.arguments.inner {
            // `install` is a plain call on a worker of that pool.
            Inner::Join => self.inner.install(|| self.inner_tree(depth)),
            Inner::Loop => self.inner.each(1 << depth, |_| self.leaf()),
            Inner::Scope => self.inner.items(1 << depth, |_| self.leaf()),
        }
    }

    fn inner_tree(&self, depth: u32) {
        if depth == 0 {
            return self.leaf();
        }
        self.inner.join(|| self.inner_tree(depth - 1), || self.inner_tree(depth - 1));
    }
}

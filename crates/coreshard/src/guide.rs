//! Guides for users of other libraries, and example programs. The tests compile and run every program here.
//!
//! - [Coming from rayon](from_rayon), [from tokio](from_tokio), [from the Linux kernel's workqueue](from_the_kernel):
//!   equivalents and differences of each call.
//! - The [cookbook]: one page for each of fifteen tasks.
//!
//! The repository's `docs/WORKQUEUE.md` describes how a queue works, what it rejects, and what it costs.

#[doc = include_str!("guide/from_rayon.md")]
#[doc(alias("rayon", "par_iter", "parallel iterator", "ThreadPool"))]
pub mod from_rayon {}

#[doc = include_str!("guide/from_tokio.md")]
#[doc(alias("tokio", "spawn_blocking", "block_in_place", "Semaphore", "select"))]
pub mod from_tokio {}

#[doc = include_str!("guide/from_the_kernel.md")]
#[doc(alias(
    "alloc_workqueue",
    "queue_work",
    "mod_delayed_work",
    "cancel_work_sync",
    "WQ_UNBOUND"
))]
pub mod from_the_kernel {}

/// Example programs, one page per task, with search aliases.
///
/// | task | page |
/// |---|---|
/// | limit concurrency | [`bounded_concurrency`](cookbook::bounded_concurrency) |
/// | process borrowed data | [`borrowed_data`](cookbook::borrowed_data) |
/// | handle panics | [`panics`](cookbook::panics) |
/// | run something periodically or later | [`periodic_work`](cookbook::periodic_work) |
/// | cancel work | [`cancelling`](cookbook::cancelling) |
/// | limit waiting times | [`time_outs`](cookbook::time_outs) |
/// | shut down on SIGTERM | [`shutdown_on_sigterm`](cookbook::shutdown_on_sigterm) |
/// | run work on a NUMA node | [`numa_node`](cookbook::numa_node) |
/// | use tokio's sockets, and queues for computations | [`beside_tokio`](cookbook::beside_tokio) |
/// | write a web service | [`hyper_and_axum`](cookbook::hyper_and_axum) |
/// | use queues in a library | [`in_a_library`](cookbook::in_a_library) |
/// | trace and export metrics | [`tracing_and_metrics`](cookbook::tracing_and_metrics) |
/// | limit memory and waiting | [`back_pressure`](cookbook::back_pressure) |
/// | nest parallel loops | [`nested_parallelism`](cookbook::nested_parallelism) |
/// | write deterministic tests | [`deterministic_tests`](cookbook::deterministic_tests) |
pub mod cookbook {
    #[doc = include_str!("guide/cookbook/bounded_concurrency.md")]
    #[doc(alias("bounded concurrency", "semaphore", "concurrency limit", "buffer_unordered"))]
    pub mod bounded_concurrency {}

    #[doc = include_str!("guide/cookbook/borrowed_data.md")]
    #[doc(alias("borrowed data", "scoped threads", "without Arc", "parallel loop"))]
    pub mod borrowed_data {}

    #[doc = include_str!("guide/cookbook/panics.md")]
    #[doc(alias("panic", "catch_unwind", "panic handler", "unwinding"))]
    pub mod panics {}

    #[doc = include_str!("guide/cookbook/periodic_work.md")]
    #[doc(alias("periodic work", "interval", "timer", "cron", "every second", "debounce"))]
    pub mod periodic_work {}

    #[doc = include_str!("guide/cookbook/cancelling.md")]
    #[doc(alias("cancel", "cancellation", "abort", "stop token"))]
    pub mod cancelling {}

    #[doc = include_str!("guide/cookbook/time_outs.md")]
    #[doc(alias("timeout", "time-out", "deadline", "time limit"))]
    pub mod time_outs {}

    #[doc = include_str!("guide/cookbook/shutdown_on_sigterm.md")]
    #[doc(alias("SIGTERM", "SIGINT", "signal", "graceful shutdown", "ctrl-c"))]
    pub mod shutdown_on_sigterm {}

    #[doc = include_str!("guide/cookbook/numa_node.md")]
    #[doc(alias("NUMA", "node", "memory locality", "pin to node"))]
    pub mod numa_node {}

    #[doc = include_str!("guide/cookbook/beside_tokio.md")]
    #[doc(alias("beside tokio", "tokio::main", "CPU-bound in async"))]
    pub mod beside_tokio {}

    #[doc = include_str!("guide/cookbook/hyper_and_axum.md")]
    #[doc(alias("hyper", "axum", "web server", "HTTP", "503"))]
    pub mod hyper_and_axum {}

    #[doc = include_str!("guide/cookbook/in_a_library.md")]
    #[doc(alias("library", "choose the runtime", "global runtime", "dependency injection"))]
    pub mod in_a_library {}

    #[doc = include_str!("guide/cookbook/tracing_and_metrics.md")]
    #[doc(alias("tracing", "metrics", "observability", "logging", "prometheus", "histogram"))]
    pub mod tracing_and_metrics {}

    #[doc = include_str!("guide/cookbook/back_pressure.md")]
    #[doc(alias("back-pressure", "backpressure", "memory", "bounded channel", "load shedding"))]
    pub mod back_pressure {}

    #[doc = include_str!("guide/cookbook/nested_parallelism.md")]
    #[doc(alias(
        "nested parallelism",
        "nested loops",
        "recursion",
        "divide and conquer",
        "deadlock"
    ))]
    pub mod nested_parallelism {}

    #[doc = include_str!("guide/cookbook/deterministic_tests.md")]
    #[doc(alias("deterministic test", "testing", "unit test", "reproducible"))]
    pub mod deterministic_tests {}
}

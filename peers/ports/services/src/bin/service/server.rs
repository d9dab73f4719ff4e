//! The server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use clap::ValueEnum;
use tokio::sync::{Semaphore, oneshot};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    executor: Which,
    /// Rounds of arithmetic of a request, about 1 ns each.
    #[arg(long, default_value_t = 2_000_000)]
    work: u64,
    /// How many requests wait or run at once.
    #[arg(long, default_value_t = 64)]
    bound: usize,
    /// Requests that have waited longer than this before they begin are dropped.
    #[arg(long, default_value_t = 200)]
    deadline_ms: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Which {
    /// A workqueue; connections on a tokio runtime of one thread.
    Coreshard,
    /// `tokio::task::spawn_blocking`; connections on tokio's runtime of several threads.
    SpawnBlocking,
    /// `rayon::spawn` and a oneshot; connections on tokio's runtime of several threads.
    Rayon,
    /// None: the handler itself computes, on tokio's runtime of several threads.
    Inline,
}

/// The executor of heavy work.
enum Heavy {
    Coreshard(coreshard::Workqueue),
    SpawnBlocking,
    Rayon,
    Inline,
}

struct Service {
    heavy: Heavy,
    /// The bound: one permit for each request that waits or runs. Together with `answer`, it stands in for a queue with a
    /// capacity.
    permits: Arc<Semaphore>,
    work: u64,
    deadline: Duration,
}

pub(crate) fn run(arguments: &Arguments) {
    let mut builder = match arguments.executor {
        Which::Coreshard => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().expect("a runtime");
    let heavy = match arguments.executor {
        Which::Coreshard => {
            let builder = coreshard::workqueue().expect("the machine can be read");
            Heavy::Coreshard(builder.name("heavy").build().expect("a queue"))
        }
        Which::SpawnBlocking => Heavy::SpawnBlocking,
        Which::Rayon => Heavy::Rayon,
        Which::Inline => Heavy::Inline,
    };
    let service = Arc::new(Service {
        heavy,
        permits: Arc::new(Semaphore::new(arguments.bound)),
        work: arguments.work,
        deadline: Duration::from_millis(arguments.deadline_ms),
    });
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("it can be read");
        std::process::exit(0);
    });
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = tokio::net::TcpListener::bind(address).await.expect("a port is free");
        println!("{}", listener.local_addr().expect("it is bound").port());
        let app = Router::new().route("/", get(move || answer(Arc::clone(&service))));
        axum::serve(listener, app).await.expect("it goes on");
    });
}

async fn answer(service: Arc<Service>) -> Result<String, StatusCode> {
    let Ok(permit) = Arc::clone(&service.permits).try_acquire_owned() else {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    };
    let came = Instant::now();
    let (work, deadline) = (service.work, service.deadline);
    let item = move || {
        let _permit = permit;
        (came.elapsed() < deadline).then(|| compute(work))
    };
    let computed = match &service.heavy {
        // The only call of `Workqueue` that returns a future here.
        Heavy::Coreshard(queue) => queue.spawn(async { item() }).expect("the queue is open").await,
        Heavy::SpawnBlocking => tokio::task::spawn_blocking(item).await.expect("it does not panic"),
        Heavy::Rayon => {
            let (give, take) = oneshot::channel();
            rayon::spawn(|| {
                // The client may have disconnected.
                let _gone = give.send(item());
            });
            take.await.expect("it does not panic")
        }
        Heavy::Inline => item(),
    };
    computed.map(|value| format!("{value:016x}")).ok_or(StatusCode::GATEWAY_TIMEOUT)
}

fn compute(work: u64) -> u64 {
    (0..work).fold(1_u64, |value, round| {
        std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round))
    })
}

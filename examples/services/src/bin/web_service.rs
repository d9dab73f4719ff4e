//! A web service whose handlers compute: axum's connections run on tokio, the computations on Coreshard.
//!
//! ```text
//! web-service --listen 127.0.0.1:8080 --capacity 64 --deadline-ms 2000 --grace-ms 10000
//! curl '127.0.0.1:8080/primes?below=1000000'      # 78498; 503 and Retry-After when 64 requests wait, 504 when it is late
//! curl -X POST '127.0.0.1:8080/jobs?below=1000'   # 202: queued, nobody waits for it
//! curl 127.0.0.1:8080/metrics                     # the queues' counts for Prometheus
//! ```
//!
//! SIGTERM shuts it down gracefully: it accepts no more connections, and requests and jobs get a grace period. Then it drops work that
//! has not begun (the client gets a 503), tells running work to stop, and prints how much was left.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Router;
use axum::extract::Query;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::Parser;
use coreshard::integration::tower::{ServiceError, ServiceErrorReason, WorkqueueLayer};
use coreshard::{CancellationToken, RefusedReason, Workqueue};
use services::{end, prometheus, terminated};
use tower::ServiceExt;

/// Seconds after which a rejected client may retry.
const RETRY_AFTER_S: &str = "1";

#[derive(Parser)]
struct Arguments {
    /// The address to listen on; port 0 takes any, which is printed on standard output.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How many requests, and how many jobs, may wait to begin.
    #[arg(long, default_value_t = 64)]
    capacity: usize,
    /// How long a request may take.
    #[arg(long, default_value_t = 2_000)]
    deadline_ms: u64,
    /// How long requests and jobs may continue after SIGTERM.
    #[arg(long, default_value_t = 10_000)]
    grace_ms: u64,
    /// How many requests run at once; by default as many as CPUs.
    #[arg(long)]
    workers: Option<usize>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // tokio only serves connections: one thread is enough.
    let sockets =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let queue = |name| -> anyhow::Result<Workqueue> {
        let builder = coreshard::workqueue()?.name(name).capacity(arguments.capacity);
        Ok(match arguments.workers {
            Some(workers) => builder.max_active(workers).build()?,
            None => builder.build()?,
        })
    };
    let (requests, jobs) = (queue("requests")?, queue("jobs")?);
    sockets.block_on(serve(&arguments, requests, jobs))
}

async fn serve(
    arguments: &Arguments,
    requests: Workqueue,
    jobs: Workqueue,
) -> anyhow::Result<ExitCode> {
    // All computations check a child of this token.
    let service = CancellationToken::new();
    let stopping = CancellationToken::new();
    let app = app(arguments, requests.clone(), jobs.clone(), &service);
    let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
    writeln!(io::stdout(), "listens on {}", listener.local_addr()?)?;
    let mut server = tokio::spawn({
        let stopping = stopping.clone();
        let until = async move { stopping.cancelled().await };
        axum::serve(listener, app).with_graceful_shutdown(until).into_future()
    });
    tokio::select! {
        signalled = terminated() => signalled.context("signals cannot be listened to")?,
        ended = &mut server => ended??,
    }

    stopping.cancel();
    let deadline = Instant::now() + Duration::from_millis(arguments.grace_ms);
    let in_time = tokio::time::timeout_at(deadline.into(), &mut server).await;
    // It blocks, as do the drops of the last handles.
    let left = tokio::task::spawn_blocking(move || end(&[requests, jobs], deadline)).await?;
    for left in &left {
        writeln!(io::stdout(), "left at the end: {left}")?;
    }
    service.cancel();
    match in_time {
        Ok(ended) => ended??,
        // Clients were told that their requests were dropped; connections that neither read nor close are abandoned.
        Err(_late) => {
            if let Ok(ended) = tokio::time::timeout(Duration::from_secs(1), &mut server).await {
                ended??;
            } else {
                server.abort();
            }
        }
    }
    writeln!(io::stdout(), "ended")?;
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(serde::Deserialize)]
struct Wanted {
    below: u64,
}

fn app(
    arguments: &Arguments,
    requests: Workqueue,
    jobs: Workqueue,
    service: &CancellationToken,
) -> Router {
    let of_service = service.clone();
    let primes = WorkqueueLayer::new(requests)
        .shed()
        .deadline(Duration::from_millis(arguments.deadline_ms))
        .service_fn(move |below, request: CancellationToken| {
            let is_wanted = || !request.is_cancelled() && !of_service.is_cancelled();
            Ok::<_, Infallible>(count_primes(below, is_wanted))
        });
    let answer = async move |Query(Wanted { below }): Query<Wanted>| {
        match primes.clone().oneshot(below).await {
            Ok(Some(count)) => format!("{count}\n").into_response(),
            // The service ends, and this one had begun.
            Ok(None) => busy("the service is about to end"),
            Err(error) => refusal(&error),
        }
    };
    let of_service = service.clone();
    let queue_job = async move |Query(Wanted { below }): Query<Wanted>| {
        let service = of_service.clone();
        let job = move || {
            let _count = count_primes(below, || !service.is_cancelled());
        };
        match jobs.try_queue(job).map_err(RefusedReason::from) {
            Ok(()) => StatusCode::ACCEPTED.into_response(),
            Err(reason) => busy(&reason.to_string()),
        }
    };
    let metrics = async || match coreshard::runtime() {
        Ok(runtime) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
            (kind, prometheus(&runtime.stats())).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    Router::new()
        .route("/primes", get(answer))
        .route("/jobs", post(queue_job))
        .route("/metrics", get(metrics))
}

fn busy(why: &str) -> Response {
    let retry = [(header::RETRY_AFTER, RETRY_AFTER_S)];
    (StatusCode::SERVICE_UNAVAILABLE, retry, format!("{why}\n")).into_response()
}

fn refusal(error: &ServiceError<Infallible>) -> Response {
    let status = match error.reason() {
        ServiceErrorReason::Overloaded
        | ServiceErrorReason::Refused(_)
        | ServiceErrorReason::Dropped => return busy(&error.to_string()),
        ServiceErrorReason::DeadlineExceeded { .. } => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, format!("{error}\n")).into_response()
}

/// Counts the primes below a number, by trial division; `None` once the result is no longer wanted.
fn count_primes(below: u64, is_wanted: impl Fn() -> bool) -> Option<u64> {
    let mut count = 0;
    for number in 2..below {
        if number % 256 == 0 && !is_wanted() {
            return None;
        }
        let is_prime = (2..).take_while(|by| by * by <= number).all(|by| number % by != 0);
        count += u64::from(is_prime);
    }
    Some(count)
}

//! HTTP/1 and HTTP/2 on hyper: connections and their tasks run on a Coreshard queue, which is hyper's executor and timer. The
//! sockets use a tokio runtime that the workers have entered.
//!
//! ```text
//! hyper-server --listen 127.0.0.1:8080
//! curl 127.0.0.1:8080/                           # hello over HTTP/1.1
//! curl --http2-prior-knowledge 127.0.0.1:8080/   # hello over HTTP/2.0
//! ```
//!
//! SIGTERM: it answers requests that have begun, for the grace period at most.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use coreshard::{CancellationToken, Workqueue};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use services::terminated;
use tokio::net::TcpListener;

#[derive(Clone, Parser)]
struct Arguments {
    /// The address to listen on; port 0 takes any, which is printed on standard output.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How long a client of HTTP/1 may take for a request's head.
    #[arg(long, default_value_t = 5_000)]
    head_ms: u64,
    /// How long requests may continue after SIGTERM.
    #[arg(long, default_value_t = 10_000)]
    grace_ms: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let sockets =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let in_tokio = coreshard::integration::tokio::enter(sockets.handle());
    let queue = coreshard::workqueue()?.name("connections").hooks(in_tokio).build()?;
    let stop = CancellationToken::new();
    let server = queue.spawn(serve(arguments, queue.clone(), stop.clone()))?;
    let signalled = sockets.block_on(async {
        tokio::pin!(server);
        tokio::select! {
            ended = &mut server => return ended,
            signalled = terminated() => signalled?,
        }
        stop.cancel();
        server.await
    });
    // Before its sockets.
    drop(queue);
    signalled
}

async fn serve(
    arguments: Arguments,
    queue: Workqueue,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(arguments.listen).await?;
    writeln!(io::stdout(), "listens on {}", listener.local_addr()?)?;
    let connections = GracefulShutdown::new();
    let mut http = auto::Builder::new(queue.clone());
    http.http1().timer(queue.clone()).header_read_timeout(Duration::from_millis(arguments.head_ms));
    http.http2().timer(queue.clone()).keep_alive_interval(Some(Duration::from_secs(20)));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // For example, with too many open files: other connections may end meanwhile.
            Err(error) => {
                writeln!(io::stderr(), "a connection is not accepted: {error}")?;
                queue.sleep(Duration::from_millis(100))?.await;
                continue;
            }
        };
        stream.set_nodelay(true)?;
        let connection = http.serve_connection(TokioIo::new(stream), service_fn(answer));
        let connection = connections.watch(connection.into_owned());
        // A client may disconnect in the middle of a request.
        queue.spawn(async move { drop(connection.await) })?.detach();
    }
    drop(listener);
    let grace = Duration::from_millis(arguments.grace_ms);
    let told = match coreshard::timeout(grace, connections.shutdown()).await {
        Ok(()) => "ended".to_owned(),
        Err(late) => format!("ended, with connections that are left: {late}"),
    };
    writeln!(io::stdout(), "{told}")?;
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = match request.uri().path() {
        "/" => format!("hello over {:?}\n", request.version()),
        // The name of this thread.
        "/thread" => format!("{}\n", std::thread::current().name().unwrap_or_default()),
        _ => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok(response);
        }
    };
    Ok(Response::new(Full::new(text.into())))
}

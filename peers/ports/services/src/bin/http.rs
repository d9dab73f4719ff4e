//! A hyper server that answers each request with a few bytes: over HTTP/1 or HTTP/2, its tasks on Coreshard or on
//! tokio's threads. It serves until its standard input ends.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::bounds::Http2ServerConnExec;
use hyper::rt::{Read, Write};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use services::{AsyncIoStream, PolledReactor};

#[derive(Parser)]
struct Arguments {
    executor: Which,
    /// 1 or 2.
    protocol: u8,
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// For `coreshard`: reactors, each on a separate thread.
    #[arg(long, default_value_t = 1)]
    reactors: usize,
    /// Rounds of arithmetic for each request, about 1 ns each.
    #[arg(long, default_value_t = 0)]
    work: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// Tasks on a workqueue, sockets on tokio's reactor.
    Coreshard,
    /// Tasks on a workqueue, sockets on async-io's reactor.
    CoreshardAsyncIo,
    /// Tasks on a workqueue, sockets on a reactor that an item of the queue polls: an experiment.
    CoreshardPolled,
    /// Tasks on a workqueue, sockets on a tokio runtime that idle workers drive.
    CoreshardDriven,
    /// tokio's runtime of several threads.
    Tokio,
    /// tokio's runtime of one thread.
    TokioOneThread,
}

fn main() {
    let arguments = Arguments::parse();
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port)))
        .expect("the port is free");
    println!("{}", listener.local_addr().expect("it is bound").port());
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("it can be read");
        std::process::exit(0);
    });
    match arguments.executor {
        Which::Coreshard => on_coreshard(&arguments, &listener),
        Which::CoreshardAsyncIo => on_coreshard_with_async_io(&arguments, &listener),
        Which::CoreshardPolled => on_coreshard_polled(&arguments, &listener),
        Which::CoreshardDriven => on_coreshard_driven(&arguments, &listener),
        Which::Tokio | Which::TokioOneThread => on_tokio(&arguments, listener),
    }
}

fn queue() -> coreshard::Workqueue {
    let builder = coreshard::workqueue().expect("the machine can be read");
    builder.name("http").build().expect("a queue")
}

fn on_coreshard(arguments: &Arguments, listener: &TcpListener) {
    let queue = queue();
    let reactors: Vec<_> = (0..arguments.reactors)
        .map(|number| services::tokio_reactor(&format!("reactor-{number}")))
        .collect();
    for reactor in reactors.iter().cycle() {
        let stream = accept(listener);
        let stream = {
            let _registers = reactor.enter();
            TokioIo::new(tokio::net::TcpStream::from_std(stream).expect("a reactor"))
        };
        let connection = connection(stream, arguments.protocol, queue.clone(), arguments.work);
        queue.spawn(connection).expect("the queue is open").detach();
    }
}

fn on_coreshard_with_async_io(arguments: &Arguments, listener: &TcpListener) {
    let queue = queue();
    loop {
        let stream = async_io::Async::new(accept(listener)).expect("a reactor");
        let stream = AsyncIoStream(stream);
        let connection = connection(stream, arguments.protocol, queue.clone(), arguments.work);
        queue.spawn(connection).expect("the queue is open").detach();
    }
}

fn on_coreshard_polled(arguments: &Arguments, listener: &TcpListener) {
    let queue = queue();
    let reactor = PolledReactor::start(&queue);
    loop {
        let stream = reactor.stream(accept(listener));
        let connection = connection(stream, arguments.protocol, queue.clone(), arguments.work);
        queue.spawn(connection).expect("the queue is open").detach();
    }
}

fn on_coreshard_driven(arguments: &Arguments, listener: &TcpListener) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a reactor");
    let handle = runtime.handle().clone();
    let hooks = coreshard::integration::tokio::drive(runtime).expect("it has one thread");
    let builder = coreshard::workqueue().expect("the machine can be read");
    let queue = builder.name("http").hooks(hooks).build().expect("a queue");
    loop {
        let stream = accept(listener);
        let stream = {
            let _registers = handle.enter();
            TokioIo::new(tokio::net::TcpStream::from_std(stream).expect("a reactor"))
        };
        let connection = connection(stream, arguments.protocol, queue.clone(), arguments.work);
        queue.spawn(connection).expect("the queue is open").detach();
    }
}

fn on_tokio(arguments: &Arguments, listener: TcpListener) {
    let mut builder = match arguments.executor {
        Which::TokioOneThread => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().expect("a runtime");
    listener.set_nonblocking(true).expect("it can be set");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a reactor");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("it can be set");
            let executor = TokioExecutor::new();
            let stream = TokioIo::new(stream);
            tokio::spawn(connection(stream, arguments.protocol, executor, arguments.work));
        }
    });
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("a connection");
    stream.set_nonblocking(true).expect("it can be set");
    stream.set_nodelay(true).expect("it can be set");
    stream
}

async fn connection<S, E>(stream: S, protocol: u8, executor: E, work: u64)
where
    S: Read + Write + Unpin + Send + 'static,
    E: Http2ServerConnExec<<Hello as Service<Request<Incoming>>>::Future, Full<Bytes>> + Unpin,
{
    let service = Hello { work };
    // A client may disconnect in the middle of a request.
    let _closed = if protocol == 1 {
        hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await
    } else {
        hyper::server::conn::http2::Builder::new(executor).serve_connection(stream, service).await
    };
}

struct Hello {
    work: u64,
}

impl Service<Request<Incoming>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, _request: Request<Incoming>) -> Self::Future {
        let mut value = 1_u64;
        for round in 0..self.work {
            value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) ^ round);
        }
        ready(Ok(Response::new(Full::new(Bytes::from_static(b"Hello, world!")))))
    }
}

//! A log that clients append lines to over TCP: each line is acknowledged when it is on the disk, and one flush serves many.
//!
//! ```text
//! batch-writer --listen 127.0.0.1:8081 --file log --most-records 64 --longest-ms 5
//! printf 'a\nb\n' | nc -N 127.0.0.1 8081       # answers: 0, 1
//! ```
//!
//! SIGTERM: it writes the received lines, and prints the numbers of records and flushes.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use coreshard::{CancellationToken, JoinSet, Workqueue};
use services::{BatchWriter, terminated};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[derive(Parser)]
struct Arguments {
    /// The address to listen on; port 0 takes any, which is printed on standard output.
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// The file that lines are appended to.
    #[arg(long)]
    file: PathBuf,
    /// How many records make a batch.
    #[arg(long, default_value_t = 64)]
    most_records: usize,
    /// How long the first record of a batch waits for others.
    #[arg(long, default_value_t = 5)]
    longest_ms: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let sockets =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let in_tokio = coreshard::integration::tokio::enter(sockets.handle());
    coreshard::configure(move |builder| builder.add_hooks(in_tokio.clone()))?;
    let queue = coreshard::workqueue()?.name("log").build()?;
    let file = File::options().append(true).create(true).open(&arguments.file)?;
    let longest = Duration::from_millis(arguments.longest_ms);
    let writer = BatchWriter::new(file, queue.clone(), arguments.most_records, longest);
    let writer = Arc::new(writer);
    let stop = CancellationToken::new();
    let server = serve(arguments.listen, queue.clone(), Arc::clone(&writer), stop.clone());
    let server = queue.spawn(server)?;
    sockets.block_on(async {
        tokio::pin!(server);
        tokio::select! {
            ended = &mut server => return ended,
            signalled = terminated() => signalled?,
        }
        stop.cancel();
        server.await
    })?;
    writer.flush()?;
    let (records, flushes) = writer.counts();
    writeln!(io::stdout(), "{records} records, {flushes} flushes")?;
    Ok(())
}

async fn serve(
    listen: SocketAddr,
    queue: Workqueue,
    writer: Arc<BatchWriter>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    writeln!(io::stdout(), "listens on {}", listener.local_addr()?)?;
    // Dropping it drops the connections.
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let (stream, _) = accepted?;
        stream.set_nodelay(true)?;
        connections.spawn(&queue, connection(stream, Arc::clone(&writer)))?;
        // Removes the connections that have ended.
        while let Some(Some(_ended)) = now(connections.join_next()).await {}
    }
    Ok(())
}

/// The output of a future, if it is ready.
async fn now<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = std::future::ready(()) => None,
    }
}

async fn connection(mut stream: TcpStream, writer: Arc<BatchWriter>) -> anyhow::Result<()> {
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input);
    let mut line = String::new();
    while input.read_line(&mut line).await? > 0 {
        if !line.ends_with('\n') {
            line.push('\n');
        }
        let number = writer.append(line.as_bytes())?.await?;
        output.write_all(format!("{number}\n").as_bytes()).await?;
        line.clear();
    }
    Ok(())
}

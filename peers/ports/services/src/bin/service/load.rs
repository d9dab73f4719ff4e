//! The calls.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    port: u16,
    /// Requests a second.
    rate: f64,
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Answers that take longer than this count as late.
    #[arg(long, default_value_t = 200)]
    deadline_ms: u64,
}

#[derive(Default)]
struct Came {
    /// From the time a request was due until it was answered with 200, in microseconds.
    good_us: Vec<u64>,
    late: u64,
    refused: u64,
    dropped: u64,
    failed: u64,
}

pub(crate) fn run(arguments: &Arguments) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let came = Arc::new(Mutex::new(Came::default()));
    let free = Arc::new(Mutex::new(Vec::new()));
    let count = (arguments.rate * arguments.seconds) as u32;
    let deadline = Duration::from_millis(arguments.deadline_ms);
    let port = arguments.port;
    let mut latest = Duration::ZERO;
    runtime.block_on(async {
        let began = Instant::now() + Duration::from_millis(20);
        let mut calls = tokio::task::JoinSet::new();
        // Exponential intervals, as between the calls of many independent users.
        let (mut random, mut at) = (0x2545_f491_4f6c_dd1d_u64, 0.0);
        for _ in 0..count {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let uniform = ((random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            at += -uniform.ln() / arguments.rate;
            let due = began + Duration::from_secs_f64(at);
            tokio::time::sleep_until(due.into()).await;
            latest = latest.max(due.elapsed());
            let (came, free) = (Arc::clone(&came), Arc::clone(&free));
            calls.spawn(async move {
                let connection = free.lock().expect("nobody panics").pop();
                let answer = call(port, connection).await;
                let took = due.elapsed();
                let mut came = came.lock().expect("nobody panics");
                match answer {
                    Ok((200, connection)) => {
                        free.lock().expect("nobody panics").push(connection);
                        came.good_us.push(took.as_micros() as u64);
                        came.late += u64::from(took > deadline);
                    }
                    Ok((status, connection)) => {
                        free.lock().expect("nobody panics").push(connection);
                        if status == 503 { came.refused += 1 } else { came.dropped += 1 }
                    }
                    Err(_) => came.failed += 1,
                }
            });
        }
        while calls.join_next().await.is_some() {}
        let seconds = began.elapsed().as_secs_f64();
        let mut came = came.lock().expect("nobody panics");
        came.good_us.sort_unstable();
        let of = |part: f64| {
            let at = (came.good_us.len() as f64 * part) as usize;
            came.good_us.get(at.min(came.good_us.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        let report = serde_json::json!({
            "sent": count,
            "seconds": seconds,
            "goodput": (came.good_us.len() as f64 - came.late as f64) / seconds,
            "p50_us": of(0.5),
            "p99_us": of(0.99),
            "max_us": of(1.0),
            "late": came.late,
            "refused": came.refused,
            "dropped": came.dropped,
            "failed": came.failed,
            "connections": free.lock().expect("nobody panics").len(),
            "sender_latest_us": latest.as_micros() as u64,
        });
        println!("{report}");
    });
}

/// The status, and the connection for the next call.
async fn call(port: u16, connection: Option<TcpStream>) -> std::io::Result<(u16, TcpStream)> {
    let mut connection = match connection {
        Some(connection) => connection,
        None => {
            let made = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
            made.set_nodelay(true)?;
            made
        }
    };
    connection.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
    let mut bytes = Vec::with_capacity(512);
    loop {
        if connection.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap_or(0)) {
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            return Ok((status.unwrap_or(0), connection));
        }
    }
}

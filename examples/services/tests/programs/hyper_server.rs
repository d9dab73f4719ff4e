use std::io::{Read, Write};
use std::net::TcpStream;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use testing::NEVER;

use crate::child::Server;
use crate::http::get;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hyper-server");

#[test]
fn both_protocols_are_served_on_coreshards_workers() {
    let server = Server::start(PROGRAM, &["--grace-ms", "60000"]);
    assert_eq!(get(server.address, "/").body, "hello over HTTP/1.1\n");
    assert!(get(server.address, "/thread").body.starts_with("cs-"));
    assert_eq!(get(server.address, "/elsewhere").status, 404);

    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = async {
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let stream = TokioIo::new(stream);
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..32 {
            let mut sender = sender.clone();
            requests.spawn(async move {
                let request = Request::get("http://here/").body(Empty::<Bytes>::new()).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, "hello over HTTP/2.0\n");
            });
        }
        while let Some(ended) = requests.join_next().await {
            ended.unwrap();
        }
    };
    tokio.block_on(async { tokio::time::timeout(NEVER, client).await }).unwrap();
    // Closes its connection: the server closes idle connections, but waits for the client's close.
    drop(tokio);
    server.terminate();
    let (status, said) = server.ended();
    assert!(status.success());
    assert_eq!(said, "ended\n");
}

/// By Coreshard's timer.
#[test]
fn a_client_that_never_ends_its_head_is_left() {
    let server = Server::start(PROGRAM, &["--head-ms", "50"]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(NEVER)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: he").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("200 OK"), "{rest}");
    assert_eq!(get(server.address, "/").status, 200);
}

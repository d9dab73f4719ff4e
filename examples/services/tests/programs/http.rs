//! A minimal HTTP/1 client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use testing::NEVER;

/// A request on a new connection.
pub(crate) struct Request(TcpStream);

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn send(address: SocketAddr, method: &str, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        let text = format!("{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        Self(stream)
    }

    pub(crate) fn answer(mut self) -> Answer {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    Request::send(address, "GET", path).answer()
}

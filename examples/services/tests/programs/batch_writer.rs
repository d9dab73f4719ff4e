use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use testing::{NEVER, within};

use crate::child::Server;

const PROGRAM: &str = env!("CARGO_BIN_EXE_batch-writer");
const CLIENTS: usize = 16;
const ROUNDS: usize = 10;

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        Self(BufReader::new(stream))
    }

    /// The number of a line, once it is on the disk.
    fn append(&mut self, line: &str) -> usize {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut number = String::new();
        self.0.read_line(&mut number).unwrap();
        number.trim().parse().unwrap()
    }
}

/// All clients wait for each other in each round, so each round is one batch, at any speed.
#[test]
fn a_batch_is_flushed_once_and_each_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let most = CLIENTS.to_string();
    let arguments = ["--longest-ms", "3600000", "--most-records", &most, "--file"];
    let server = Server::start(PROGRAM, &[&arguments[..], &[log.to_str().unwrap()]].concat());
    let address = server.address;
    let numbers = within(NEVER, move || {
        let clients = (0..CLIENTS).map(|client| {
            std::thread::spawn(move || {
                let mut connection = Client::new(address);
                let append = |round| connection.append(&format!("{client} {round}"));
                (0..ROUNDS).map(append).collect::<Vec<_>>()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    server.terminate();
    let (status, said) = server.ended();
    assert!(status.success());
    assert_eq!(said, format!("{} records, {ROUNDS} flushes\n", CLIENTS * ROUNDS));
    // Each acknowledgement names the line's place in the file.
    let lines: Vec<_> = fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    for (client, numbers) in numbers.into_iter().enumerate() {
        for (round, number) in numbers.into_iter().enumerate() {
            assert_eq!(lines[number], format!("{client} {round}"));
            assert!(seen.insert(number));
        }
    }
    assert_eq!(seen.len(), lines.len());
}

#[test]
fn one_record_does_not_wait_for_others_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "before\n").unwrap();
    let server = Server::start(PROGRAM, &["--longest-ms", "1", "--file", log.to_str().unwrap()]);
    let mut client = Client::new(server.address);
    assert_eq!([client.append("a"), client.append("b")], [0, 1]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "before\na\nb\n");
    drop(client);
    server.terminate();
    assert_eq!(server.ended().1, "2 records, 2 flushes\n");
}

use testing::wait_until;

use crate::child::Server;
use crate::http::{Request, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_web-service");
/// It continues until it is told to stop.
const ENDLESS: &str = "/primes?below=18446744073709551615";

fn metric(server: &Server, name: &str, queue: &str) -> u64 {
    let answer = get(server.address, "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    let begin = format!("coreshard_queue_{name}{{queue=\"{queue}\"}} ");
    let line = answer.body.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap_or_else(|| panic!("no {begin} in {}", answer.body)).parse().unwrap()
}

fn until(server: &Server, name: &str, queue: &str, value: u64) {
    wait_until(&format!("{name} of {queue} is {value}"), || metric(server, name, queue) == value);
}

/// One request runs and does not end, one waits behind it.
fn fill(server: &Server) -> [Request; 2] {
    let runs = Request::send(server.address, "GET", ENDLESS);
    until(server, "queued_total", "requests", 1);
    until(server, "capacity_used", "requests", 0);
    let waits = Request::send(server.address, "GET", "/primes?below=100");
    until(server, "capacity_used", "requests", 1);
    [runs, waits]
}

#[test]
fn answers_are_right_and_the_end_is_in_order() {
    let server = Server::start(PROGRAM, &["--deadline-ms", "100000"]);
    assert_eq!(get(server.address, "/primes?below=1000").body, "168\n");
    let many: Vec<_> =
        (0..16).map(|_| Request::send(server.address, "GET", "/primes?below=100000")).collect();
    for request in many {
        let answer = request.answer();
        assert_eq!((answer.status, answer.body.as_str()), (200, "9592\n"));
    }
    assert_eq!(get(server.address, "/primes?below=many").status, 400);
    assert_eq!(Request::send(server.address, "POST", "/jobs?below=1000").answer().status, 202);
    assert_eq!(metric(&server, "queued_total", "jobs"), 1);
    server.terminate();
    let (status, said) = server.ended();
    assert!(status.success());
    assert_eq!(said, "ended\n", "nothing is left");
}

#[test]
fn a_full_queue_answers_that_it_is() {
    let arguments = ["--workers", "1", "--capacity", "1", "--deadline-ms", "1000000"];
    let server = Server::start(PROGRAM, &[&arguments[..], &["--grace-ms", "50"]].concat());
    let [runs, waits] = fill(&server);
    let sent_away = get(server.address, "/primes?below=100");
    assert_eq!(sent_away.status, 503);
    assert!(sent_away.head.contains("retry-after: 1"), "{}", sent_away.head);
    assert!(sent_away.body.contains("\"requests\" is full (capacity 1)"), "{}", sent_away.body);
    assert_eq!(metric(&server, "refused_total", "requests"), 1);
    // Jobs have a separate queue.
    let jobs: Vec<_> = (0..8)
        .map(|_| Request::send(server.address, "POST", "/jobs?below=18446744073709551615").answer())
        .collect();
    assert!(jobs.iter().any(|job| job.status == 503));
    assert!(jobs.iter().any(|job| job.status == 202));
    server.terminate();
    assert_eq!(waits.answer().status, 503, "it is dropped");
    assert_eq!(runs.answer().status, 503, "it is told to stop");
    let (status, said) = server.ended();
    assert!(!status.success(), "something is left");
    assert!(said.contains("left at the end: requests: 1 had not begun, 1 still run"), "{said}");
    assert!(said.contains("left at the end: jobs: "), "{said}");
}

#[test]
fn what_is_late_is_told_and_stopped() {
    let arguments = ["--workers", "1", "--capacity", "4", "--deadline-ms", "300"];
    let server = Server::start(PROGRAM, &arguments);
    let late = get(server.address, ENDLESS);
    assert_eq!(late.status, 504);
    assert!(late.body.contains("exceeded 300ms on the workqueue \"requests\""), "{}", late.body);
    // Its worker is free again.
    until(&server, "in_flight", "requests", 0);
    wait_until("a small one is answered", || {
        let answer = get(server.address, "/primes?below=100");
        answer.status == 200 && answer.body == "25\n"
    });
}

#[test]
fn a_client_that_goes_away_takes_its_request_along() {
    let arguments = ["--workers", "1", "--capacity", "4", "--deadline-ms", "1000000"];
    let server = Server::start(PROGRAM, &arguments);
    drop(fill(&server));
    until(&server, "in_flight", "requests", 0);
    assert_eq!(get(server.address, "/primes?below=100").body, "25\n");
}

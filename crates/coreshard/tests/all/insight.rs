//! The insight socket.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;

use coreshard::insight::{InsightClient, InsightServer, PROTOCOL_VERSION};
use coreshard::{CpuSet, Runtime, Sampling, Scope, Topology};
use testing::{Lack, NEVER, skip, within};

/// A folder of this test's own, removed when it goes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("coreshard-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("it.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn runtime() -> Runtime {
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    let real: CpuSet = Topology::host().unwrap().online().clone();
    let usable = coreshard::runtime().unwrap().usable().intersection(&real);
    Runtime::builder(topology).laid_over(usable).build().unwrap()
}

/// A server that answers the first client with `bytes`.
fn impostor(path: PathBuf, bytes: Vec<u8>) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
        // Until the client has had enough.
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

#[test]
fn a_snapshot_tells_of_queues_and_pools() {
    let folder = Folder::new("snapshot");
    let runtime = runtime();
    let build = |name: &str| runtime.workqueue().name(name).scope(Scope::Cache);
    let one = build("one").times(Sampling::EVERY_ITEM).build().unwrap();
    let two = build("two").build().unwrap();
    for _ in 0..5 {
        one.submit(|| ()).unwrap().join().unwrap();
    }
    one.drain().unwrap();
    let server = InsightServer::bind_at(&runtime, folder.socket()).unwrap();
    let snapshot = InsightClient::at(server.path()).snapshot().unwrap();
    assert_eq!(snapshot.pid, std::process::id());
    assert_eq!(snapshot.release, env!("CARGO_PKG_VERSION"));
    let [first, second] = &snapshot.queues[..] else { panic!("{snapshot:?}") };
    assert_eq!((first.name.as_str(), second.name.as_str()), ("one", "two"));
    assert_eq!((first.queued, first.run, first.in_flight), (5, 5, 0));
    assert_eq!((second.queued, second.times.is_none()), (0, true));
    let times = first.times.as_ref().unwrap();
    assert_eq!((times.items_per_sample, times.delay.samples, times.run.samples), (1, 5, 5));
    assert!(times.run.p50_ns <= times.run.p99_ns && times.run.p99_ns <= times.run.max_ns);
    assert_eq!(snapshot.pools.len(), 2, "two caches, shared by both queues");
    assert_eq!(first.pools, second.pools);
    assert_eq!(snapshot.pools.iter().map(|pool| pool.id).collect::<Vec<_>>(), first.pools);
    assert_eq!(snapshot.pools[1].cpus, "2-3");
    assert_eq!(snapshot.pools.iter().map(|pool| pool.run).sum::<u64>(), 5);
    // Each client has one answer; the next has another.
    let later = InsightClient::at(server.path()).snapshot().unwrap();
    assert!(later.taken_ns > snapshot.taken_ns);
    drop(two);
    assert_eq!(InsightClient::at(server.path()).snapshot().unwrap().queues.len(), 1);
}

#[test]
fn the_process_serves_where_its_client_looks() {
    let server = coreshard::serve_insight().unwrap();
    let socket = fs::metadata(server.path()).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    let folder = fs::metadata(server.path().parent().unwrap()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    assert_eq!(folder.uid(), socket.uid());
    let client = InsightClient::of_process(std::process::id()).unwrap();
    assert_eq!(client.path(), server.path());
    assert_eq!(client.snapshot().unwrap().pid, std::process::id());
    let again = coreshard::serve_insight().unwrap_err().to_string();
    assert!(again.contains("already served"), "{again}");
    let path = server.path().to_owned();
    drop(server);
    assert!(!path.exists(), "it goes with its server");
    assert!(client.snapshot().unwrap_err().is_gone());
    drop(coreshard::serve_insight().unwrap());
}

#[test]
fn a_socket_that_was_left_behind_is_taken_over() {
    let folder = Folder::new("stale");
    drop(UnixListener::bind(folder.socket()).unwrap());
    let stale = InsightClient::at(folder.socket()).snapshot().unwrap_err();
    assert!(stale.is_gone());
    assert!(stale.to_string().contains("no process listens"), "{stale}");
    let server = InsightServer::bind_at(&runtime(), folder.socket()).unwrap();
    InsightClient::at(server.path()).snapshot().unwrap();
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = Folder::new("file");
    fs::write(folder.socket(), "precious").unwrap();
    let error = InsightServer::bind_at(&runtime(), folder.socket()).unwrap_err().to_string();
    assert!(error.contains("cannot create the socket"), "{error}");
    assert_eq!(fs::read_to_string(folder.socket()).unwrap(), "precious");
}

#[test]
fn an_unknown_socket_is_told() {
    let folder = Folder::new("unknown");
    let error = InsightClient::at(folder.socket()).snapshot().unwrap_err();
    assert!(error.is_gone());
    let text = error.to_string();
    assert!(text.contains("there is no socket") && text.contains("serve_insight()"), "{text}");
}

#[test]
fn a_process_that_is_not_there_or_serves_nothing_is_told() {
    // Beyond the kernel's highest process id.
    let error = InsightClient::of_process(u32::MAX).unwrap_err().to_string();
    assert!(error.contains("there is no process 4294967295"), "{error}");
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let error = InsightClient::of_process(child.id()).unwrap_err().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(error.contains("serves no insight") && error.contains("serve_insight()"), "{error}");
}

#[test]
fn whoever_is_not_a_coreshard_process_is_told() {
    let folder = Folder::new("foreign");
    let other = impostor(folder.socket(), b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let error = InsightClient::at(folder.socket()).snapshot().unwrap_err().to_string();
    assert!(error.contains("not a Coreshard process"), "{error}");
    other.join().unwrap();
}

#[test]
fn another_version_of_the_protocol_is_told() {
    let folder = Folder::new("version");
    let mut frame = b"COSH".to_vec();
    frame.extend((PROTOCOL_VERSION + 1).to_le_bytes());
    frame.extend(2_u32.to_le_bytes());
    frame.extend(b"{}");
    let other = impostor(folder.socket(), frame.clone());
    let error = InsightClient::at(folder.socket()).snapshot().unwrap_err();
    assert!(error.is_version());
    let text = error.to_string();
    assert!(text.contains(&format!("version {}", PROTOCOL_VERSION + 1)), "{text}");
    assert!(text.contains("use the command `coreshard` of the release"), "{text}");
    other.join().unwrap();

    // And the other way round: a client of another release is told which one it has found.
    fs::remove_file(folder.socket()).unwrap();
    let server = InsightServer::bind_at(&runtime(), folder.socket()).unwrap();
    let mut stream = UnixStream::connect(server.path()).unwrap();
    stream.write_all(&frame).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(&answer[..4], b"COSH");
    assert_eq!(answer[4..8], PROTOCOL_VERSION.to_le_bytes());
    assert!(String::from_utf8_lossy(&answer).contains("found version"));
}

#[test]
fn a_client_that_says_nothing_or_nonsense_does_not_end_the_service() {
    let folder = Folder::new("nonsense");
    let server = InsightServer::bind_at(&runtime(), folder.socket()).unwrap();
    drop(UnixStream::connect(server.path()).unwrap());
    let silent = UnixStream::connect(server.path()).unwrap();
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"COSH", b"COSH\x01\0\0\0\xff\xff\xff\xff"] {
        let mut stream = UnixStream::connect(server.path()).unwrap();
        stream.write_all(nonsense).unwrap();
    }
    InsightClient::at(server.path()).snapshot().unwrap();
    drop(silent);
}

/// The server grants a client its time when the client comes, not when the server began to wait for one.
#[test]
fn a_client_is_served_after_a_pause_longer_than_it_is_granted() {
    let folder = Folder::new("idle");
    let server = InsightServer::bind_at(&runtime(), folder.socket()).unwrap();
    let client = InsightClient::at(server.path());
    for _ in 0..3 {
        thread::sleep(std::time::Duration::from_millis(1_100));
        client.snapshot().unwrap();
    }
}

/// A stranger receives no answer. The frame has another version, so that the permitted user gets an answer that needs
/// no decoding.
fn answer_to_a_question(path: &std::path::Path) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).unwrap();
    let mut frame = b"COSH".to_vec();
    frame.extend((PROTOCOL_VERSION + 1).to_le_bytes());
    frame.extend(2_u32.to_le_bytes());
    frame.extend(b"{}");
    // A rejected client may find the socket closed before this is read.
    let _ = stream.write_all(&frame);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn another_users_connection_is_refused_by_its_credentials() {
    let nobody = rustix::thread::Uid::from_raw(65_534);
    if !rustix::process::geteuid().is_root() {
        return skip(Lack::Root, "only root can connect as another user");
    }
    let folder = Folder::new("stranger");
    let server = InsightServer::bind_at(&runtime(), folder.socket()).unwrap();
    // Opened to all, so that nothing but the credentials is in the way.
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(server.path(), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(answer_to_a_question(server.path()).starts_with(b"COSH"), "its own user is answered");
    let path = server.path().to_owned();
    // The call changes this thread's user alone, and the thread ends with it.
    let stranger = thread::spawn(move || {
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let answer = answer_to_a_question(&path);
        (answer, InsightClient::at(&path).snapshot().unwrap_err().to_string())
    });
    let (answer, error) = stranger.join().unwrap();
    assert!(answer.is_empty(), "{answer:?}");
    // And a client sends no question to a server that is not its own user's.
    assert!(error.contains("user 0") && error.contains("65534"), "{error}");
    InsightClient::at(server.path()).snapshot().unwrap();
}

/// A client that says a byte now and then, for as long as the test wants it to.
fn slow_client(path: PathBuf, is_over: std::sync::Arc<std::sync::atomic::AtomicBool>) {
    use std::sync::atomic::Ordering::SeqCst;
    thread::spawn(move || {
        while !is_over.load(SeqCst) {
            let Ok(mut stream) = UnixStream::connect(&path) else { return };
            let _ = stream.write_all(b"COSH\x01\0\0\0\0\x10\0\0");
            while !is_over.load(SeqCst) && stream.write_all(b" ").is_ok() {
                thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    });
}

/// With a time-out for each read, one of these kept everybody else out for half an hour, and the server
/// from going.
#[test]
fn slow_clients_hold_up_neither_others_nor_the_end() {
    let folder = Folder::new("slow");
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = InsightServer::bind_at(&runtime(), folder.socket()).unwrap();
    for _ in 0..8 {
        slow_client(folder.socket(), std::sync::Arc::clone(&is_over));
    }
    thread::sleep(std::time::Duration::from_millis(300));
    within(NEVER, move || {
        for _ in 0..5 {
            InsightClient::at(server.path()).snapshot().unwrap();
        }
        // Those that are slow go on meanwhile.
        drop(server);
    });
    is_over.store(true, std::sync::atomic::Ordering::SeqCst);
}

/// A server that sends one byte per second never finishes.
#[test]
fn a_slow_server_is_given_up() {
    let folder = Folder::new("drip");
    let listener = UnixListener::bind(folder.socket()).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"COSH\x01\0\0\0\0\0\x10\0");
        while stream.write_all(b" ").is_ok() {
            thread::sleep(std::time::Duration::from_millis(200));
        }
    });
    let path = folder.socket();
    within(NEVER, move || {
        let error = InsightClient::at(path).snapshot().unwrap_err().to_string();
        assert!(error.contains("no answer from"), "{error}");
    });
}

#[test]
fn a_server_that_goes_leaves_what_came_in_its_place() {
    let folder = Folder::new("replaced");
    let runtime = runtime();
    let first = InsightServer::bind_at(&runtime, folder.socket()).unwrap();
    fs::remove_file(folder.socket()).unwrap();
    let second = InsightServer::bind_at(&runtime, folder.socket()).unwrap();
    drop(first);
    InsightClient::at(second.path()).snapshot().unwrap();
    let left: Vec<_> =
        fs::read_dir(&folder.0).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["it.sock"]);
}

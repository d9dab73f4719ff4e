//! The spans of items and futures, as tokio-console's subscriber would read them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Runtime, Work, Workqueue};
use futures_lite::future::block_on;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The console's record of a task.
#[derive(Clone, Debug, Default)]
struct Seen {
    fields: BTreeMap<&'static str, String>,
    polls: u32,
    entered: u32,
    wakes: u32,
    /// As the console counts them: made, less used up.
    wakers: i64,
    is_closed: bool,
}

#[derive(Clone, Default)]
struct Console {
    last: Arc<AtomicU64>,
    tasks: Arc<Mutex<BTreeMap<u64, Seen>>>,
}

impl Console {
    fn task(&self, name: &str) -> Seen {
        let tasks = self.tasks.lock().unwrap();
        let mut named = tasks.values().filter(|seen| seen.fields["task.name"].contains(name));
        let task = named.next().unwrap_or_else(|| panic!("no task {name}: {tasks:?}")).clone();
        assert!(named.next().is_none(), "two tasks {name}: {tasks:?}");
        task
    }
}

struct Fields<'seen>(&'seen mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        // The console takes lines, columns and ids as numbers alone.
        self.0.insert(field.name(), format!("#{value}"));
    }
}

impl Subscriber for Console {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name() == "runtime.spawn" || metadata.target() == "tokio::task::waker"
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        assert_eq!(span.metadata().target(), "tokio::task");
        assert!(span.is_root(), "a task has no parent");
        let id = self.last.fetch_add(1, SeqCst) + 1;
        let mut seen = Seen::default();
        span.record(&mut Fields(&mut seen.fields));
        self.tasks.lock().unwrap().insert(id, seen);
        Id::from_u64(id)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let id = fields["task.id"].trim_start_matches('#').parse().unwrap();
        let mut tasks = self.tasks.lock().unwrap();
        let task = tasks.get_mut(&id).expect("a task's id");
        match fields["op"].as_str() {
            "waker.clone" => task.wakers += 1,
            "waker.wake" => {
                task.wakers -= 1;
                task.wakes += 1;
            }
            op => panic!("{op}"),
        }
    }
    fn enter(&self, id: &Id) {
        let mut tasks = self.tasks.lock().unwrap();
        let task = tasks.get_mut(&id.into_u64()).unwrap();
        task.polls += 1;
        task.entered += 1;
    }
    fn exit(&self, id: &Id) {
        self.tasks.lock().unwrap().get_mut(&id.into_u64()).unwrap().entered -= 1;
    }
    fn try_close(&self, id: Id) -> bool {
        // Spans are not cloned here.
        self.tasks.lock().unwrap().get_mut(&id.into_u64()).unwrap().is_closed = true;
        true
    }
}

fn queue(runtime: &Runtime<Host>, spans: bool) -> Workqueue<Host> {
    let builder = runtime.workqueue().name("traced").scope(Scope::Cache).spans(spans);
    builder.panic_handler(|_| ()).build().unwrap()
}

fn a_named_item() {}

/// A single test: worker threads use the subscriber of the process.
#[test]
fn items_and_futures_have_the_spans_that_the_console_reads() {
    testing::own_process!();
    let console = Console::default();
    tracing::subscriber::set_global_default(console.clone()).unwrap();
    let topology = Topology::from_synthetic("package:1 l3:1 core:2 pu:1").unwrap();
    let real = coreshard_platform::affinity().unwrap();
    let runtime: Runtime<Host> = Runtime::builder(topology).laid_over(real).build().unwrap();

    let quiet = queue(&runtime, false);
    quiet.submit(|| ()).unwrap().join().unwrap();
    block_on(quiet.spawn(async {}).unwrap());
    drop(quiet);
    assert!(console.tasks.lock().unwrap().is_empty(), "spans are off");

    let queue = queue(&runtime, true);
    let line = line!() + 1;
    queue.queue(a_named_item).unwrap();
    queue.drain().unwrap();
    let item = console.task("a_named_item");
    assert_eq!(item.fields["kind"], "item");
    assert_eq!(item.fields["queue"], "traced");
    assert!(item.fields["loc.file"].ends_with("tests/all/spans.rs"), "{item:?}");
    assert_eq!(item.fields["loc.line"], format!("#{line}"));
    assert!(item.fields["loc.col"].starts_with('#'));
    assert!(item.fields["task.id"].starts_with('#'));
    assert_eq!((item.polls, item.entered, item.is_closed), (1, 0, true), "{item:?}");

    // A panic also leaves and closes the span.
    fn a_panic() {
        std::panic::resume_unwind(Box::new("a panic"));
    }
    queue.queue(a_panic).unwrap();
    queue.drain().unwrap();
    let item = console.task("a_panic");
    assert_eq!((item.polls, item.entered, item.is_closed), (1, 0, true), "{item:?}");

    fn a_reusable_item(_: &Work<Host>) {}
    let line = line!() + 1;
    let work = Work::new(a_reusable_item);
    work.queue(&queue).unwrap();
    work.flush().unwrap();
    queue.drain().unwrap();
    let item = console.task("a_reusable_item");
    assert_eq!(item.fields["kind"], "work");
    assert!(item.fields["loc.file"].ends_with("tests/all/spans.rs"), "{item:?}");
    assert_eq!(item.fields["loc.line"], format!("#{line}"));

    async fn a_future() {
        let mut polled = false;
        poll_fn(|context| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
    let line = line!() + 1;
    block_on(queue.spawn(a_future()).unwrap());
    queue.drain().unwrap();
    let task = console.task("a_future");
    assert_eq!(task.fields["kind"], "task");
    assert_eq!(task.fields["loc.line"], format!("#{line}"));
    assert_eq!((task.polls, task.entered, task.wakes), (2, 0, 1), "{task:?}");
    assert!(task.is_closed, "a future that has ended");

    // The span of a cancelled future is closed although the future has not completed.
    async fn a_wait() {
        std::future::pending::<()>().await;
    }
    let task = queue.spawn(a_wait()).unwrap();
    queue.drain().unwrap();
    let waits = console.task("a_wait");
    assert!(!waits.is_closed);
    assert_eq!(waits.wakers, 1, "a sleeping task without a waker is reported as lost");
    block_on(task.cancel());
    queue.drain().unwrap();
    assert!(console.task("a_wait").is_closed);
    assert_eq!(console.tasks.lock().unwrap().len(), 5);
}

//! A pipeline of three stages, each with a bounded queue: lines are read, normalised (words in lower case, one space between
//! them), hashed, and written, in their input order or as they are done.
//!
//! ```text
//! pipeline < words.txt               # 0123456789abcdef  a line
//! pipeline --unordered < words.txt
//! ```
//!
//! Memory stays bounded for any input: a full stage blocks the previous one, and the first stage blocks the reader. A window limits
//! the lines between the reader and the writer, since one slow line delays the writing of all later ones.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use clap::Parser;
use coreshard::{RefusedReason, Workqueue};

#[derive(Parser)]
struct Arguments {
    /// Write lines as they are done.
    #[arg(long)]
    unordered: bool,
    /// How many lines may wait for each stage.
    #[arg(long, default_value_t = 64)]
    capacity: usize,
    /// How many lines may be between the reader and the writer.
    #[arg(long, default_value_t = 1_024)]
    window: usize,
}

/// A stage, with its queue.
struct Stage {
    queue: Workqueue,
}

impl Stage {
    fn new(name: &str, capacity: usize, one_at_a_time: bool) -> anyhow::Result<Self> {
        let builder = coreshard::workqueue()?.name(name).capacity(capacity);
        let builder = if one_at_a_time { builder.ordered() } else { builder };
        Ok(Self { queue: builder.build()? })
    }

    /// Waits while the stage is full. If an item of another stage would wait for itself, it runs the work instead.
    fn push(&self, work: impl FnOnce() + Send + 'static) {
        match self.queue.queue(work) {
            Ok(()) => {}
            Err(refused) if refused.reason() == RefusedReason::WouldDeadlock => {
                refused.into_item()();
            }
            Err(refused) => unreachable!("a stage is closed only at its end: {refused}"),
        }
    }
}

/// The last stage's state.
struct Output {
    lines: Mutex<Lines>,
    /// One entry for each line in the pipeline.
    window: Mutex<Receiver<()>>,
    is_ordered: bool,
}

struct Lines {
    writer: BufWriter<io::Stdout>,
    next: u64,
    early: BTreeMap<u64, String>,
    failed: Option<io::Error>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let tidy = Stage::new("tidy", arguments.capacity, false)?;
    let hash = Arc::new(Stage::new("hash", arguments.capacity, false)?);
    let write = Arc::new(Stage::new("write", arguments.capacity, true)?);
    let (enter, leave) = sync_channel(arguments.window.max(1));
    let output = Arc::new(Output {
        lines: Mutex::new(Lines {
            writer: BufWriter::new(io::stdout()),
            next: 0,
            early: BTreeMap::new(),
            failed: None,
        }),
        window: Mutex::new(leave),
        is_ordered: !arguments.unordered,
    });
    read(&tidy, &hash, &write, &output, &enter)?;
    // A stage stays empty once it was drained after the previous one.
    tidy.queue.drain()?;
    hash.queue.drain()?;
    write.queue.drain()?;
    let mut lines = output.lines.lock().expect("no line panics");
    if let Some(error) = lines.failed.take() {
        return Err(error.into());
    }
    lines.writer.flush()?;
    Ok(())
}

fn read(
    tidy: &Stage,
    hash: &Arc<Stage>,
    write: &Arc<Stage>,
    output: &Arc<Output>,
    window: &SyncSender<()>,
) -> io::Result<()> {
    for (number, line) in (0..).zip(io::stdin().lock().lines()) {
        let line = line?;
        if output.lines.lock().expect("no line panics").failed.is_some() {
            break;
        }
        window.send(()).expect("the receiver lives until the end");
        let (hash, write, output) = (Arc::clone(hash), Arc::clone(write), Arc::clone(output));
        tidy.push(move || {
            let line = tidied(&line);
            hash.push(move || {
                let line = format!("{:016x}  {line}\n", fnv1a(line.as_bytes()));
                write.push(move || output.write(number, line));
            });
        });
    }
    Ok(())
}

fn tidied(line: &str) -> String {
    line.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// FNV-1a, of 64 bits (draft-eastlake-fnv).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Output {
    /// Writes a line, after all earlier lines if the input order is requested.
    fn write(&self, number: u64, line: String) {
        let mut lines = self.lines.lock().expect("no line panics");
        if !self.is_ordered {
            return self.write_now(&mut lines, &line);
        }
        lines.early.insert(number, line);
        while let Some(line) = {
            let next = lines.next;
            lines.early.remove(&next)
        } {
            lines.next += 1;
            self.write_now(&mut lines, &line);
        }
    }

    fn write_now(&self, lines: &mut Lines, line: &str) {
        if lines.failed.is_none() {
            lines.failed = lines.writer.write_all(line.as_bytes()).err();
        }
        self.window.lock().expect("no line panics").recv().expect("the line has entered");
    }
}

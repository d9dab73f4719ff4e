//! Follows a program while it runs: opens and closes windows, and writes the events from its spool to the file.

use std::process::{Child, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use coreshard_topology::input;
use coreshard_trace::{About, Ending, Lack, RecordingWriter, Spool, SpoolCounts};

use super::engine::{Engine, RecordedCommand};
use super::pace::Pace;
use super::signals::{self, Order, Orders};
use super::slices::{Slices, Windows};
use crate::common::{Growing, bad_input, bail_input, output};

/// The time to wait if no chunk is ready.
const PAUSE: Duration = Duration::from_millis(1);

/// Space for the end of a recording, and for the overhead of a chunk that cannot be compressed.
const END_BYTES: u64 = 4_096;

/// Ends the program together with the command.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Limits of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum size of the file.
    pub(super) most_bytes: u64,
    /// Maximum memory for recording, in the program and in this command.
    pub(super) memory_bytes: u64,
}

/// Runs the program to its end and returns its exit status.
pub(super) fn follow(
    recorded: RecordedCommand,
    engine: Engine,
    program: &[String],
    windows: Windows,
    file: Growing,
    limits: Limits,
    pace: Option<Pace>,
) -> anyhow::Result<ExitCode> {
    let RecordedCommand { mut command, architecture } = recorded;
    let about = About {
        command: program.iter().map(|word| input::plain(word)).take(100).collect(),
        engine: engine.name().to_owned(),
        architecture: architecture.to_owned(),
        counts_instructions: engine == Engine::Qemu,
        from_ms: windows.from_ms,
        to_ms: windows.to_ms,
        sample_ms: windows.sample_ms,
    };
    let mut orders = Orders::listen()?;
    let out = std::io::BufWriter::with_capacity(1 << 20, file);
    let mut writer = RecordingWriter::new(out, &about).context("cannot write the recording")?;
    let mut spool = Spool::new(limits.memory_bytes, limits.most_bytes)
        .context("no memory for the program's events")?;
    let mut slices = Slices::new(windows, limits.most_bytes);
    let mut window = slices.window(Duration::ZERO, 0);
    spool.set_window(window)?;
    command.env("CORESHARD_SPOOL", spool.path());
    let started = Instant::now();
    let child = command.spawn().map_err(|error| {
        bad_input(anyhow!("{} does not start: {error}", input::quoted(&program[0])))
    })?;
    let mut child = Ends(child);
    let (mut is_full, mut raw_bytes) = (false, 0);
    let status = loop {
        // Events in the spool will be written, and packed as well as those before them.
        let written = writer.written_bytes();
        let waiting = spool.waiting_bytes() as f64 * (written as f64 / raw_bytes as f64).min(1.0);
        let open = slices.window(started.elapsed(), written + waiting as u64);
        let wanted = if is_full { 0 } else { open };
        if wanted != window {
            window = wanted;
            spool.set_window(window)?;
        }
        let ended = child.0.try_wait()?;
        if ended.is_none() {
            match orders.next() {
                Some(Order::PassOn(signal)) => signals::pass_on(&child.0, signal)?,
                Some(Order::Kill) => child.0.kill()?,
                None => {}
            }
        }
        let taken = spool.take(ended.is_some(), |chunk| {
            let bytes = chunk.events.len() as u64;
            // A compressed chunk is hardly longer than its events, and the file's end needs space.
            is_full |= writer.written_bytes() + bytes + END_BYTES > limits.most_bytes;
            raw_bytes += bytes;
            if is_full { Ok(()) } else { writer.chunk(chunk.thread, chunk.order, chunk.events) }
        });
        let taken = taken.context("cannot write the recording")?;
        match ended {
            Some(status) => break status,
            None if taken == 0 => std::thread::sleep(PAUSE),
            None => {}
        }
    };
    let (ran, counts) = (started.elapsed(), spool.counts()?);
    if counts.process == 0 {
        bail_input!("{}", nothing_recorded(engine, &program[0], status));
    }
    let mut lacks = lacks(&counts, engine, windows, is_full.then_some(limits.most_bytes));
    lacks.extend(slices.lack(ran));
    let code = code_of(status);
    let ran_ms = ran.as_millis() as u64;
    for lack in lacks.iter().filter(|lack| **lack != Lack::Uninstrumented) {
        output::warn(&format!("note: the recording lacks {lack}"));
    }
    let threads_ns = match pace.map(|pace| pace.threads_ns()) {
        Some(Ok(threads_ns)) => threads_ns,
        Some(Err(error)) => {
            output::warn(&format!("note: {error:#}; the recording is without a pace"));
            Vec::new()
        }
        None => Vec::new(),
    };
    let out = writer
        .finish(&Ending { status: code, ran_ms, lacks, threads_ns })
        .context("cannot write the recording")?;
    let file = out
        .into_inner()
        .map_err(|error| error.into_error())
        .context("cannot write the recording")?;
    file.finish()?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Explains an empty recording. The output file is left unchanged.
fn nothing_recorded(engine: Engine, program: &str, status: ExitStatus) -> String {
    let program = input::quoted(program);
    let remedy = match engine {
        Engine::Tsan => {
            "it was not built for recording (coreshard record --flags), so leave out --engine tsan to emulate it"
        }
        Engine::Qemu => "it did not start to run",
    };
    format!("{program} ended ({status}), and nothing was recorded: {remedy}")
}

/// Returns the gaps of a recording.
fn lacks(
    counts: &SpoolCounts,
    engine: Engine,
    windows: Windows,
    full_at_bytes: Option<u64>,
) -> Vec<Lack> {
    let mut lacks = Vec::new();
    if engine == Engine::Tsan {
        lacks.push(Lack::Uninstrumented);
    } else if !counts.is_helped {
        lacks.push(Lack::Unhelped);
    }
    lacks.extend(windows.are_parts().then_some(Lack::Windows));
    lacks.extend(full_at_bytes.map(|most_bytes| Lack::Size { most_bytes }));
    let (events, threads) = (counts.events_lost, u64::from(counts.threads_lost));
    let others = u64::from(counts.others);
    lacks.extend((events > 0).then_some(Lack::Events { count: events }));
    lacks.extend((threads > 0).then_some(Lack::Threads { count: threads }));
    lacks.extend((others > 0).then_some(Lack::Processes { count: others }));
    lacks.extend(counts.is_replaced.then_some(Lack::Replaced));
    lacks
}

/// Returns the exit status as a shell reports it: 128 plus the signal's number if a signal ended the program.
fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

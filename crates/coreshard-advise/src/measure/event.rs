//! Parses a line of a trace.

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'line> {
    pub(super) at_us: u64,
    pub(super) cpu: u32,
    /// The ID of the running thread.
    pub(super) thread: u32,
    /// The thread's name, which is untrusted.
    pub(super) comm: &'line str,
    pub(super) kind: Kind<'line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'line> {
    Queue { work: u64, workqueue: &'line str },
    Start { work: u64, function: &'line str },
    End { work: u64, function: &'line str },
}

/// Returns the number of dropped events in a line of trace_pipe such as `CPU:1 [LOST 12 EVENTS]`.
pub(super) fn lost(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("[LOST ")?;
    rest.split_once(" EVENTS]")?.0.parse().ok()
}

const EVENT: &str = ": workqueue_";

/// Parses a line such as `comm-pid [cpu] flags seconds.micros: workqueue_…: …`, or returns `None`.
pub(super) fn parse(line: &str) -> Option<Event<'_>> {
    // A thread's name may contain anything, so the first match may not be the event.
    line.match_indices(EVENT).find_map(|(at, _)| event(&line[..at], &line[at + EVENT.len()..]))
}

fn event<'line>(head: &'line str, body: &'line str) -> Option<Event<'line>> {
    let (before, after) = head.rsplit_once('[')?;
    let (cpu, rest) = after.split_once(']')?;
    let at_us = micros(rest.split_whitespace().next_back()?)?;
    let (comm, thread) = before.trim().rsplit_once('-')?;
    let kind = if let Some(fields) = body.strip_prefix("queue_work: ") {
        let work = hexadecimal(fields.strip_prefix("work struct=")?.split(' ').next()?)?;
        let (_, rest) = fields.split_once(" workqueue=")?;
        Kind::Queue { work, workqueue: rest.rsplit_once(" req_cpu=")?.0 }
    } else if let Some(fields) = body.strip_prefix("execute_start: ") {
        let (work, function) = run(fields)?;
        Kind::Start { work, function }
    } else {
        let (work, function) = run(body.strip_prefix("execute_end: ")?)?;
        Kind::End { work, function }
    };
    Some(Event {
        at_us,
        cpu: cpu.trim().parse().ok()?,
        thread: thread.trim().parse().ok()?,
        comm,
        kind,
    })
}

/// Parses `work struct ADDRESS: function NAME`.
fn run(fields: &str) -> Option<(u64, &str)> {
    let (work, rest) = fields.strip_prefix("work struct ")?.split_once(':')?;
    let function = rest.trim().strip_prefix("function ").unwrap_or("");
    Some((hexadecimal(work)?, function.trim()))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

fn micros(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whatever_a_thread_is_called() {
        let queue =
            "work struct=00000000ae72284d function=f workqueue=xfs-buf/a b req_cpu=256 cpu=1";
        let line = format!(
            "  a-b [9] c: workqueue_-17 [003] d..1. 379.892472: workqueue_queue_work: {queue}"
        );
        let event = parse(&line).unwrap();
        assert_eq!((event.at_us, event.cpu, event.thread), (379_892_472, 3, 17));
        assert_eq!(event.kind, Kind::Queue { work: 0xae72_284d, workqueue: "xfs-buf/a b" });
        let start = "kworker/R-nfs-3 [000] ..... 1.000001: workqueue_execute_start: work struct 00a1: function g";
        let event = parse(start).unwrap();
        assert_eq!(
            (event.comm, event.kind),
            ("kworker/R-nfs", Kind::Start { work: 0xa1, function: "g" })
        );
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "# tracer: nop",
            "a-1 [000] d..1. 1.000001: sched_switch: prev",
            "a-1 [000] d..1. 1.1: workqueue_execute_end: work struct a: function f",
            "a-1 [000] d..1. 99999999999999999999.000001: workqueue_execute_end: work struct a: function f",
            "a-1 [000] d..1. 18446744073709551615.000001: workqueue_execute_end: work struct a: function f",
            "a-1 [x] d..1. 1.000001: workqueue_execute_end: work struct a: function f",
            "a-1 [000] d..1. 1.000001: workqueue_queue_work: work struct=zz workqueue=q req_cpu=1",
            "a-1 [000] d..1. 1.000001: workqueue_activate_work: work struct a",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(lost("CPU:1 [LOST 12 EVENTS]"), Some(12));
        assert_eq!(lost("CPU:1 [LOST x EVENTS]"), None);
    }
}

//! Calls that fail by their number: the k-th of a kind, and later ones for a while.
//!
//! Random faults find bugs that many calls can cause. A bug that only one call can cause is found by
//! counting. Each call of a kind has a number in a run, and a sweep makes the first fail in one run, the
//! second in the next, and so on. (SQLite tests out-of-memory errors this way.)

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use coreshard_topology::input::quoted;

/// A kind of call that can fail, or behave unusually.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// A thread cannot be started: a limit is reached.
    Start,
    /// A new thread's nice value is refused; threads that request none do not count.
    Nice,
    /// A set of CPUs is refused, of a new thread or of the caller.
    Affinity,
    /// Memory of a node is unavailable.
    Memory,
    /// A wait on a futex returns at once, as after a signal (EINTR) or a change of the word (EAGAIN).
    Wait,
    /// A wait on a futex returns after 30 µs, although no thread woke it.
    Interrupt,
    /// A wake-up arrives 300 µs late.
    Wake,
    /// The CPU time of a thread is unavailable.
    CpuTime,
    /// The state of a thread (waiting or not) is unavailable.
    ThreadState,
}

impl Call {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Nice,
        Self::Affinity,
        Self::Memory,
        Self::Wait,
        Self::Interrupt,
        Self::Wake,
        Self::CpuTime,
        Self::ThreadState,
    ];
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Start => "start",
            Self::Nice => "nice",
            Self::Affinity => "affinity",
            Self::Memory => "memory",
            Self::Wait => "wait",
            Self::Interrupt => "interrupt",
            Self::Wake => "wake",
            Self::CpuTime => "cpu-time",
            Self::ThreadState => "thread-state",
        })
    }
}

impl FromStr for Call {
    type Err = ParseFailingError;

    fn from_str(text: &str) -> Result<Self, ParseFailingError> {
        Self::ALL.into_iter().find(|call| call.to_string() == text).ok_or_else(|| {
            let all = Self::ALL.map(|call| call.to_string()).join(", ");
            let given = quoted(text);
            ParseFailingError(format!("invalid kind of call {given}: expected one of {all}"))
        })
    }
}

/// How long calls fail, from the first failure on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lasts {
    /// This many calls of the kind in a row.
    Calls(u32),
    /// All calls for this time, like a limit that stays reached for a while. A failing start takes 100 µs
    /// longer than a successful one.
    For(Duration),
}

impl fmt::Display for Lasts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(calls) => write!(f, "x{calls}"),
            Self::For(time) => write!(f, "{}us", time.as_micros()),
        }
    }
}

/// Which calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failing {
    /// The kind of the calls,
    pub call: Call,
    /// the number of the first one, counted from 1,
    pub from: u64,
    /// and how long they fail.
    pub lasts: Lasts,
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.call, self.from, self.lasts)
    }
}

/// The error when a text is not a [`Failing`], or not a [`Call`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseFailingError(String);

impl fmt::Display for ParseFailingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

coreshard_topology::readable_debug!(ParseFailingError);

impl std::error::Error for ParseFailingError {}

/// Returns the error for a text that is not a [`Failing`], or not a [`Lasts`].
fn no_failing(text: &str) -> ParseFailingError {
    ParseFailingError(format!(
        "invalid failure {}: expected a text such as start:7:x3 (three from the \
         seventh on) or start:7:20000us (all from the seventh on, for 20 ms)",
        quoted(text)
    ))
}

impl FromStr for Lasts {
    type Err = ParseFailingError;

    fn from_str(text: &str) -> Result<Self, ParseFailingError> {
        let calls = text.strip_prefix('x').and_then(|calls| calls.parse().ok()).map(Self::Calls);
        let micros = text.strip_suffix("us").and_then(|micros| micros.parse().ok());
        let time = micros.map(|micros| Self::For(Duration::from_micros(micros)));
        calls.or(time).ok_or_else(|| no_failing(text))
    }
}

impl FromStr for Failing {
    type Err = ParseFailingError;

    fn from_str(text: &str) -> Result<Self, ParseFailingError> {
        let wrong = || no_failing(text);
        let parts: Vec<&str> = text.split(':').collect();
        let [call, from, lasts] = parts[..] else { return Err(wrong()) };
        let call = call.parse()?;
        let from = from.parse().ok().filter(|from| *from > 0).ok_or_else(wrong)?;
        let lasts = lasts.parse().map_err(|_| wrong())?;
        Ok(Self { call, from, lasts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for (at, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(call.to_string().parse(), Ok(call));
            assert_eq!(call as usize, at);
        }
        for text in ["start:7:x3", "cpu-time:1:20000us"] {
            assert_eq!(text.parse::<Failing>().unwrap().to_string(), text);
        }
        for text in ["start", "start:0:x1", "start:1:7", "start:1:x1:2", "start:x:x1"] {
            let error = text.parse::<Failing>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("start:7:x3"), "{error}");
        }
        let error = "stat".parse::<Call>().unwrap_err().to_string();
        assert!(error.contains("\"stat\"") && error.contains("start, nice"), "{error}");
    }
}

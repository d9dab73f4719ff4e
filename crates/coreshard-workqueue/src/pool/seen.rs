//! What the monitor remembers of a pool from one scan to the next.

use std::time::Duration;

use coreshard_platform::Time;

/// What a scan saw of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) begun: u64,
    pub(super) cpu_time: Option<Duration>,
    pub(super) scan: u64,
    /// When it was first seen in that item, and with how much CPU time.
    pub(super) since: Option<(Time, Duration)>,
    pub(super) hog_told: bool,
    /// How often it had looked for items, and when that was first seen.
    pub(super) looks: Option<(u32, Time)>,
}

/// Whether a pool gets on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Changes with every item that a worker begins; where forked jobs alone wait, with their stacks, too.
    pub(super) fingerprint: u64,
    /// Since when it has not, while items wait.
    pub(super) since: Option<Time>,
    pub(super) told: bool,
}

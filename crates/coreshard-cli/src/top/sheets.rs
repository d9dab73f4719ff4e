//! The two tables: columns, order of rows, and which columns fit.

use std::cmp::Ordering;

use coreshard::insight::{PoolSnapshot, QueueSnapshot, Snapshot};

use super::fit;
use super::rates::{self, Rates};
use crate::common::counted;
use crate::common::figures::{self, ABSENT};

/// A column of a table whose rows are made of `Row`.
struct Column<Row> {
    title: &'static str,
    meaning: &'static str,
    /// Columns with higher numbers are dropped first. Columns with 0 always stay.
    expendable: u8,
    is_left: bool,
    /// Needs two readings.
    is_rate: bool,
    cell: fn(&Row) -> Cell,
}

/// A table cell and its sort key.
#[derive(Clone, Debug)]
struct Cell {
    text: String,
    key: SortKey,
}

#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum SortKey {
    Absent,
    Number(f64),
    Text(String),
}

impl Cell {
    fn absent() -> Self {
        Self { text: ABSENT.to_owned(), key: SortKey::Absent }
    }

    fn count(value: u64) -> Self {
        Self { text: figures::count(value as f64), key: SortKey::Number(value as f64) }
    }

    fn rate(value: Option<f64>) -> Self {
        value.map_or_else(Self::absent, |value| Self {
            text: figures::rate(value),
            key: SortKey::Number(value),
        })
    }

    /// Formats CPU time per second, from nanoseconds.
    fn cpu(ns_per_second: Option<f64>) -> Self {
        ns_per_second.map_or_else(Self::absent, |ns| {
            let percent = ns / 1e7;
            Self { text: format!("{percent:.0}"), key: SortKey::Number(percent) }
        })
    }

    fn time(ns: Option<u64>) -> Self {
        ns.map_or_else(Self::absent, |ns| Self {
            text: figures::time(ns),
            key: SortKey::Number(ns as f64),
        })
    }

    fn bytes(value: u64) -> Self {
        Self { text: figures::bytes(value), key: SortKey::Number(value as f64) }
    }

    fn text(text: &str) -> Self {
        let text = fit::printable(text);
        Self { key: SortKey::Text(text.clone()), text }
    }

    fn number(value: u32) -> Self {
        Self { text: value.to_string(), key: SortKey::Number(f64::from(value)) }
    }
}

struct QueueRow<'reading> {
    key: (String, usize),
    queue: &'reading QueueSnapshot,
    rates: &'reading Rates,
}

impl QueueRow<'_> {
    fn rate(&self, count: impl Fn(&QueueSnapshot) -> u64) -> Option<f64> {
        self.rates.of_queue(&self.key, self.queue, count)
    }

    fn delay(&self, of: fn(&coreshard::insight::Quantiles) -> u64) -> Cell {
        Cell::time(
            self.queue.times.as_ref().filter(|it| it.delay.samples > 0).map(|it| of(&it.delay)),
        )
    }

    fn run(&self, of: fn(&coreshard::insight::Quantiles) -> u64) -> Cell {
        Cell::time(self.queue.times.as_ref().filter(|it| it.run.samples > 0).map(|it| of(&it.run)))
    }
}

struct PoolRow<'reading> {
    pool: &'reading PoolSnapshot,
    rates: &'reading Rates,
}

const fn text<Row>(
    title: &'static str,
    expendable: u8,
    meaning: &'static str,
    cell: fn(&Row) -> Cell,
) -> Column<Row> {
    Column { title, meaning, expendable, is_left: true, is_rate: false, cell }
}

const fn figure<Row>(
    title: &'static str,
    expendable: u8,
    meaning: &'static str,
    cell: fn(&Row) -> Cell,
) -> Column<Row> {
    Column { title, meaning, expendable, is_left: false, is_rate: false, cell }
}

const fn rate<Row>(
    title: &'static str,
    expendable: u8,
    meaning: &'static str,
    cell: fn(&Row) -> Cell,
) -> Column<Row> {
    Column { title, meaning, expendable, is_left: false, is_rate: true, cell }
}

const fn queue_columns<'reading>() -> [Column<QueueRow<'reading>>; 17] {
    [
        text("QUEUE", 0, "name of the queue", |row| Cell::text(&row.queue.name)),
        text("SCOPE", 9, "affinity scope", |row| Cell::text(&row.queue.scope)),
        rate("RATE/S", 0, "finished items per second", |row| Cell::rate(row.rate(|q| q.run))),
        figure("TOTAL", 2, "finished items since the queue was created", |row| {
            Cell::count(row.queue.run)
        }),
        figure("INFL", 0, "accepted and unfinished items", |row| Cell::count(row.queue.in_flight)),
        rate("CPU%", 1, "CPU time, in percent of one CPU", |row| {
            Cell::cpu(row.rate(|q| q.cpu_time_ns))
        }),
        figure("CPUTIME", 4, "CPU time since the queue was created", |row| {
            Cell::time(Some(row.queue.cpu_time_ns))
        }),
        figure("HOGS", 5, "items that held a CPU for too long", |row| {
            Cell::count(row.queue.cpu_hogs)
        }),
        figure("HANDS", 3, "replacements of blocked workers", |row| {
            Cell::count(row.queue.hand_overs)
        }),
        figure("RESC", 5, "items run by a rescuer", |row| Cell::count(row.queue.rescues)),
        figure("DLY-P50", 6, "median delay until an item starts", |row| {
            row.delay(|times| times.p50_ns)
        }),
        figure("DLY-P99", 1, "99th percentile of the delay", |row| row.delay(|times| times.p99_ns)),
        figure("DLY-MAX", 7, "maximum delay", |row| row.delay(|times| times.max_ns)),
        figure("RUN-P50", 6, "median run time", |row| row.run(|times| times.p50_ns)),
        figure("RUN-P99", 1, "99th percentile of the run time", |row| {
            row.run(|times| times.p99_ns)
        }),
        figure("RUN-MAX", 7, "maximum run time", |row| row.run(|times| times.max_ns)),
        figure("1-IN", 8, "items per measured item", |row| {
            row.queue
                .times
                .as_ref()
                .map_or_else(Cell::absent, |times| Cell::number(times.items_per_sample))
        }),
    ]
}

const fn pool_columns<'reading>() -> [Column<PoolRow<'reading>>; 20] {
    [
        figure("POOL", 0, "ID of the pool in the process", |row| Cell::number(row.pool.id)),
        text("SCOPE", 1, "affinity scope", |row| Cell::text(&row.pool.scope)),
        text("CPUS", 2, "CPUs of the pool", |row| Cell::text(&row.pool.cpus)),
        figure("NODE", 9, "NUMA node", |row| row.pool.node.map_or_else(Cell::absent, Cell::number)),
        figure("LIMIT", 3, "maximum running workers", |row| Cell::count(row.pool.worker_limit)),
        figure("WRKRS", 0, "workers", |row| Cell::count(row.pool.workers)),
        figure("IDLE", 0, "parked workers", |row| Cell::count(row.pool.idle_workers)),
        figure("BLKD", 0, "workers blocked in an item", |row| {
            Cell::count(row.pool.blocked_workers)
        }),
        rate("RATE/S", 0, "items run per second", |row| {
            Cell::rate(row.rates.of_pool(row.pool, |p| p.run))
        }),
        figure("TOTAL", 4, "items run since the pool was created", |row| Cell::count(row.pool.run)),
        rate("CPU%", 0, "CPU time of the workers, in percent of one CPU", |row| {
            Cell::cpu(row.rates.of_pool(row.pool, |p| p.cpu_time_ns))
        }),
        figure("CPUTIME", 4, "CPU time of current and past workers", |row| {
            Cell::time(Some(row.pool.cpu_time_ns))
        }),
        rate("WAKE/S", 2, "wake-ups with a system call per second", |row| {
            Cell::rate(row.rates.of_pool(row.pool, |p| p.wakeups))
        }),
        figure("STOLEN", 6, "claims stolen by another worker", |row| Cell::count(row.pool.stolen)),
        figure("REPAT", 6, "workers moved back to their pod", |row| {
            Cell::count(row.pool.repatriated)
        }),
        figure("HANDS", 3, "replacements of blocked workers", |row| {
            Cell::count(row.pool.hand_overs)
        }),
        figure("HOGS", 5, "items that held a CPU for too long", |row| {
            Cell::count(row.pool.cpu_hogs)
        }),
        figure("RESC", 7, "calls of the rescuer", |row| Cell::count(row.pool.rescues)),
        figure("FAILED", 7, "failed starts of workers", |row| {
            Cell::count(row.pool.failed_worker_starts)
        }),
        figure("INTAKE", 8, "memory of waiting items", |row| Cell::bytes(row.pool.intake_bytes)),
    ]
}

/// Finds a column of either table by its title.
pub(super) fn column(text: &str) -> Result<&'static str, String> {
    let titles = || {
        let queues = queue_columns().into_iter().map(|column| column.title);
        queues.chain(pool_columns().into_iter().map(|column| column.title))
    };
    titles().find(|title| title.eq_ignore_ascii_case(text)).ok_or_else(|| {
        let mut all: Vec<_> = titles().collect();
        all.sort_unstable();
        all.dedup();
        format!("expected one of {}", all.join(", "))
    })
}

/// Formats the process in a line.
pub(super) fn head(snapshot: &Snapshot) -> String {
    format!(
        "{} (process {}), Coreshard {}, {}, {}",
        fit::printable(&snapshot.program),
        snapshot.pid,
        fit::printable(&snapshot.release),
        counted(snapshot.queues.len(), "queue"),
        counted(snapshot.pools.len(), "pool"),
    )
}

/// Builds both tables.
pub(super) fn of(snapshot: &Snapshot, rates: &Rates) -> [Sheet; 2] {
    let queues: Vec<_> =
        rates::numbered(snapshot).map(|(key, queue)| QueueRow { key, queue, rates }).collect();
    let pools: Vec<_> = snapshot.pools.iter().map(|pool| PoolRow { pool, rates }).collect();
    let both = rates.are_known();
    [
        Sheet::new("Queues", "TOTAL", &queue_columns(), &queues, both),
        Sheet::new("Pools", "POOL", &pool_columns(), &pools, both),
    ]
}

/// A table with its rows in order.
pub(super) struct Sheet {
    pub(super) title: &'static str,
    /// The default sort column.
    pub(super) usual_order: &'static str,
    columns: Vec<Heading>,
    rows: Vec<Vec<Cell>>,
}

struct Heading {
    title: &'static str,
    meaning: &'static str,
    expendable: u8,
    is_left: bool,
}

/// Maximum width of a text column.
const WIDEST_TEXT: usize = 32;
/// Text columns are narrowed to this before unimportant columns are dropped.
const NARROW_TEXT: usize = 20;
/// Text columns are narrowed to this before any column is dropped.
const NARROWEST_TEXT: usize = 12;
/// Columns at or above this level are unimportant.
const MATTERS_LITTLE: u8 = 2;

impl Sheet {
    fn new<Row>(
        title: &'static str,
        usual_order: &'static str,
        columns: &[Column<Row>],
        rows: &[Row],
        with_rates: bool,
    ) -> Self {
        let shown = || columns.iter().filter(|column| with_rates || !column.is_rate);
        Self {
            title,
            usual_order,
            columns: shown()
                .map(|column| Heading {
                    title: column.title,
                    meaning: column.meaning,
                    expendable: column.expendable,
                    is_left: column.is_left,
                })
                .collect(),
            rows: rows
                .iter()
                .map(|row| shown().map(|column| (column.cell)(row)).collect())
                .collect(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the titles of all columns.
    pub(super) fn titles(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.title)
    }

    /// Returns the titles and meanings of all columns.
    pub(super) fn legend(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.columns.iter().map(|column| (column.title, column.meaning))
    }

    /// Sorts the rows by the column, if the table has it. The sort is stable.
    pub(super) fn sort_by(&mut self, title: &str, largest_first: bool) {
        let Some(at) = self.columns.iter().position(|column| column.title == title) else { return };
        let largest_first = largest_first != self.is_read_downwards(at);
        self.rows.sort_by(|one, other| {
            let order = one[at].key.partial_cmp(&other[at].key).unwrap_or(Ordering::Equal);
            if largest_first { order.reverse() } else { order }
        });
    }

    /// Returns true for names and IDs, which sort in ascending order.
    fn is_read_downwards(&self, at: usize) -> bool {
        self.columns[at].is_left || self.columns[at].title == "POOL"
    }

    /// Formats the heading and rows, each at most `width` columns wide. `sorted` is the column to mark, which is always
    /// shown, and whether its largest value comes first.
    pub(super) fn lines(&self, width: usize, sorted: Option<(&str, bool)>) -> Vec<String> {
        let heading = |at: usize| match sorted {
            Some((title, largest_first)) if title == self.columns[at].title => {
                let is_down = largest_first != self.is_read_downwards(at);
                format!("{title}{}", if is_down { '▼' } else { '▲' })
            }
            _ => self.columns[at].title.to_owned(),
        };
        let is_sorted = |at: usize| sorted.is_some_and(|(it, _)| it == self.columns[at].title);
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = self.rows.iter().map(|row| fit::width(&row[at].text)).max();
                // Reserve room for the mark in each column, so that sorting moves nothing.
                let title = self.columns[at].title.len() + usize::from(sorted.is_some());
                let most = if self.columns[at].is_left { WIDEST_TEXT } else { usize::MAX };
                cells.unwrap_or(0).min(most).max(title)
            })
            .collect();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let total = |shown: &[usize], widths: &[usize]| {
            shown.iter().map(|at| widths[*at] + 1).sum::<usize>().saturating_sub(1)
        };
        while total(&shown, &widths) > width {
            let over = total(&shown, &widths) - width;
            let least = shown
                .iter()
                .copied()
                .filter(|at| self.columns[*at].expendable > 0 && !is_sorted(*at))
                .max_by_key(|at| self.columns[*at].expendable);
            let is_little = least.is_some_and(|at| self.columns[at].expendable >= MATTERS_LITTLE);
            let narrow = if is_little { NARROW_TEXT } else { NARROWEST_TEXT };
            let long = shown
                .iter()
                .copied()
                .filter(|at| self.columns[*at].is_left && widths[*at] > narrow);
            if let Some(at) = long.max_by_key(|at| widths[*at]) {
                widths[at] = widths[at].saturating_sub(over).max(narrow);
                continue;
            }
            let Some(at) = least else { break };
            shown.retain(|kept| *kept != at);
            // Widen text columns again if there is room.
            for at in &shown {
                if self.columns[*at].is_left {
                    let cells = self.rows.iter().map(|row| fit::width(&row[*at].text)).max();
                    widths[*at] = widths[*at].max(cells.unwrap_or(0).min(WIDEST_TEXT));
                }
            }
        }
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells =
                shown.iter().map(|at| fit::pad(&cell(*at), widths[*at], self.columns[*at].is_left));
            fit::shorten(&cells.collect::<Vec<_>>().join(" "), width)
        };
        let rows = self.rows.iter().map(|row| line(&|at| row[at].text.clone()));
        std::iter::once(line(&heading)).chain(rows).collect()
    }

    /// Returns how many columns [`Self::lines`] drops at this width.
    pub(super) fn left_out(&self, width: usize, sorted: Option<(&str, bool)>) -> usize {
        let heading = &self.lines(width, sorted)[0];
        let shown = heading.split_whitespace().count();
        self.columns.len() - shown.min(self.columns.len())
    }
}

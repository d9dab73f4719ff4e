//! The two tables: what each column holds, how rows are ordered, and which columns fit.

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
    /// Columns of the highest number are left out first; 0 stays.
    expendable: u8,
    is_left: bool,
    /// Needs two readings.
    is_rate: bool,
    cell: fn(&Row) -> Cell,
}

/// What stands in a table, and by what it is ordered.
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

    /// Nanoseconds of CPU time a second.
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
        text("QUEUE", 0, "the queue's name", |row| Cell::text(&row.queue.name)),
        text("SCOPE", 9, "which CPUs share a pool", |row| Cell::text(&row.queue.scope)),
        rate("RATE/S", 0, "items that ended, a second", |row| Cell::rate(row.rate(|q| q.run))),
        figure("TOTAL", 2, "items that ended since the queue was made", |row| {
            Cell::count(row.queue.run)
        }),
        figure("INFL", 0, "items accepted and not over", |row| Cell::count(row.queue.in_flight)),
        rate("CPU%", 1, "CPU time, in percent of one CPU", |row| {
            Cell::cpu(row.rate(|q| q.cpu_time_ns))
        }),
        figure("CPUTIME", 4, "CPU time since the queue was made", |row| {
            Cell::time(Some(row.queue.cpu_time_ns))
        }),
        figure("HOGS", 5, "items that kept a CPU for too long", |row| {
            Cell::count(row.queue.cpu_hogs)
        }),
        figure("HANDS", 3, "places handed over since an item blocked", |row| {
            Cell::count(row.queue.hand_overs)
        }),
        figure("RESC", 5, "items that a rescuer ran", |row| Cell::count(row.queue.rescues)),
        figure("DLY-P50", 6, "delay until an item began: half took no longer", |row| {
            row.delay(|times| times.p50_ns)
        }),
        figure("DLY-P99", 1, "delay: 99 % took no longer", |row| row.delay(|times| times.p99_ns)),
        figure("DLY-MAX", 7, "delay: the longest", |row| row.delay(|times| times.max_ns)),
        figure("RUN-P50", 6, "run time: half took no longer", |row| row.run(|times| times.p50_ns)),
        figure("RUN-P99", 1, "run time: 99 % took no longer", |row| row.run(|times| times.p99_ns)),
        figure("RUN-MAX", 7, "run time: the longest", |row| row.run(|times| times.max_ns)),
        figure("1-IN", 8, "items that one measured item stands for", |row| {
            row.queue
                .times
                .as_ref()
                .map_or_else(Cell::absent, |times| Cell::number(times.items_per_sample))
        }),
    ]
}

const fn pool_columns<'reading>() -> [Column<PoolRow<'reading>>; 20] {
    [
        figure("POOL", 0, "the pool's number in the process", |row| Cell::number(row.pool.id)),
        text("SCOPE", 1, "which CPUs share a pool", |row| Cell::text(&row.pool.scope)),
        text("CPUS", 2, "the CPUs that share it", |row| Cell::text(&row.pool.cpus)),
        figure("NODE", 9, "its NUMA node", |row| {
            row.pool.node.map_or_else(Cell::absent, Cell::number)
        }),
        figure("LIMIT", 3, "workers that may run at once", |row| {
            Cell::count(row.pool.worker_limit)
        }),
        figure("WRKRS", 0, "workers that exist", |row| Cell::count(row.pool.workers)),
        figure("IDLE", 0, "workers that sleep", |row| Cell::count(row.pool.idle_workers)),
        figure("BLKD", 0, "workers that wait inside an item", |row| {
            Cell::count(row.pool.blocked_workers)
        }),
        rate("RATE/S", 0, "items run, a second", |row| {
            Cell::rate(row.rates.of_pool(row.pool, |p| p.run))
        }),
        figure("TOTAL", 4, "items run since the pool was made", |row| Cell::count(row.pool.run)),
        rate("CPU%", 0, "CPU time of its workers, in percent of one CPU", |row| {
            Cell::cpu(row.rates.of_pool(row.pool, |p| p.cpu_time_ns))
        }),
        figure("CPUTIME", 4, "CPU time of all workers that it has had", |row| {
            Cell::time(Some(row.pool.cpu_time_ns))
        }),
        rate("WAKE/S", 2, "wake-ups that took a system call, a second", |row| {
            Cell::rate(row.rates.of_pool(row.pool, |p| p.wakeups))
        }),
        figure("STOLEN", 6, "claims that a worker took over from another", |row| {
            Cell::count(row.pool.stolen)
        }),
        figure("REPAT", 6, "workers brought back to their pod", |row| {
            Cell::count(row.pool.repatriated)
        }),
        figure("HANDS", 3, "places handed over since an item blocked", |row| {
            Cell::count(row.pool.hand_overs)
        }),
        figure("HOGS", 5, "items that kept a CPU for too long", |row| {
            Cell::count(row.pool.cpu_hogs)
        }),
        figure("RESC", 7, "times the reserve was called", |row| Cell::count(row.pool.rescues)),
        figure("FAILED", 7, "workers that could not be started", |row| {
            Cell::count(row.pool.failed_worker_starts)
        }),
        figure("INTAKE", 8, "memory of what waits", |row| Cell::bytes(row.pool.intake_bytes)),
    ]
}

/// A column that one of the tables has, by its title.
pub(super) fn column(text: &str) -> Result<&'static str, String> {
    let titles = || {
        let queues = queue_columns().into_iter().map(|column| column.title);
        queues.chain(pool_columns().into_iter().map(|column| column.title))
    };
    titles().find(|title| title.eq_ignore_ascii_case(text)).ok_or_else(|| {
        let mut all: Vec<_> = titles().collect();
        all.sort_unstable();
        all.dedup();
        format!("there is no such column; the columns are {}", all.join(", "))
    })
}

/// The process, in a line.
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

/// The queues, and the pools.
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
    /// The column that orders it unless another is asked for.
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

/// A text column takes no more than this.
const WIDEST_TEXT: usize = 32;
/// Nor is one made narrower than this before columns are left out that matter little,
const NARROW_TEXT: usize = 20;
/// or than this before any is.
const NARROWEST_TEXT: usize = 12;
/// Columns that matter little: expendable to this degree or more.
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

    /// All columns' titles.
    pub(super) fn titles(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.title)
    }

    /// All columns' titles and meanings.
    pub(super) fn legend(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.columns.iter().map(|column| (column.title, column.meaning))
    }

    /// Orders the rows, if the table has the column. Rows that are equal there stay as they were.
    pub(super) fn sort_by(&mut self, title: &str, largest_first: bool) {
        let Some(at) = self.columns.iter().position(|column| column.title == title) else { return };
        let largest_first = largest_first != self.is_read_downwards(at);
        self.rows.sort_by(|one, other| {
            let order = one[at].key.partial_cmp(&other[at].key).unwrap_or(Ordering::Equal);
            if largest_first { order.reverse() } else { order }
        });
    }

    /// Names and numbers of things begin with the first.
    fn is_read_downwards(&self, at: usize) -> bool {
        self.columns[at].is_left || self.columns[at].title == "POOL"
    }

    /// The heading and the rows, each at most `width` columns of a terminal; `sorted` is the column
    /// to be marked, which is always shown, and whether its largest comes first.
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
                // Room for the mark at each, so that sorting by another column moves nothing.
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
            // What was made narrow for it may have its room again.
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

    /// How many columns [`Self::lines`] leaves out at this width.
    pub(super) fn left_out(&self, width: usize, sorted: Option<(&str, bool)>) -> usize {
        let heading = &self.lines(width, sorted)[0];
        let shown = heading.split_whitespace().count();
        self.columns.len() - shown.min(self.columns.len())
    }
}

//! The screen: contents, keys and main loop.

use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use coreshard::insight::{InsightClient, InsightError, Snapshot};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::fit;
use super::rates::Rates;
use super::sheets::{self, Sheet};
use crate::common::figures;

const KEYS: [(&str, &str); 7] = [
    ("q", "quit"),
    ("Tab", "table"),
    ("←→", "sort column"),
    ("r", "reverse"),
    ("↑↓", "scroll"),
    ("p", "pause"),
    ("?", "columns"),
];

/// Interval at which keys are checked.
const KEY_DELAY: Duration = Duration::from_millis(50);

/// The result of reading the process.
type Reading = Result<Snapshot, InsightError>;

/// The view of a table.
#[derive(Clone, Copy, Debug)]
struct Viewed {
    sorted: &'static str,
    largest_first: bool,
    /// The first row shown.
    from: usize,
}

/// The state of the screen.
pub(super) struct Screen {
    now: Snapshot,
    before: Option<Snapshot>,
    interval: Duration,
    /// Why the last reading failed.
    problem: Option<String>,
    is_paused: bool,
    shows_legend: bool,
    /// The table that keys apply to.
    at: usize,
    viewed: [Viewed; 2],
    /// Rows that fitted in the last drawing.
    room: [usize; 2],
    pub(super) is_over: bool,
}

impl Screen {
    pub(super) fn new(first: Snapshot, interval: Duration, sort: Option<&'static str>) -> Self {
        let sheets = sheets::of(&first, &Rates::unknown());
        let viewed = |sheet: &Sheet| {
            // Rates are missing until the second reading, so check the column definitions.
            let sorted = sort.filter(|title| has_column(sheet.title, title));
            Viewed { sorted: sorted.unwrap_or(sheet.usual_order), largest_first: true, from: 0 }
        };
        Self {
            viewed: [viewed(&sheets[0]), viewed(&sheets[1])],
            now: first,
            before: None,
            interval,
            problem: None,
            is_paused: false,
            shows_legend: false,
            at: 0,
            room: [1, 1],
            is_over: false,
        }
    }

    /// Processes a reading.
    pub(super) fn take(&mut self, reading: Reading) {
        match reading {
            _ if self.is_paused => {}
            Ok(snapshot) => {
                self.problem = None;
                self.before = Some(std::mem::replace(&mut self.now, snapshot));
            }
            Err(error) if error.is_gone() => {
                self.problem = Some(format!(
                    "the process has exited or stopped serving; showing its last snapshot: {error}"
                ));
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    fn sheets(&self) -> [Sheet; 2] {
        let rates = match &self.before {
            Some(before) => Rates::between(before, &self.now),
            None => Rates::unknown(),
        };
        let mut sheets = sheets::of(&self.now, &rates);
        for (sheet, viewed) in sheets.iter_mut().zip(&self.viewed) {
            sheet.sort_by(viewed.sorted, viewed.largest_first);
        }
        sheets
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over = true;
            return;
        }
        if self.shows_legend {
            // Any key closes the legend. `q` also quits.
            self.shows_legend = false;
            self.is_over = key.code == KeyCode::Char('q');
            return;
        }
        let page = self.room[self.at].max(1);
        let last = self.sheets()[self.at].rows().saturating_sub(page);
        let viewed = &mut self.viewed[self.at];
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => self.is_over = true,
            KeyCode::Tab | KeyCode::BackTab => self.at = 1 - self.at,
            KeyCode::Right => self.step(1),
            KeyCode::Left => self.step(-1),
            KeyCode::Char('r') => viewed.largest_first = !viewed.largest_first,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') => self.shows_legend = true,
            KeyCode::Down => viewed.from = (viewed.from + 1).min(last),
            KeyCode::Up => viewed.from = viewed.from.saturating_sub(1),
            KeyCode::PageDown => viewed.from = (viewed.from + page).min(last),
            KeyCode::PageUp => viewed.from = viewed.from.saturating_sub(page),
            KeyCode::Home => viewed.from = 0,
            KeyCode::End => viewed.from = last,
            _ => {}
        }
    }

    /// Sorts by the next or previous column.
    fn step(&mut self, by: isize) {
        let titles: Vec<_> = self.sheets()[self.at].titles().collect();
        let viewed = &mut self.viewed[self.at];
        let at = titles.iter().position(|title| *title == viewed.sorted).unwrap_or(0);
        viewed.sorted = titles[at.saturating_add_signed(by + titles.len() as isize) % titles.len()];
        viewed.largest_first = true;
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let width = usize::from(area.width);
        let sheets = self.sheets();
        let mut lines =
            vec![Line::styled(fit::shorten(&sheets::head(&self.now), width), Modifier::BOLD)];
        lines.push(self.summary(width));
        lines.push(Line::default());
        // Two lines for each table's title and heading, one between tables, one for the keys.
        let room = usize::from(area.height).saturating_sub(lines.len() + 2 * 2 + 1 + 1);
        self.room = share(room, [sheets[0].rows(), sheets[1].rows()]);
        for (at, sheet) in sheets.iter().enumerate() {
            if at > 0 {
                lines.push(Line::default());
            }
            lines.extend(self.table(at, sheet, width));
        }
        let body = Rect { height: area.height.saturating_sub(1), ..area };
        frame.render_widget(Paragraph::new(lines), body);
        let foot = Rect { y: body.bottom(), height: area.height - body.height, ..area };
        frame.render_widget(Paragraph::new(keys(width)), foot);
        if self.shows_legend {
            self.draw_legend(frame, &sheets[self.at]);
        }
    }

    /// Returns the second line: totals of the process, or the problem.
    fn summary(&self, width: usize) -> Line<'static> {
        if let Some(problem) = &self.problem {
            let text = fit::shorten(&fit::printable(problem), width);
            return Line::styled(text, Style::new().fg(Color::Red));
        }
        let rates = self.before.as_ref().map(|before| Rates::between(before, &self.now));
        let sum = |of: fn(&coreshard::insight::PoolSnapshot) -> u64| {
            let rates = rates.as_ref().filter(|rates| rates.are_known())?;
            Some(self.now.pools.iter().filter_map(|pool| rates.of_pool(pool, of)).sum::<f64>())
        };
        let rate = sum(|pool| pool.run).map_or(figures::ABSENT.to_owned(), figures::rate);
        let cpu = sum(|pool| pool.cpu_time_ns)
            .map_or(figures::ABSENT.to_owned(), |ns| format!("{:.0}", ns / 1e7));
        let in_flight: u64 = self.now.queues.iter().map(|queue| queue.in_flight).sum();
        let workers: u64 = self.now.pools.iter().map(|pool| pool.workers).sum();
        let state = if self.is_paused {
            "paused".to_owned()
        } else {
            format!("every {} s", self.interval.as_secs_f64())
        };
        let text = format!(
            "{rate} items/s, {} in flight, {cpu} % CPU, {} workers, {state}",
            figures::count(in_flight as f64),
            figures::count(workers as f64),
        );
        Line::raw(fit::shorten(&text, width))
    }

    fn table(&mut self, at: usize, sheet: &Sheet, width: usize) -> Vec<Line<'static>> {
        let (room, viewed) = (self.room[at], &mut self.viewed[at]);
        // The table may have become shorter.
        viewed.from = viewed.from.min(sheet.rows().saturating_sub(room.max(1)));
        let sorted = Some((viewed.sorted, viewed.largest_first));
        let mut title = sheet.title.to_owned();
        if sheet.rows() > room {
            let (first, last) = (viewed.from + 1, viewed.from + room);
            title += &format!(", {first} to {last} of {}", sheet.rows());
        }
        let left_out = sheet.left_out(width, sorted);
        if left_out > 0 {
            title += &format!("  ({left_out} more columns: widen the terminal, or sort by them)");
        }
        let is_at = at == self.at;
        let mark = if is_at { "▶ " } else { "  " };
        let style = if is_at { Style::new().fg(Color::Cyan).bold() } else { Style::new() };
        let mut lines = vec![Line::styled(fit::shorten(&format!("{mark}{title}"), width), style)];
        let mut text = sheet.lines(width, sorted).into_iter();
        lines.extend(text.next().map(|line| Line::styled(line, Modifier::REVERSED)));
        lines.extend(text.skip(viewed.from).take(room).map(Line::raw));
        lines
    }

    fn draw_legend(&self, frame: &mut Frame<'_>, sheet: &Sheet) {
        let area = frame.area();
        let entries: Vec<Line<'_>> = sheet
            .legend()
            .map(|(title, meaning)| {
                let title = Span::styled(format!("{title:8} "), Modifier::BOLD);
                Line::from(vec![title, Span::raw(meaning)])
            })
            .collect();
        let widest = entries.iter().map(Line::width).max().unwrap_or(0) + 2;
        let width = u16::try_from(widest).unwrap_or(u16::MAX).min(area.width);
        let height = u16::try_from(entries.len() + 2).unwrap_or(u16::MAX).min(area.height);
        let x = (area.width - width) / 2;
        let y = (area.height - height) / 2;
        let area = Rect { x, y, width, height };
        let title = format!("{}: press any key to return", sheet.title);
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(entries).block(Block::bordered().title(title)), area);
    }
}

/// Returns true if the table has the column, visible or not.
fn has_column(table: &str, title: &str) -> bool {
    let any = Snapshot::default();
    let mut later = any.clone();
    later.taken_ns = any.taken_ns + 1;
    let sheets = sheets::of(&later, &Rates::between(&any, &later));
    sheets.iter().any(|sheet| sheet.title == table && sheet.titles().any(|it| it == title))
}

/// Divides `room` between two tables that want these numbers of rows. Each gets at least half if it needs that much,
/// and unused rows go to the other table.
fn share(room: usize, wanted: [usize; 2]) -> [usize; 2] {
    let half = room / 2;
    let first = wanted[0].min(half.max(room.saturating_sub(wanted[1])));
    [first, wanted[1].min(room - first)]
}

/// Returns the keys, as many as fit.
fn keys(width: usize) -> Line<'static> {
    let mut line = Line::default();
    for (key, what) in KEYS {
        let gap = if line.spans.is_empty() { "" } else { "  " };
        let key = Span::styled(key, Modifier::REVERSED);
        let what = format!(" {what}");
        if line.width() + gap.len() + key.width() + what.len() > width {
            break;
        }
        line.spans.extend([Span::raw(gap), key, Span::raw(what)]);
    }
    line
}

/// Shows the screen until the user quits.
pub(super) fn run(client: &InsightClient, mut screen: Screen) -> anyhow::Result<()> {
    let (readings, taken) = mpsc::sync_channel::<Reading>(1);
    let (over, is_over) = mpsc::channel::<()>();
    let reader = {
        let (client, interval) = (client.clone(), screen.interval);
        // Reading a stopped process blocks, so it needs a separate thread.
        thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(interval) {
                if readings.send(client.snapshot()).is_err() {
                    return;
                }
            }
        })
    };
    let mut terminal = ratatui::try_init().context("cannot set up the terminal")?;
    let shown = (|| {
        let mut is_old = true;
        while !screen.is_over {
            if is_old {
                terminal.draw(|frame| screen.draw(frame))?;
            }
            is_old = false;
            if event::poll(KEY_DELAY)? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => screen.key(key),
                    _ => {}
                }
                is_old = true;
            }
            match taken.try_recv() {
                Ok(reading) => {
                    screen.take(reading);
                    is_old = true;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => unreachable!("the reader exits on request"),
            }
        }
        std::io::Result::Ok(())
    })();
    ratatui::restore();
    drop((over, taken));
    // Do not join: it may be blocked on an answer.
    drop(reader);
    shown.context("cannot use the terminal")
}

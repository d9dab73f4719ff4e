//! The screen at typical terminal sizes, drawn into memory.

use std::time::Duration;

use coreshard::insight::{PoolSnapshot, Quantiles, QueueSnapshot, Snapshot, TimesSnapshot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::screen::Screen;

fn quantiles(ns: u64) -> Quantiles {
    let mut it = Quantiles::default();
    it.samples = 100;
    (it.p50_ns, it.p99_ns, it.max_ns) = (ns, ns * 9, ns * 80);
    it
}

fn queue(name: &str, run: u64, is_measured: bool) -> QueueSnapshot {
    let mut queue = QueueSnapshot::default();
    queue.name = name.to_owned();
    queue.scope = "cache_shard".to_owned();
    (queue.queued, queue.run, queue.in_flight) = (run + 42, run, 42);
    queue.cpu_time_ns = run * 1_000;
    queue.hand_overs = 3;
    queue.times = is_measured.then(|| {
        let mut times = TimesSnapshot::default();
        times.items_per_sample = 32;
        (times.delay, times.run) = (quantiles(16_400), quantiles(1_230));
        times
    });
    queue
}

fn pool(id: u32, run: u64) -> PoolSnapshot {
    let mut pool = PoolSnapshot::default();
    (pool.id, pool.pod, pool.run) = (id, id, run);
    pool.scope = "cache_shard".to_owned();
    pool.cpus = format!("{}-{}", id * 8, id * 8 + 7);
    pool.node = Some(0);
    (pool.worker_limit, pool.workers, pool.idle_workers, pool.blocked_workers) = (8, 9, 4, 1);
    pool.cpu_time_ns = run * 1_000;
    pool.intake_bytes = 68 << 10;
    pool
}

fn snapshot(seconds: u64, queues: u64, pools: u32) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.pid = 4711;
    snapshot.program = "storage-engine".to_owned();
    snapshot.release = "0.1.0".to_owned();
    snapshot.taken_ns = seconds * 1_000_000_000;
    let names = ["requests", "compaction (ordered)", "thumbnails"];
    snapshot.queues = (0..queues)
        .map(|at| {
            let name =
                names.get(at as usize).map_or_else(|| format!("tenant-{at}"), |it| (*it).into());
            queue(&name, (at + 1) * 10_000 * seconds, at % 2 == 0)
        })
        .collect();
    snapshot.pools = (0..pools).map(|at| pool(at, 50_000 * seconds)).collect();
    snapshot
}

/// A screen after two readings a second apart.
fn screen(queues: u64, pools: u32) -> Screen {
    let mut screen = Screen::new(snapshot(1, queues, pools), Duration::from_secs(1), None);
    screen.take(Ok(snapshot(2, queues, pools)));
    screen
}

/// Returns the drawn screen, line by line.
fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(screen: &mut Screen, codes: &[KeyCode]) {
    codes.iter().for_each(|code| screen.key(KeyEvent::new(*code, KeyModifiers::NONE)));
}

fn line<'lines>(lines: &'lines [String], start: &str) -> &'lines str {
    let found = lines.iter().find(|line| line.trim_start().starts_with(start));
    found.unwrap_or_else(|| panic!("no line {start} in {lines:#?}"))
}

/// Returns the order of rows in the queue table.
fn order(lines: &[String]) -> Vec<String> {
    let begin = lines.iter().position(|line| line.starts_with("QUEUE")).unwrap();
    let rows = lines[begin + 1..].iter().take_while(|line| !line.is_empty());
    rows.map(|row| row.split("  ").next().unwrap().trim_end_matches(" cache_shard").to_owned())
        .collect()
}

#[test]
fn a_terminal_of_80_by_24_shows_what_matters() {
    let lines = drawn(&mut screen(3, 4), 80, 24);
    assert_eq!(lines.len(), 24);
    assert!(
        lines[0].starts_with("storage-engine (process 4711), Coreshard 0.1.0, 3 queues, 4 pools")
    );
    assert!(lines[1].starts_with("200k items/s, 126 in flight, 20 % CPU, 36 workers, every 1 s"));
    let heading = line(&lines, "QUEUE");
    for title in ["RATE/S", "INFL", "CPU%", "DLY-P99", "RUN-P99"] {
        assert!(heading.contains(title), "{heading}");
    }
    let row = line(&lines, "compaction (ordered)");
    assert!(row.contains("20.0k") && row.contains("42"), "{row}");
    let row = line(&lines, "requests");
    assert!(row.contains("148µs") && row.contains("11.1µs"), "{row}");
    let heading = line(&lines, "POOL");
    for title in ["WRKRS", "IDLE", "BLKD", "RATE/S", "CPU%"] {
        assert!(heading.contains(title), "{heading}");
    }
    assert!(line(&lines, "0 cache_shard 0-7").contains("50.0k"));
    assert_eq!(
        lines[23],
        "q quit  Tab table  ←→ sort column  r reverse  ↑↓ scroll  p pause  ? columns"
    );
    assert!(!lines.concat().contains('…'), "nothing is cut: {lines:#?}");
}

#[test]
fn a_terminal_of_200_by_50_shows_every_column() {
    let lines = drawn(&mut screen(20, 10), 200, 50);
    assert!(!lines.concat().contains("more columns"), "{lines:#?}");
    assert!(!lines.concat().contains('…'), "nothing is cut: {lines:#?}");
    let heading = line(&lines, "QUEUE");
    assert_eq!(heading.split_whitespace().count(), 17, "{heading}");
    let heading = line(&lines, "POOL");
    assert_eq!(heading.split_whitespace().count(), 20, "{heading}");
    // All rows and the keys below.
    assert_eq!(order(&lines).len(), 20);
    assert!(lines[49].starts_with("q quit"));
}

/// Unrealistic, but no size may fail.
#[test]
fn no_size_is_too_small_to_be_drawn() {
    for width in (1..120).step_by(17) {
        for height in (1..30).step_by(4) {
            let mut screen = screen(9, 9);
            drawn(&mut screen, width, height);
            press(&mut screen, &[KeyCode::Char('?')]);
            drawn(&mut screen, width, height);
        }
    }
}

#[test]
fn each_column_orders_the_rows_and_is_shown_then() {
    for table in 0..2 {
        let mut screen = screen(5, 5);
        if table == 1 {
            press(&mut screen, &[KeyCode::Tab]);
        }
        let mut marked = Vec::new();
        for _ in 0..[17, 20][table] {
            let lines = drawn(&mut screen, 80, 24);
            let heading = line(&lines, ["QUEUE", "POOL"][table]);
            let title = heading.split_whitespace().find(|title| title.ends_with(['▼', '▲']));
            let title = title.unwrap_or_else(|| panic!("no mark in {heading}"));
            marked.push(title.trim_end_matches(['▼', '▲']).to_owned());
            press(&mut screen, &[KeyCode::Right]);
        }
        let all = marked.len();
        marked.sort();
        marked.dedup();
        assert_eq!(marked.len(), all, "each column once: {marked:?}");
    }
}

#[test]
fn rows_are_ordered_by_what_a_column_means() {
    let mut screen = Screen::new(snapshot(1, 3, 1), Duration::from_secs(1), Some("RATE/S"));
    screen.take(Ok(snapshot(2, 3, 1)));
    let lines = drawn(&mut screen, 200, 50);
    assert_eq!(order(&lines), ["thumbnails", "compaction (ordered)", "requests"]);
    assert!(line(&lines, "QUEUE").contains("RATE/S▼"));
    press(&mut screen, &[KeyCode::Char('r')]);
    let lines = drawn(&mut screen, 200, 50);
    assert_eq!(order(&lines), ["requests", "compaction (ordered)", "thumbnails"]);
    assert!(line(&lines, "QUEUE").contains("RATE/S▲"));
    // Names sort in ascending order first.
    press(&mut screen, &[KeyCode::Left, KeyCode::Left]);
    let lines = drawn(&mut screen, 200, 50);
    assert_eq!(order(&lines), ["compaction (ordered)", "requests", "thumbnails"]);
    // Missing values are neither large nor small.
    let mut screen = Screen::new(snapshot(1, 3, 1), Duration::from_secs(1), Some("DLY-P99"));
    assert_eq!(order(&drawn(&mut screen, 200, 50)).last().unwrap(), "compaction (ordered)");
}

#[test]
fn rows_that_do_not_fit_can_be_scrolled_to() {
    let mut screen = screen(40, 40);
    let lines = drawn(&mut screen, 80, 24);
    assert!(line(&lines, "▶ Queues, 1 to 7 of 40").contains("more columns"));
    assert!(line(&lines, "Pools, 1 to 8 of 40").contains("more columns"));
    press(&mut screen, &[KeyCode::End]);
    let lines = drawn(&mut screen, 80, 24);
    line(&lines, "▶ Queues, 34 to 40 of 40");
    // The default order is by items run. The first queue has run least.
    assert_eq!(order(&lines).last().unwrap(), "requests");
    press(&mut screen, &[KeyCode::Home, KeyCode::PageDown, KeyCode::Down, KeyCode::Up]);
    line(&drawn(&mut screen, 80, 24), "▶ Queues, 8 to 14 of 40");
    // The next reading has fewer queues: the view does not extend beyond the last.
    press(&mut screen, &[KeyCode::End]);
    screen.take(Ok(snapshot(3, 2, 1)));
    assert_eq!(order(&drawn(&mut screen, 80, 24)).len(), 2);
}

#[test]
fn the_legend_fits_a_terminal_of_80_by_24_and_tells_of_every_column() {
    for (keys, columns) in [(vec![], 17), (vec![KeyCode::Tab], 20)] {
        let mut screen = screen(3, 4);
        press(&mut screen, &keys);
        press(&mut screen, &[KeyCode::Char('?')]);
        let lines = drawn(&mut screen, 80, 24);
        let bordered = lines.iter().filter(|line| line.matches('│').count() == 2).count();
        assert_eq!(bordered, columns, "{lines:#?}");
        press(&mut screen, &[KeyCode::Char('x')]);
        assert!(!drawn(&mut screen, 80, 24).concat().contains('│'));
    }
}

#[test]
fn a_process_that_has_ended_is_told_and_its_last_look_stays() {
    let mut screen = screen(3, 4);
    let gone = coreshard::insight::InsightClient::at("/nonexistent/it.sock").snapshot();
    screen.take(gone);
    let lines = drawn(&mut screen, 80, 24);
    assert!(lines[1].starts_with("the process has exited or stopped serving"), "{}", lines[1]);
    assert_eq!(order(&lines).len(), 3);
    assert!(!screen.is_over);
}

#[test]
fn a_pause_keeps_what_is_shown() {
    let mut screen = screen(3, 4);
    press(&mut screen, &[KeyCode::Char('p')]);
    screen.take(Ok(snapshot(3, 9, 1)));
    let lines = drawn(&mut screen, 80, 24);
    assert!(lines[1].ends_with("paused") && order(&lines).len() == 3, "{lines:#?}");
}

#[test]
fn keys_end_it() {
    for (code, with) in [
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Esc, KeyModifiers::NONE),
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
    ] {
        let mut screen = screen(1, 1);
        screen.key(KeyEvent::new(code, with));
        assert!(screen.is_over);
    }
}

#[test]
fn a_name_that_a_terminal_would_obey_is_made_harmless() {
    let mut evil = snapshot(1, 1, 1);
    evil.queues[0].name = "\u{1b}[2Jevil".to_owned();
    let mut screen = Screen::new(evil, Duration::from_secs(1), None);
    assert!(drawn(&mut screen, 80, 24).concat().contains("?[2Jevil"));
}

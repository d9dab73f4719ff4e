//! The table for a terminal: it fits, it marks the best, and it never loses a row.

use coreshard_report::table;
use coreshard_results::{QueueMeasurement, QueueResults};

fn rows(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("lock-free") || line.contains("locked")).collect()
}

#[test]
fn fits_the_width_it_is_given() {
    for results in [crate::sample::many_cpus(), crate::sample::two_cpus()] {
        for width in [160, 120, 100, 80, 60] {
            let text = table::queue(&results, width);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{widest} > {width}\n{text}");
            for measurement in &results.results {
                let row = |line: &&str| {
                    [&measurement.scope, &measurement.wake, &measurement.intake]
                        .into_iter()
                        .all(|variant| line.split_whitespace().any(|word| word == variant))
                };
                assert!(
                    text.lines().any(|line| row(&line)),
                    "no row for {measurement:?} in\n{text}"
                );
            }
        }
    }
}

#[test]
fn shows_more_columns_where_there_is_room() {
    let results = crate::sample::many_cpus();
    let wide = table::queue(&results, 200);
    assert!(!wide.contains("left out"), "{wide}");
    assert!(wide.contains("lock held") && wide.contains("per item"), "{wide}");
    let narrow = table::queue(&results, 80);
    assert!(narrow.contains("left out to fit: "), "{narrow}");
    assert!(narrow.contains("p50") && narrow.contains("p99"), "{narrow}");
}

#[test]
fn marks_the_best_once_and_its_ties() {
    let mut results = crate::sample::many_cpus();
    results.results.truncate(3);
    for (measurement, [low, median, high]) in
        results.results.iter_mut().zip([[8.0, 9.0, 10.0], [9.5, 10.0, 11.0], [1.0, 2.0, 3.0]])
    {
        (measurement.items_per_sec_min, measurement.items_per_sec, measurement.items_per_sec_max) =
            (low, median, high);
    }
    let text = table::queue(&results, 100);
    let marks: Vec<_> = rows(&text)[..3].iter().map(|row| row.chars().next().unwrap()).collect();
    assert_eq!(marks, ['~', '*', ' '], "{text}");
    assert!(
        text.contains("* best: 5.00 × the throughput of the slowest, cpu · after-unlock · locked"),
        "{text}"
    );
}

#[test]
fn says_so_when_nothing_was_measured() {
    let text = table::queue(&QueueResults::default(), 100);
    assert!(text.contains("No combination of variants was measured."), "{text}");
}

#[test]
fn a_single_measurement_is_best_without_a_contest() {
    let mut results = crate::sample::two_cpus();
    results.results.truncate(1);
    let text = table::queue(&results, 100);
    assert!(rows(&text)[0].starts_with('*'), "{text}");
    assert!(!text.contains("best:"), "{text}");
}

#[test]
fn absent_figures_are_dashes() {
    let results = QueueResults {
        results: vec![QueueMeasurement {
            scope: "cpu".into(),
            intake: "locked".into(),
            items_per_sec: f64::NAN,
            items_per_sec_min: f64::NAN,
            items_per_sec_max: f64::NAN,
            ..QueueMeasurement::default()
        }],
        ..QueueResults::default()
    };
    let text = table::queue(&results, 200);
    assert!(text.contains('–') && !text.contains("NaN"), "{text}");
    assert!(!text.contains('*'), "{text}");
}

#[test]
fn a_terminal_obeys_nothing_in_the_results() {
    let mut results = crate::sample::two_cpus();
    results.machine = "red \u{1b}[31m".into();
    results.notes = vec!["bell \u{7}".into()];
    results.results[0].scope = "cpu\u{1b}[2J".into();
    let text = table::queue(&results, 100);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn says_that_a_topology_is_virtual_and_what_the_notes_say() {
    let mut results = crate::sample::two_cpus();
    assert!(!table::queue(&results, 100).contains("VIRTUAL"));
    results.virtual_topology = true;
    let text = table::queue(&results, 100);
    assert!(text.contains("(VIRTUAL topology)"), "{text}");
    assert!(text.contains("- cache_shard = cache = numa = system here: 1 pod."), "{text}");
}

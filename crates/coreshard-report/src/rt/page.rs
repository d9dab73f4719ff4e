//! Self-contained pages: a benchmark's table and charts of its distributions.

use std::collections::BTreeMap;

use coreshard_results::{
    CyclicResults, Durations, IndexResults, PiResults, SeedSpreads, TranscodeResults,
};
use maud::{Markup, html};

use super::{cyclic, index, pi, transcode};
use crate::format;
use crate::html::frame;

const WIDTH: f64 = 900.0;
/// Vertical position of the axis.
const FLOOR: f64 = 160.0;

/// Returns the page of wake-up latencies.
pub fn cyclic_page(runs: &[CyclicResults]) -> String {
    let pictures = html! {
        (seeds(runs.iter().map(|run| (&run.variant, &run.seeds)), "p99_ns", "99th percentile of wake-up latency", format::time_tick))
        @for run in runs {
            h2 { "Variant " (run.variant) }
            @for (number, thread) in &run.thread {
                figure {
                    figcaption {
                        "Thread " (number) " on CPU " (thread.cpu) ": " (thread.cycles)
                        " wake-ups, " (thread.min) " to " (thread.max) " µs"
                    }
                    (histogram(&thread.histogram, "wake-ups", |us| format::time_tick(us * 1e3)))
                }
            }
        }
    };
    frame::plain_page(
        "coreshard bench rt cyclic",
        "Wake-up latency",
        &cyclic(runs, usize::MAX),
        &pictures,
        &runs,
    )
}

/// Returns the page of waiting times of high-priority tasks in inversions.
pub fn pi_page(runs: &[PiResults]) -> String {
    let pictures = html! {
        (seeds(runs.iter().map(|run| (&run.variant, &run.seeds)), "inversions_per_sec", "Inversions per second", per_sec))
        @for run in runs {
            h2 { "Variant " (run.variant) }
            (durations(&run.waits, "Time to acquire the lock", "inversions"))
        }
    };
    frame::plain_page(
        "coreshard bench rt pi",
        "Resolved priority inversions",
        &pi(runs, usize::MAX),
        &pictures,
        &runs,
    )
}

/// Returns the page of frame times.
pub fn transcode_page(runs: &[TranscodeResults]) -> String {
    let pictures = html! {
        (seeds(runs.iter().map(|run| (&run.variant, &run.seeds)), "frames_per_sec", "Frames per second", per_sec))
        @for run in runs {
            h2 { "Variant " (run.variant) }
            (durations(&run.frame_times, "Time from a frame's start to the end of its last slice", "frames"))
        }
    };
    frame::plain_page(
        "coreshard bench rt transcode",
        "Frames of pinned pipelines",
        &transcode(runs, usize::MAX),
        &pictures,
        &runs,
    )
}

/// Returns the page of the index variants' runs.
pub fn index_page(results: &IndexResults) -> String {
    let runs = results.results.iter();
    let variants: Vec<_> =
        runs.map(|measurement| (measurement.variant.as_str(), &measurement.each_run[..])).collect();
    let pictures = html! {
        figure {
            figcaption { "Operations per second, a dot for each run" }
            (dots(&variants, "Operations per second", per_sec))
        }
    };
    frame::plain_page(
        "coreshard bench rt index",
        "Variants of the priority index",
        &index(results, usize::MAX),
        &pictures,
        results,
    )
}

/// Draws a figure for each seed, with a row for each variant, or nothing without seeds.
fn seeds<'a>(
    runs: impl Iterator<Item = (&'a String, &'a SeedSpreads)>,
    key: &str,
    what: &str,
    text: impl Fn(f64) -> String,
) -> Markup {
    let rows: Vec<_> = runs
        .filter_map(|(variant, seeds)| Some((variant.as_str(), &seeds.of(key)?.each[..])))
        .collect();
    html! {
        @if !rows.is_empty() {
            figure {
                figcaption { (what) ", a dot for each seed" }
                (dots(&rows, what, text))
            }
        }
    }
}

pub(crate) fn per_sec(value: f64) -> String {
    format!("{}/s", format::si_tick(value))
}

fn durations(durations: &Durations, what: &str, of: &'static str) -> Markup {
    let time = |ns: u64| format::time_ns(ns as f64);
    html! {
        figure {
            figcaption {
                (what) ": " (format::count(durations.number as f64)) " " (of) ", median "
                (time(durations.p50_ns)) ", 99 % within " (time(durations.p99_ns)) ", at most "
                (time(durations.max_ns))
            }
            (histogram(&durations.by_ns, of, format::time_tick))
        }
    }
}

/// A logarithmic scale over the width of the chart.
struct Axis {
    from_ln: f64,
    per_ln: f64,
}

impl Axis {
    /// Creates a scale from `first` to `last`, both above 0.
    fn over(first: f64, last: f64) -> Self {
        let span_ln = (last.ln() - first.ln()).max(f64::MIN_POSITIVE);
        Self { from_ln: first.ln(), per_ln: WIDTH / span_ln }
    }

    fn at(&self, value: f64) -> f64 {
        ((value.ln() - self.from_ln) * self.per_ln).clamp(0.0, WIDTH)
    }

    /// Returns round figures with room for their labels, rounder ones on longer scales.
    fn ticks(&self, last: f64) -> Vec<f64> {
        const ROUND: [&[f64]; 3] = [
            &[1.0, 2.0, 5.0],
            &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
            &[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0],
        ];
        let ticks = ROUND.iter().map(|steps| self.ticks_of(steps, last));
        ticks.reduce(|ticks, finer| if ticks.len() < 3 { finer } else { ticks }).unwrap_or_default()
    }

    fn ticks_of(&self, steps: &[f64], last: f64) -> Vec<f64> {
        const TEXT: f64 = 60.0;
        let powers = (-3..19).map(|power| 10_f64.powi(power));
        let round = powers.flat_map(|power| steps.iter().map(move |step| step * power));
        let within = |tick: &f64| tick.ln() >= self.from_ln - 1e-9 && *tick <= last;
        let mut ticks: Vec<f64> = Vec::new();
        for tick in round.filter(within) {
            if ticks.last().is_none_or(|it| self.at(tick) - self.at(*it) >= TEXT) {
                ticks.push(tick);
            }
        }
        // Drop ticks without room for a label beside the last one.
        ticks.retain(|tick| self.at(*tick) <= WIDTH - TEXT);
        ticks
    }

    fn draw(&self, last: f64, text: impl Fn(f64) -> String) -> Markup {
        html! {
            line x1="0" y1=(FLOOR) x2=(WIDTH) y2=(FLOOR) {}
            @for tick in self.ticks(last) {
                @let x = format!("{:.1}", self.at(tick));
                line x1=(x) y1=(FLOOR) x2=(x) y2=(FLOOR + 5.0) {}
                text x=(x) y=(FLOOR + 18.0) { (text(tick)) }
            }
        }
    }
}

/// Draws bars on a logarithmic scale. Heights are also logarithmic, as the few late ones matter most.
fn histogram(
    counts: &BTreeMap<u64, u64>,
    of: &'static str,
    text: impl Fn(f64) -> String,
) -> Markup {
    const BARS: usize = 60;
    // A logarithmic scale has no 0.
    let first = counts.keys().next().map_or(1.0, |first| (*first as f64).max(1.0));
    let last = counts.keys().last().map_or(1.0, |last| *last as f64).max(first * 1.5) + 1.0;
    let axis = Axis::over(first, last);
    let step = WIDTH / BARS as f64;
    let mut bars = [0_u64; BARS];
    for (value, count) in counts {
        let bar = (axis.at((*value as f64).max(1.0)) / step) as usize;
        bars[bar.min(BARS - 1)] += count;
    }
    let height = |count: u64| if count == 0 { 0.0 } else { 1.0 + (count as f64).ln() };
    let most = bars.iter().copied().map(height).fold(1.0, f64::max);
    html! {
        svg viewBox="0 0 900 190" role="img" {
            title { "Distribution of " (of) " by duration, both scales logarithmic" }
            @for (at, count) in bars.iter().enumerate() {
                @if *count > 0 {
                    @let tall = height(*count) / most * FLOOR;
                    rect x=(format!("{:.1}", at as f64 * step)) y=(format!("{:.1}", FLOOR - tall))
                        width=(format!("{:.1}", step - 1.0)) height=(format!("{tall:.1}")) {
                        title { (count) " " (of) }
                    }
                }
            }
            (axis.draw(last, text))
        }
    }
}

/// Draws a row of dots for each name, on one logarithmic scale.
pub(crate) fn dots(rows: &[(&str, &[f64])], what: &str, text: impl Fn(f64) -> String) -> Markup {
    let all = || rows.iter().flat_map(|row| row.1.iter().copied()).filter(|it| *it > 0.0);
    let first = all().fold(f64::INFINITY, f64::min);
    let last = all().fold(0.0, f64::max);
    if last == 0.0 {
        return html! {};
    }
    // Leave room for dots at both ends.
    let axis = Axis::over(first / 1.2, last * 1.2);
    let apart = FLOOR / rows.len() as f64;
    html! {
        svg viewBox="0 0 900 190" role="img" {
            title { (what) ", of each run, on a logarithmic scale" }
            @for (row, (name, runs)) in rows.iter().enumerate() {
                @let y = format!("{:.1}", (row as f64 + 0.7) * apart);
                text x="0" y=(format!("{:.1}", (row as f64 + 0.3) * apart)) { (name) }
                @for run in *runs {
                    circle cx=(format!("{:.1}", axis.at(*run))) cy=(y) r="4" fill-opacity="0.5" {
                        title { (name) ": " (text(*run)) }
                    }
                }
            }
            (axis.draw(last * 1.2, &text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_picture_for_each_thread_and_the_results() {
        let thread = coreshard_results::CyclicThread {
            histogram: BTreeMap::from([(3, 1_000), (40, 2), (2_500, 1)]),
            cycles: 1_003,
            ..Default::default()
        };
        let run = CyclicResults {
            variant: "per-llc".into(),
            machine: "</script><b>".into(),
            thread: BTreeMap::from([(0, thread.clone()), (1, thread)]),
            ..CyclicResults::default()
        };
        let page = cyclic_page(&[run]);
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("1000 wake-ups").count(), 2);
        assert!(page.contains(">1 ms<") && !page.contains(">5 ms<"));
        assert!(!page.contains("</script><b>"), "machine names are escaped");
    }

    #[test]
    fn inversions_and_frames_have_pictures_of_their_times() {
        let waits = Durations {
            number: 7,
            p50_ns: 4_000,
            by_ns: BTreeMap::from([(4_000, 6), (250_000, 1)]),
            ..Durations::default()
        };
        let run = |variant: &str| PiResults {
            variant: variant.into(),
            waits: waits.clone(),
            ..Default::default()
        };
        let page = pi_page(&[run("packed"), run("per-llc")]);
        assert_eq!((page.matches("<svg").count(), page.matches("<rect").count()), (2, 4));
        assert!(page.contains("6 inversions") && page.contains("7 inversions"), "{page}");
        let run = TranscodeResults { frame_times: waits, ..Default::default() };
        assert!(transcode_page(&[run]).contains("6 frames"));
        // Without measurements, pages are empty.
        assert!(!transcode_page(&[TranscodeResults::default()]).contains("<rect"));
    }

    #[test]
    fn a_scale_has_ticks_also_where_it_is_short() {
        for (first, last) in [(3_300.0, 4_800.0), (3.0, 4e7), (2.9e6, 5.1e6), (40.0, 70.0)] {
            let ticks = Axis::over(first, last).ticks(last);
            assert!((2..=12).contains(&ticks.len()), "{first} to {last}: {ticks:?}");
            assert!(ticks.is_sorted() && ticks[0] >= first && ticks[ticks.len() - 1] <= last);
        }
    }

    #[test]
    fn the_index_has_a_dot_for_each_run() {
        let measurement = |variant: &str, each_run: &[f64]| coreshard_results::IndexMeasurement {
            variant: variant.into(),
            each_run: each_run.to_vec(),
            ..Default::default()
        };
        let results = IndexResults {
            results: vec![
                measurement("packed", &[6e6, 7e6]),
                measurement("per-llc", &[4e7, 5e7, 6e7]),
            ],
            ..IndexResults::default()
        };
        let page = index_page(&results);
        assert_eq!(page.matches("<circle").count(), 5);
        let x = |text: &str| text.split('"').next().unwrap().parse::<f64>().unwrap();
        let places: Vec<f64> = page.split("cx=\"").skip(1).map(x).collect();
        assert!(
            places.is_sorted() && places.iter().all(|x| (0.0..=WIDTH).contains(x)),
            "{places:?}"
        );
        assert!(!index_page(&IndexResults::default()).contains("<circle"));
    }
}

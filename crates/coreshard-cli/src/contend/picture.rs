//! The results as a drawing: throughput and time by the number of threads, and a bar for each remedy.

use svg::node::element::{Circle, Group, Line, Polygon, Polyline, Rectangle};

use super::report::{Figure, Point, Report};
use crate::common::drawing::{FAINT, INK, drawing, text};
use crate::common::figures;

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 24.0;
const HEAD: f64 = 66.0;
/// A plot, and the room for its labels.
const PLOT_WIDTH: f64 = 340.0;
const PLOT_HEIGHT: f64 = 220.0;
const LABELS: f64 = 56.0;
const UNDER: f64 = 74.0;
const ROW: f64 = 22.0;
const NAMES: f64 = 90.0;

const GRID: &str = "#e3e0d9";
const RUN: &str = "#c2560a";
const QUEUEING: &str = "#2461ab";
const BETWEEN: &str = "#efe6da";

/// Draws the results.
pub(super) fn picture(report: &Report) -> String {
    let top = HEAD + 40.0;
    let left = Plot {
        title: "rounds per second",
        left: MARGIN + LABELS,
        top,
        label: figures::count,
        of: |figure| figure.per_sec,
        axis: Axis::Linear,
    };
    let right = Plot {
        title: "time of a round's steps",
        left: MARGIN + LABELS + PLOT_WIDTH + LABELS + 20.0,
        top,
        label: |value| figures::time(value.round() as u64),
        of: |figure| figure.steps_ns,
        axis: Axis::Log,
    };
    let bottom = top + PLOT_HEIGHT + UNDER;
    let (rows, height) = remedies(report, bottom);
    let all = bottom + height + MARGIN;
    let page =
        Rectangle::new().set("width", WIDTH).set("height", all).set("fill", "#ffffff").set("rx", 6);
    let setting = format!("{}; {}", report.machine, report.setting);
    let document = drawing(WIDTH, all, 12.0)
        .add(page)
        .add(
            text(&report.title, MARGIN, MARGIN + 10.0, INK)
                .set("font-size", 17)
                .set("font-weight", 600),
        )
        .add(text(&setting, MARGIN, MARGIN + 30.0, FAINT))
        .add(legend(report))
        .add(left.draw(report))
        .add(right.draw(report))
        .add(findings(report, top + PLOT_HEIGHT + 48.0))
        .add(rows);
    document.to_string() + "\n"
}

fn legend(report: &Report) -> Group {
    let run = if report.platform == "host" { "measured" } else { "simulated" };
    let (mut group, mut x) = (Group::new(), MARGIN);
    let y = HEAD;
    for (is_shown, colour, name, dashes) in [
        (report.points.iter().any(|point| point.run.is_some()), RUN, run, ""),
        (report.points.iter().any(|point| point.queueing.is_some()), QUEUEING, "queueing", "6 4"),
    ] {
        if is_shown {
            group = group
                .add(stroke(x, y, x + 26.0, y, colour, 2.0).set("stroke-dasharray", dashes))
                .add(text(name, x + 32.0, y + 4.0, FAINT));
            x += 32.0 + 7.0 * name.len() as f64 + 20.0;
        }
    }
    group
}

fn stroke(x: f64, y: f64, to_x: f64, to_y: f64, colour: &str, width: f64) -> Line {
    Line::new()
        .set("x1", x)
        .set("y1", y)
        .set("x2", to_x)
        .set("y2", to_y)
        .set("stroke", colour)
        .set("stroke-width", width)
}

/// A plot over the number of threads.
struct Plot {
    title: &'static str,
    left: f64,
    top: f64,
    label: fn(f64) -> String,
    of: fn(Figure) -> f64,
    axis: Axis,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// From 0 on.
    Linear,
    /// From one power of ten to another.
    Log,
}

/// Returns a round distance of about five ticks up to `most`.
fn tick(most: f64) -> f64 {
    let rough = most / 4.0;
    let decade = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * decade)
}

impl Plot {
    fn draw(&self, report: &Report) -> Group {
        let figures = |point: &Point| [point.run, point.queueing];
        let all: Vec<f64> = report.points.iter().flat_map(figures).flatten().map(self.of).collect();
        let most = all.iter().copied().fold(0.0, f64::max).max(1e-9);
        let least = all.iter().copied().fold(f64::INFINITY, f64::min).max(1.0);
        let (step, height) = (tick(most), (most / tick(most)).ceil() * tick(most));
        let from = least.log10().floor();
        let decades = (most.log10().ceil() - from).max(1.0);
        let threads = report.points.last().map_or(1, |point| point.threads).max(2) as f64;
        let x = |count: usize| self.left + PLOT_WIDTH * (count as f64).ln() / threads.ln();
        let y = |value: f64| {
            let share = match self.axis {
                Axis::Linear => value / height,
                Axis::Log => (value.max(1.0).log10() - from) / decades,
            };
            self.top + PLOT_HEIGHT * (1.0 - share.clamp(0.0, 1.0))
        };
        let ticks: Vec<f64> = match self.axis {
            Axis::Linear => {
                (0..=(height / step).round() as u32).map(|it| f64::from(it) * step).collect()
            }
            Axis::Log => (0..=decades as u32).map(|it| 10f64.powf(from + f64::from(it))).collect(),
        };
        let mut group = Group::new().add(text(self.title, self.left, self.top - 10.0, INK));
        for value in ticks {
            let label = text(&(self.label)(value), self.left - 8.0, y(value) + 4.0, FAINT);
            group = group
                .add(stroke(self.left, y(value), self.left + PLOT_WIDTH, y(value), GRID, 1.0))
                .add(label.set("text-anchor", "end"));
        }
        // From the end on, as the last one is always labelled.
        let mut next = f64::INFINITY;
        for point in report.points.iter().rev() {
            if next - x(point.threads) >= 24.0 {
                next = x(point.threads);
                let label =
                    text(&point.threads.to_string(), next, self.top + PLOT_HEIGHT + 16.0, FAINT);
                group = group.add(label.set("text-anchor", "middle"));
            }
        }
        let middle = self.left + PLOT_WIDTH / 2.0;
        let under = text("threads", middle, self.top + PLOT_HEIGHT + 32.0, FAINT);
        group = group.add(under.set("text-anchor", "middle"));
        if let Some(turn) = &report.turning_point {
            let at = x(turn.threads);
            let line = stroke(at, self.top, at, self.top + PLOT_HEIGHT, FAINT, 1.0);
            group = group.add(line.set("stroke-dasharray", "2 3"));
        }
        let curve = |of: fn(&Point) -> Option<Figure>| -> Vec<(f64, f64)> {
            let place = |point: &Point| Some((x(point.threads), y((self.of)(of(point)?))));
            report.points.iter().filter_map(place).collect()
        };
        let (run, queueing) = (curve(|point| point.run), curve(|point| point.queueing));
        if !run.is_empty() && !queueing.is_empty() {
            let around = run.iter().chain(queueing.iter().rev());
            let between = Polygon::new().set("points", pairs(around)).set("fill", BETWEEN);
            group = group.add(between);
        }
        for (points, colour, dashes) in [(&queueing, QUEUEING, "6 4"), (&run, RUN, "")] {
            let line = Polyline::new()
                .set("points", pairs(points.iter()))
                .set("fill", "none")
                .set("stroke", colour)
                .set("stroke-width", 2)
                .set("stroke-dasharray", dashes);
            group = group.add(line);
            for (x, y) in points {
                let dot = Circle::new().set("cx", *x).set("cy", *y).set("r", 2.6);
                group = group.add(dot.set("fill", colour));
            }
        }
        group
    }
}

fn pairs<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> String {
    let pairs: Vec<_> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    pairs.join(" ")
}

fn findings(report: &Report, y: f64) -> Group {
    let mut parts = Vec::new();
    if let Some(turn) = &report.turning_point {
        parts.push(format!("turning point: {}", turn.range()));
    }
    if let Some(line) = report.lines.first() {
        let share = line.share * 100.0;
        let of = if line.is_busy_share { "busy" } else { "of the threads' time" };
        parts.push(format!("costliest line: {}, {share:.0} % {of}", line.line));
    }
    if let Some(apart) = report.most_apart() {
        parts.push(format!("the models differ by up to {:.0} %", apart * 100.0));
    }
    Group::new().add(text(&parts.join("; "), MARGIN, y, INK))
}

/// A bar for each remedy, from its lowest to its highest gain.
fn remedies(report: &Report, top: f64) -> (Group, f64) {
    let Some(first) = report.remedies.first() else { return (Group::new(), 0.0) };
    let title = format!("throughput with each remedy over that without, {} threads", first.threads);
    let mut group = Group::new().add(text(&title, MARGIN, top, INK));
    let most = report.remedies.iter().map(|row| row.gain_high).fold(2.0, f64::max);
    let least = report.remedies.iter().map(|row| row.gain_low).fold(0.5, f64::min).max(0.01);
    let (left, room) = (MARGIN + NAMES, WIDTH - 2.0 * MARGIN - NAMES - 300.0);
    let x = |gain: f64| left + room * (gain.max(least) / least).ln() / (most / least).ln();
    let y = |row: usize| top + 16.0 + row as f64 * ROW;
    let bottom = y(report.remedies.len());
    group = group.add(stroke(x(1.0), top + 12.0, x(1.0), bottom, FAINT, 1.0));
    for (number, row) in report.remedies.iter().enumerate() {
        let (low, high) = (x(row.gain_low.min(1.0)), x(row.gain_high.max(1.0)));
        let (from, to) = (x(row.gain_low), x(row.gain_high));
        let middle = y(number) + ROW / 2.0;
        let whole = Rectangle::new()
            .set("x", low)
            .set("y", middle - 6.0)
            .set("width", (high - low).max(1.0))
            .set("height", 12)
            .set("fill", BETWEEN);
        let range = Rectangle::new()
            .set("x", from)
            .set("y", middle - 6.0)
            .set("width", (to - from).max(2.0))
            .set("height", 12)
            .set("fill", RUN)
            .set("rx", 2);
        let gain = super::text::gain(row);
        group = group
            .add(whole)
            .add(range)
            .add(text(row.remedy, MARGIN, middle + 4.0, INK))
            .add(text(&gain, left + room + 14.0, middle + 4.0, INK))
            .add(text(row.change, left + room + 106.0, middle + 4.0, FAINT));
    }
    (group, bottom - top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (most, step) in [(4.0, 1.0), (9.9, 2.5), (1.2e7, 5e6), (0.3, 0.1)] {
            let found = tick(most);
            assert!((found / step - 1.0).abs() < 1e-9, "{most}: {found}");
            assert!((2.0..=5.0).contains(&(most / found).ceil()), "{most}: {found}");
        }
    }
}

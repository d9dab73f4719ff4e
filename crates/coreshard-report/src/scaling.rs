//! Scaling curves as lines of a table, and the figures of one.

use std::fmt::Write as _;

use coreshard_results::{QueueResults, ScalingCurve, Usl};

use crate::format;

/// The numbers of CPUs that were measured, each once.
pub(crate) fn counts(curves: &[ScalingCurve]) -> Vec<usize> {
    let mut counts: Vec<usize> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.cpus)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// The throughput on so many CPUs.
pub(crate) fn at(curve: &ScalingCurve, cpus: usize) -> String {
    let point = curve.points.iter().find(|point| point.cpus == cpus);
    point.map_or_else(|| format::ABSENT.to_owned(), |point| format::si(point.items_per_sec))
}

/// A law that is off by more, on average, says nothing of where the curve turns.
const WORST_FIT: f64 = 0.25;

/// Where the fitted curve turns: beyond the largest number that was measured, it is a guess.
pub(crate) fn peak(usl: &Usl, most: usize) -> String {
    match usl.peak_cpus() {
        _ if usl.error > WORST_FIT => "no law".to_owned(),
        Some(peak) if peak.round() == 1.0 => "1 CPU".to_owned(),
        Some(peak) if peak <= most as f64 => format!("{peak:.0} CPUs"),
        _ => format!("> {most}"),
    }
}

/// The curves as a table of text; nothing where there are none.
pub(crate) fn table(results: &QueueResults) -> String {
    let curves = &results.curves;
    if curves.is_empty() {
        return String::new();
    }
    let counts = counts(curves);
    let most = counts.last().copied().unwrap_or(0);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut head = vec!["scope".to_owned(), "wake".into(), "intake".into()];
    head.extend(
        counts.iter().map(|cpus| format!("{cpus} CPU{}", if *cpus == 1 { "" } else { "s" })),
    );
    head.extend(["σ", "κ", "fit ±", "peak"].map(str::to_owned));
    rows.push(head);
    for curve in curves {
        let mut row = vec![curve.scope.clone(), curve.wake.clone(), curve.intake.clone()];
        row.extend(counts.iter().map(|cpus| at(curve, *cpus)));
        match &curve.usl {
            Some(usl) => row.extend([
                format!("{:.4}", usl.sigma),
                format!("{:.6}", usl.kappa),
                format::percent(usl.error),
                peak(usl, most),
            ]),
            None => row.extend(std::iter::repeat_n(format::ABSENT.to_owned(), 4)),
        }
        rows.push(row);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text =
        String::from("\nItems per second by number of CPUs, and the universal scalability law\n");
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            // Writing to a text does not fail.
            let _ = match column {
                0..=2 => write!(line, "{cell}{pad}  "),
                _ => write!(line, "{pad}{cell}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(
        "σ: the part that is serial; κ: what each CPU costs each other; fit ±: how far the points are \
         from the fit\n",
    );
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use coreshard_results::ScalingPoint;

    use super::*;

    /// Two curves, one of them without a law.
    pub(crate) fn results() -> QueueResults {
        let law = Usl { lambda: 1e6, sigma: 0.05, kappa: 0.001, error: 0.02 };
        let point = |cpus: usize| ScalingPoint {
            cpus,
            items_per_sec: law.throughput(cpus as f64),
            ..ScalingPoint::default()
        };
        let curve = |scope: &str, usl| ScalingCurve {
            scope: scope.into(),
            wake: "coalesced".into(),
            intake: "lock-free".into(),
            points: [1, 8, 64, 72].map(point).to_vec(),
            usl,
        };
        QueueResults {
            curves: vec![curve("cache", Some(law)), curve("system", None)],
            ..QueueResults::default()
        }
    }

    #[test]
    fn the_table_has_a_row_a_curve_and_a_dash_where_nothing_was_fitted() {
        let text = table(&results());
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("lock-free")).collect();
        assert!(rows[0].contains("0.0500") && rows[0].contains("0.001000"), "{text}");
        assert!(rows[0].ends_with("31 CPUs"), "where the law has its peak: {text}");
        assert!(rows[1].ends_with(format::ABSENT), "{text}");
        assert_eq!(table(&QueueResults::default()), "");
    }
}

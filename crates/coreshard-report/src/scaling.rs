//! Scaling curves as table rows.

use comfy_table::CellAlignment;
use coreshard_results::{QueueResults, ScalingCurve, Usl};

use crate::format;
use crate::plain;

/// Returns the measured numbers of CPUs without duplicates.
pub(crate) fn counts(curves: &[ScalingCurve]) -> Vec<usize> {
    let mut counts: Vec<usize> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.cpus)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// If the mean error of the fit is larger, the peak is not shown.
const WORST_FIT: f64 = 0.25;

/// Formats the peak of the fitted curve. Beyond the largest measured number it is an extrapolation.
fn peak(usl: &Usl, most: usize) -> String {
    match usl.peak_cpus() {
        _ if usl.error > WORST_FIT => "no law".to_owned(),
        Some(peak) if peak.round() == 1.0 => "1 CPU".to_owned(),
        Some(peak) if peak <= most as f64 => format!("{peak:.0} CPUs"),
        _ => format!("> {most}"),
    }
}

/// Headers of the [`figures`] after the numbers of CPUs.
pub(crate) const LAW: [&str; 4] = ["σ", "κ", "fit ±", "peak"];

/// Formats the throughput for each number of CPUs, and the fitted law.
pub(crate) fn figures(curve: &ScalingCurve, counts: &[usize]) -> Vec<String> {
    let most = counts.last().copied().unwrap_or(0);
    let at = |cpus: &usize| {
        let point = curve.points.iter().find(|point| point.cpus == *cpus);
        point.map_or_else(|| format::ABSENT.to_owned(), |point| format::si(point.items_per_sec))
    };
    let law = match &curve.usl {
        Some(usl) => [
            format!("{:.4}", usl.sigma),
            format!("{:.6}", usl.kappa),
            format::percent(usl.error),
            peak(usl, most),
        ],
        None => [format::ABSENT; 4].map(str::to_owned),
    };
    counts.iter().map(at).chain(law).collect()
}

/// Formats the curves as a text table, or nothing without curves.
pub(crate) fn table(results: &QueueResults) -> String {
    let curves = &results.curves;
    if curves.is_empty() {
        return String::new();
    }
    let counts = counts(curves);
    let mut table = plain::borderless();
    let head = ["scope", "wake", "intake"].map(str::to_owned);
    let cpus = counts.iter().map(|cpus| format::counted(*cpus, "CPU"));
    table.add_row(head.into_iter().chain(cpus).chain(LAW.map(str::to_owned)));
    for curve in curves {
        let head = [&curve.scope, &curve.wake, &curve.intake].map(String::clone);
        table.add_row(head.into_iter().chain(figures(curve, &counts)));
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        let alignment = if at < 3 { CellAlignment::Left } else { CellAlignment::Right };
        column.set_padding((0, 2)).set_cell_alignment(alignment);
    }
    format!(
        "\nItems per second by number of CPUs, and the universal scalability law\n{}σ: serial share; κ: cost of coherence between CPUs; fit ±: error of the fit\n",
        plain::lines(&table)
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use coreshard_results::ScalingPoint;

    use super::*;

    /// Two curves, one without a fitted law.
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
        assert!(rows[0].ends_with("31 CPUs"), "the peak of the law: {text}");
        assert!(rows[1].ends_with(format::ABSENT), "{text}");
        assert_eq!(table(&QueueResults::default()), "");
    }
}

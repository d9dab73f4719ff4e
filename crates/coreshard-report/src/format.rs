//! Formats figures for people, with thousands separators, SI prefixes and suitable units.
//!
//! Figures with a prefix have three significant digits. Figures that are not finite are shown as [`ABSENT`].

use coreshard_results::QueueResults;
use coreshard_results::column::{Unit, Value};

/// Shown if there is no figure.
pub(crate) const ABSENT: &str = "–";

/// Formats a whole number with thousands separators: `12,345,678`.
pub(crate) fn count(value: f64) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let sign = if value < 0.0 && digits != "0" { "-" } else { "" };
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with an SI prefix and three significant digits: `12.3 M`.
pub(crate) fn si(value: f64) -> String {
    scaled(value, &[(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")])
}

/// Formats a time in its largest unit with three significant digits: `412 ns`, `16.4 µs`.
pub(crate) fn time_ns(value: f64) -> String {
    scaled(value, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")])
}

/// Formats an axis label for a time, without trailing zeros: `2 µs`, `0.5 ns`.
pub(crate) fn time_tick(value: f64) -> String {
    trimmed(time_ns(value))
}

/// Formats an axis label with an SI prefix, without trailing zeros: `2 M`.
pub(crate) fn si_tick(value: f64) -> String {
    trimmed(si(value))
}

/// Formats an axis label for a factor: `0.5 ×`, `2 ×`.
pub(crate) fn times_tick(value: f64) -> String {
    trimmed(times(value))
}

/// Formats a factor: `1.24 ×`, `12.4 ×`, `124 ×`.
pub(crate) fn times(value: f64) -> String {
    if value.is_finite() { format!("{} ×", three_digits(value)) } else { ABSENT.to_owned() }
}

/// Formats a share in whole percent: `12 %`.
pub(crate) fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.0} %", part * 100.0) } else { ABSENT.to_owned() }
}

/// Formats a plain figure with three significant digits: `0.125`, `1.25`.
pub(crate) fn plain(value: f64) -> String {
    if value.is_finite() { three_digits(value) } else { ABSENT.to_owned() }
}

/// Formats a value of the given unit.
pub(crate) fn value(unit: Unit, value: Value<'_>) -> String {
    let figure: fn(f64) -> String = match unit {
        Unit::Text | Unit::Count | Unit::PerSecond | Unit::Bytes => count,
        Unit::PerSecondRounded => si,
        Unit::Nanoseconds => time_ns,
        Unit::Microseconds => |us| time_ns(us * 1e3),
        Unit::Part => percent,
        Unit::Factor => plain,
    };
    match value {
        Value::Text(text) => text.to_owned(),
        Value::Flag(is_so) => is_so.to_string(),
        Value::Whole(number) => figure(number as f64),
        Value::Figure(number) => figure(number),
        Value::Range(from, to) => format!("{}–{}", figure(from), figure(to)),
        Value::Absent => ABSENT.to_owned(),
    }
}

/// Formats a count with its noun: `1 pod`, `2 pods`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", self::count(count as f64), if count == 1 { "" } else { "s" })
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Replaces control characters in the texts of `results`: terminals act on them, and HTML cannot represent them.
pub(crate) fn printable_results(results: &QueueResults) -> QueueResults {
    let mut results = results.clone();
    let texts = [&mut results.machine, &mut results.platform];
    let optional = [results.cpu_model.as_mut(), results.kernel.as_mut()].into_iter().flatten();
    let of_measurements = results.results.iter_mut().flat_map(|measurement| {
        [&mut measurement.scope, &mut measurement.wake, &mut measurement.intake]
            .into_iter()
            .chain(&mut measurement.same_pods_as)
    });
    let of_curves = results.curves.iter_mut();
    let of_curves =
        of_curves.flat_map(|curve| [&mut curve.scope, &mut curve.wake, &mut curve.intake]);
    let of_ratios = results
        .wake_ratios
        .iter_mut()
        .flat_map(|ratio| [&mut ratio.scope, &mut ratio.intake, &mut ratio.wake, &mut ratio.over]);
    let of_all =
        texts.into_iter().chain(optional).chain(&mut results.notes).chain(&mut results.wakes);
    for text in of_all.chain(of_measurements).chain(of_curves).chain(of_ratios) {
        *text = printable(text);
    }
    results
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    // Rounding must not turn 999.6 into "1000".
    let fills = |unit: f64| value.abs() >= unit * 0.9995;
    let last = units.last().expect("there is a smallest unit");
    let (unit, name) = units.iter().find(|(unit, _)| fills(*unit)).unwrap_or(last);
    format!("{}{name}", three_digits(value / unit))
}

/// Formats three significant digits, more if the integer part is longer, and at most three decimals.
fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        0.0 => 0,
        m if m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Removes trailing zeros after a decimal point, and the point if nothing follows it.
fn trimmed(text: String) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    if !number.contains('.') {
        return text;
    }
    let number = number.trim_end_matches('0').trim_end_matches('.');
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        let all = [0.0, 7.0, 999.0, 1e3, 12_345.6, 1_234_567.0, -1234.0, -0.2];
        let texts: Vec<String> = all.into_iter().map(count).collect();
        assert_eq!(texts, ["0", "7", "999", "1,000", "12,346", "1,234,567", "-1,234", "0"]);
    }

    #[test]
    fn prefixes_keep_three_digits_and_never_reach_a_thousand() {
        let all =
            [0.0, 0.25, 1.0, 12.0, 999.4, 999.6, 1_000.0, 12_340.0, 3_449_709.0, 999_960.0, 2.5e9];
        let texts: Vec<String> = all.into_iter().map(si).collect();
        let wanted = [
            "0", "0.250", "1.00", "12.0", "999", "1.00 k", "1.00 k", "12.3 k", "3.45 M", "1.00 M",
            "2.50 G",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn times_take_the_unit_they_fill() {
        let all = [0.0, 41.0, 412.0, 1_234.0, 16_416.0, 2_100_000.0, 3.5e9, 6.1e12];
        let texts: Vec<String> = all.into_iter().map(time_ns).collect();
        assert_eq!(
            texts,
            ["0 ns", "41.0 ns", "412 ns", "1.23 µs", "16.4 µs", "2.10 ms", "3.50 s", "6100 s"]
        );
    }

    #[test]
    fn ticks_lose_their_idle_zeros() {
        assert_eq!(time_tick(1_000.0), "1 µs");
        assert_eq!(time_tick(100.0), "100 ns");
        assert_eq!(si_tick(2.5e6), "2.5 M");
        assert_eq!(si_tick(20.0), "20");
        assert_eq!(times_tick(1.0), "1 ×");
        assert_eq!(times_tick(0.5), "0.5 ×");
    }

    #[test]
    fn absent_figures_are_a_dash() {
        for text in [count(f64::NAN), si(f64::INFINITY), time_ns(f64::NAN), times(f64::NAN)] {
            assert_eq!(text, ABSENT);
        }
        assert_eq!(percent(f64::NAN), ABSENT);
        assert_eq!(plain(f64::NAN), ABSENT);
        assert_eq!(time_tick(f64::NAN), ABSENT);
    }

    #[test]
    fn factors_and_parts() {
        assert_eq!([times(1.239), times(12.39), times(123.9)], ["1.24 ×", "12.4 ×", "124 ×"]);
        assert_eq!(percent(0.126), "13 %");
        assert_eq!([counted(1, "pod"), counted(1200, "pod")], ["1 pod", "1,200 pods"]);
    }
}

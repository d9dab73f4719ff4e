//! Numbers in at most seven characters, for tables with many columns.

/// Shown for a missing figure.
pub(crate) const ABSENT: &str = "–";

/// Formats with three significant digits and a prefix: `999`, `12.3k`, `4.56M`.
pub(crate) fn count(value: f64) -> String {
    if value < 999.5 {
        return format!("{value:.0}");
    }
    scaled(value, 1e3, &["k", "M", "G", "T", "P", "E"])
}

/// Formats like [`count`], with one decimal below ten.
pub(crate) fn rate(value: f64) -> String {
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { count(value) }
}

/// Formats a time in its largest unit: `412ns`, `16.4µs`, `2.00s`, `1h02m`.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..60_000_000_000 => scaled(ns as f64, 1e3, &["µs", "ms", "s"]),
        _ => {
            let seconds = ns / 1_000_000_000;
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            match hours {
                0 => format!("{minutes}m{seconds:02}s"),
                1..100 => format!("{hours}h{minutes:02}m"),
                _ => format!("{}d{:02}h", hours / 24, hours % 24),
            }
        }
    }
}

/// Formats bytes with a binary prefix: `512B`, `1.50MiB`.
pub(crate) fn bytes(value: u64) -> String {
    if value < 1024 {
        return format!("{value}B");
    }
    scaled(value as f64, 1024.0, &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value / step;
    let mut at = 0;
    // 999.5 would round to four digits.
    while value >= step - 0.5 && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (999.0, "999"),
            (999.6, "1.00k"),
            (1234.0, "1.23k"),
            (99_960.0, "100k"),
            (999_499.0, "999k"),
            (999_500.0, "1.00M"),
            (1.8e19, "18.0E"),
        ] {
            assert_eq!(count(value), text, "{value}");
        }
        assert_eq!((rate(0.0), rate(0.54), rate(9.96)), ("0".into(), "0.5".into(), "10".into()));
    }

    #[test]
    fn times_are_short_at_any_length() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00µs"),
            (16_400, "16.4µs"),
            (999_700, "1.00ms"),
            (59_990_000_000, "60.0s"),
            (60_000_000_000, "1m00s"),
            (3_720_000_000_000, "1h02m"),
            (360_000_000_000_000, "4d04h"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
        }
        assert!(time(u64::MAX).chars().count() <= 10);
    }

    #[test]
    fn bytes_have_binary_prefixes() {
        assert_eq!((bytes(1023), bytes(1536 << 10)), ("1023B".into(), "1.50MiB".into()));
    }
}

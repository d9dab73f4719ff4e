//! Results of `bench block`, in fio's text format and as tables.

use std::fmt::Write as _;

use coreshard_results::{
    BlockResults, ComparisonResults, Direction, HbaResults, Interrupts, JobResult, Latency,
    Percentile, Repeats,
};

use crate::plain;

/// Formats the results as fio prints them, with some additional lines.
pub fn text(results: &BlockResults) -> String {
    let mut text = String::new();
    for (at, job) in results.jobs.iter().enumerate() {
        job_text(&mut text, job, results.repeats.get(at));
    }
    for note in &results.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn job_text(text: &mut String, job: &JobResult, repeats: Option<&Repeats>) {
    let option = |key: &str| job.options.get(key).map_or("", String::as_str);
    let _ = writeln!(
        text,
        "{}: (g={}): rw={}, {}, ioengine={}, iodepth={}",
        job.jobname,
        job.groupid,
        option("rw"),
        match option("bssplit") {
            "" => format!("bs={}B", option("bs")),
            split => format!("bssplit={split}"),
        },
        option("ioengine"),
        option("iodepth")
    );
    let _ = writeln!(
        text,
        "{}: (groupid={}, jobs={}): err={:2}",
        job.jobname,
        job.groupid,
        option("numjobs"),
        job.error
    );
    for (name, direction) in [("read", &job.read), ("write", &job.write)] {
        if direction.total_ios > 0 {
            direction_text(text, name, direction);
        }
    }
    let _ = writeln!(
        text,
        "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, {:.0} ns of CPU time per I/O in the whole process",
        job.usr_cpu, job.sys_cpu, job.ctx, job.cpu_ns_per_io
    );
    let _ = writeln!(
        text,
        "     issued    : total={},{},0,0 short={},{},0,0; counters: issued={}, done={}, errors={}",
        job.read.total_ios,
        job.write.total_ios,
        job.read.short_ios,
        job.write.short_ios,
        job.issued,
        job.done,
        job.errors
    );
    let law = &job.littles_law;
    let _ = writeln!(
        text,
        "  in flight    : avg={:.2}, IOPS x latency={:.2}, ratio={:.4} (Little's law: 1)",
        law.in_flight, law.iops_times_latency, law.ratio
    );
    let _ = writeln!(text, "  engine       : {}", job.engine);
    if job.verified_bytes > 0 {
        let _ = writeln!(text, "  verified     : {}", bytes(job.verified_bytes as f64));
    }
    if let Some(repeats) = repeats.filter(|repeats| repeats.iops.len() > 1) {
        let _ = writeln!(
            text,
            "  runs         : {}, IOPS avg={}, min={}, max={}, spread={:.1}% ((max-min)/max)",
            repeats.iops.len(),
            short(repeats.average),
            short(repeats.min),
            short(repeats.max),
            repeats.spread * 100.0
        );
    }
}

fn direction_text(text: &mut String, name: &str, direction: &Direction) {
    let bw = direction.bw_bytes as f64;
    let _ = writeln!(
        text,
        "  {name}: IOPS={}, BW={}/s ({}/s)({}/{}msec)",
        short(direction.iops),
        bytes(bw),
        decimal_bytes(bw),
        bytes(direction.io_bytes as f64),
        direction.runtime
    );
    for (name, latency) in
        [("slat", &direction.slat_ns), ("clat", &direction.clat_ns), (" lat", &direction.lat_ns)]
    {
        latency_text(text, name, latency);
    }
    percentiles_text(text, &direction.clat_ns);
    let d = direction;
    for (name, min, max, mean, deviation, samples) in [
        ("bw (  KiB/s)", d.bw_min, d.bw_max, d.bw_mean, d.bw_dev, d.bw_samples),
        ("iops        ", d.iops_min, d.iops_max, d.iops_mean, d.iops_stddev, d.iops_samples),
    ] {
        let _ = writeln!(
            text,
            "   {name}: min={min}, max={max}, avg={mean:.2}, stdev={deviation:.2}, samples={samples}"
        );
    }
}

/// Returns fio's choice of unit: the largest unit that gives the minimum and the mean several digits.
fn unit(latency: &Latency) -> (&'static str, f64) {
    match (latency.min, latency.mean) {
        (2_000_000.., 99_999_000.0..) => ("msec", 1e6),
        (2_000.., 99_999.0..) => ("usec", 1e3),
        _ => ("nsec", 1.0),
    }
}

fn latency_text(text: &mut String, name: &str, latency: &Latency) {
    let (unit, by) = unit(latency);
    let _ = writeln!(
        text,
        "    {name} ({unit}): min={}, max={}, avg={:.2}, stdev={:.2}",
        short(latency.min as f64 / by),
        short(latency.max as f64 / by),
        latency.mean / by,
        latency.stddev / by
    );
}

fn percentiles_text(text: &mut String, latency: &Latency) {
    if latency.percentile.is_empty() {
        return;
    }
    let (unit, by) = unit(latency);
    let _ = writeln!(text, "    clat percentiles ({unit}):");
    let all: Vec<(&Percentile, &u64)> = latency.percentile.iter().collect();
    let lines = all.chunks(4).map(|line| {
        let cells = line.iter().map(|(at, ns)| {
            let at = f64::from(at.hundredths) / 100.0;
            format!("{at:5.2}th=[{:5.0}]", **ns as f64 / by)
        });
        format!("     | {}", cells.collect::<Vec<_>>().join(", "))
    });
    let _ = writeln!(text, "{}", lines.collect::<Vec<_>>().join(",\n"));
}

/// Shortens a number as fio does: 92.0k, 4278.5k, 12.
fn short(number: f64) -> String {
    match number {
        10_000_000.0.. => format!("{:.1}M", number / 1e6),
        10_000.0.. => format!("{:.1}k", number / 1e3),
        _ => format!("{number:.0}"),
    }
}

fn bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB"])
}

fn decimal_bytes(bytes: f64) -> String {
    scaled(bytes, 1000.0, ["B", "kB", "MB", "GB", "TB"])
}

fn scaled(mut number: f64, by: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    while number >= by * 10.0 && unit + 1 < units.len() || number >= by && unit == 0 {
        number /= by;
        unit += 1;
    }
    if number < 100.0 && unit > 0 {
        format!("{number:.1}{}", units[unit])
    } else {
        format!("{number:.0}{}", units[unit])
    }
}

/// Formats the block layer's comparisons as text tables.
pub fn comparison_text(results: &ComparisonResults, width: usize) -> String {
    let ComparisonResults { machine, platform, threads, operations, fairness } = results;
    let mut text = format!(
        "{machine} ({platform})\n\nTime of an operation: one thread, and all {threads}\n{}",
        plain::table(operations, width)
    );
    if !fairness.is_empty() {
        let _ = write!(
            text,
            "\n64 shared tags; a greedy device (256 in flight) and a shy one (1)\n{}",
            plain::table(fairness, width)
        );
    }
    text
}

/// Formats the adapter experiment as a text table, with published figures beside predicted ones.
pub fn hba_text(results: &HbaResults, width: usize) -> String {
    format!(
        "{} ({}), {} jobs on {} devices, {} in flight each, interrupts {}\n\n{}\n{}",
        results.machine,
        results.platform,
        results.jobs,
        results.devices,
        results.depth,
        match results.interrupts {
            Interrupts::Submitter => "on the submitting CPU",
            Interrupts::AdapterNode => "on the adapter's node",
        },
        plain::table(&results.rows, width),
        plain::notes(&results.notes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shortened_as_fio_does() {
        let shown: Vec<String> =
            [12.4, 9_999.0, 92_000.0, 4_278_500.0, 12_300_000.0].map(short).into();
        assert_eq!(shown, ["12", "9999", "92.0k", "4278.5k", "12.3M"]);
        assert_eq!(bytes(377_000_000.0), "360MiB");
        assert_eq!(decimal_bytes(377_000_000.0), "377MB");
        assert_eq!(bytes(512.0), "512B");
    }

    #[test]
    fn a_result_has_fio_s_lines() {
        let mut job = JobResult { jobname: "a".to_owned(), ..JobResult::default() };
        job.options.insert("rw".to_owned(), "randread".to_owned());
        job.read.total_ios = 10;
        job.read.iops = 92_000.0;
        job.read.clat_ns =
            Latency { min: 4_000, mean: 1e6, max: 5_248_000, count: 10, ..Latency::default() };
        job.read.clat_ns.percentile.insert(Percentile { hundredths: 9_900 }, 137_000);
        let repeats = vec![Repeats::new("a", vec![90_000.0, 100_000.0])];
        let text = text(&BlockResults { jobs: vec![job], repeats, ..BlockResults::default() });
        for line in [
            "a: (groupid=0, jobs=): err= 0\n",
            "  read: IOPS=92.0k, BW=0B/s (0B/s)(0B/0msec)\n",
            "    clat (usec): min=4, max=5248, avg=1000.00, stdev=0.00\n",
            "     | 99.00th=[  137]\n",
            "  runs         : 2, IOPS avg=95.0k, min=90.0k, max=100.0k, spread=10.0% ((max-min)/max)\n",
        ] {
            assert!(text.contains(line), "{line}in\n{text}");
        }
        assert!(!text.contains("  write"), "nothing was written\n{text}");
    }
}

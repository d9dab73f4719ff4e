use std::time::Duration;

use super::*;

fn measured(items_per_sec: u64) -> Run {
    Run::Ended(Outcome::Measured(Box::new(Measured {
        items: items_per_sec,
        elapsed_ns: 1_000_000_000,
        cpu_ns: Some(2 * items_per_sec),
        context_switches: Some(10),
        call: vec![(10, 99), (500, 1)],
        figures: BTreeMap::from([("threads".to_owned(), 2.0)]),
        ..Measured::default()
    })))
}

fn series(peer: &str, runs: Vec<Run>) -> Series {
    let params = Params::from([("producers".to_owned(), 2)]);
    Series { workload: "flood".into(), params, peer: peer.into(), runs }
}

/// Results with a row of every kind.
pub(crate) fn sample() -> Results {
    const M: u64 = 1_000_000;
    let all = [
        series("coreshard", vec![measured(20 * M), measured(20 * M), measured(10 * M)]),
        series("rayon", vec![measured(5 * M), measured(4 * M), measured(5 * M)]),
        series("asio", vec![measured(5 * M), Run::Failed("out of memory".into()), measured(5 * M)]),
        series("chili", vec![Run::Ended(Outcome::Unfit("has no spawn".into())); 3]),
        series("onetbb", vec![Run::Absent("not installed".into()); 3]),
        series("eigen", vec![Run::Hung(Duration::from_secs(20)); 3]),
    ];
    Results {
        machine: "a machine of two CPUs".into(),
        runs: 3,
        results: rows(&all),
        notes: vec!["It was quiet.".into()],
    }
}

#[test]
fn ratios_are_taken_run_by_run() {
    let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    let ratio = Ratio::of(&some(&[20.0, 20.0, 10.0]), &some(&[5.0, 4.0, 5.0])).unwrap();
    // Not 20 / 5, the ratio of the medians, by chance: 4, 5 and 2.
    assert_eq!(ratio, Ratio { median: 4.0, min: 2.0, max: 5.0 });
}

#[test]
fn a_run_that_either_side_lacks_counts_for_neither() {
    let ours = [Some(10.0), None, Some(30.0)];
    assert_eq!(
        Ratio::of(&ours, &[Some(5.0), Some(1.0), None]),
        Some(Ratio { median: 2.0, min: 2.0, max: 2.0 })
    );
    assert_eq!(Ratio::of(&ours, &[None, Some(1.0), None]), None);
    assert_eq!(Ratio::of(&[Some(1.0)], &[Some(0.0)]), None);
}

#[test]
fn differences_inside_the_noise_are_ties() {
    let verdict = |median, min, max| Ratio { median, min, max }.verdict();
    assert_eq!(verdict(1.02, 0.97, 1.08), Verdict::Tie);
    assert_eq!(verdict(1.02, 1.01, 1.08), Verdict::Ahead);
    assert_eq!(verdict(0.5, 0.4, 0.6), Verdict::Behind);
    assert_eq!(verdict(1.5, 0.9, 2.0), Verdict::Unclear);
}

#[test]
fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
    assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
    assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&mut []), None);
}

#[test]
fn a_row_has_its_medians_and_its_quantiles() {
    let results = sample();
    let row = &results.results[1];
    assert_eq!(row.items_per_sec, Some(5e6));
    assert_eq!((row.items_per_sec_min, row.items_per_sec_max), (Some(4e6), Some(5e6)));
    assert_eq!(row.cpu_ns_per_item, Some(2.0));
    assert_eq!(
        (row.call_p50_ns, row.call_p99_ns, row.call_p999_ns),
        (Some(10), Some(10), Some(500))
    );
    assert_eq!((row.end_to_end_p50_ns, row.allocations_per_item), (None, None));
    assert_eq!(row.coreshard_cpu_ratio, Some(Ratio { median: 1.0, min: 1.0, max: 1.0 }));
    assert_eq!(row.figures["threads"], 2.0);
}

#[test]
fn a_bad_peer_has_a_row_of_its_own_and_spoils_no_other() {
    let results = sample();
    let status = |peer: &str| {
        let row = results.results.iter().find(|row| row.peer == peer).unwrap();
        (row.status, row.items_per_sec.is_some(), row.coreshard_ratio.is_some())
    };
    assert_eq!(status("chili"), (Status::Unfit, false, false));
    assert_eq!(status("onetbb"), (Status::Absent, false, false));
    assert_eq!(status("eigen"), (Status::Hung, false, false));
    assert_eq!(status("asio"), (Status::Measured, true, true));
    assert_eq!(status("rayon"), (Status::Measured, true, true));
    assert_eq!(status("coreshard"), (Status::Measured, true, false));
}

#[test]
fn the_json_has_the_promised_keys_in_order() {
    let results = sample();
    let text = serde_json::to_string(&results).unwrap();
    let promised = [
        "machine",
        "runs",
        "results",
        "workload",
        "params",
        "peer",
        "items_per_sec",
        "call_p50_ns",
        "call_p99_ns",
        "call_p999_ns",
        "end_to_end_p50_ns",
        "end_to_end_p99_ns",
        "cpu_ns_per_item",
        "context_switches",
        "peak_rss_bytes",
        "allocations_per_item",
        "coreshard_ratio",
    ];
    let places: Vec<usize> =
        promised.iter().map(|key| text.find(&format!("\"{key}\":")).expect(key)).collect();
    assert!(places.is_sorted(), "{places:?}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = value["results"].as_array().unwrap();
    assert!(rows[0]["coreshard_ratio"].is_null());
    assert_eq!(
        rows[1]["coreshard_ratio"],
        serde_json::json!({"median": 4.0, "min": 2.0, "max": 5.0})
    );
    assert!(rows[3]["items_per_sec"].is_null());
    assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
}

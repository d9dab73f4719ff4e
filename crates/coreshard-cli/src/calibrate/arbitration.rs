//! How contended cache lines are arbitrated: the parameters that make a simulated machine match the measured
//! contention.

use std::fmt::Write as _;

use coreshard_results::{Calibration, Contended, Fetched, Figure};

use super::core::Core;

/// The fitted keys of `[costs.arbitration]`.
const KEYS: [&str; 5] = ["hold_ns", "locked_ns", "request_ns", "reach_ns", "far_atomic_ns"];
const HOLD: usize = 0;
const LOCKED: usize = 1;
const REQUEST: usize = 2;
const REACH: usize = 3;
const FAR_ATOMIC: usize = 4;

/// The values of [`KEYS`].
pub(super) type Numbers = [f64; KEYS.len()];

/// Values of each key. They are close together where they are small.
const NANOSECONDS: [f64; 15] =
    [0.0, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0, 15.0, 20.0, 28.0, 40.0, 55.0, 75.0, 100.0];
const REACHES: [f64; 6] = [10.0, 20.0, 40.0, 100.0, 300.0, 1_000.0];

/// Keys that partly replace each other, so that they are tried together.
const TOGETHER: [[usize; 2]; 4] =
    [[HOLD, LOCKED], [LOCKED, REQUEST], [HOLD, REACH], [LOCKED, FAR_ATOMIC]];

/// The most times that all keys are tried, each time beside the values found before.
const MOST_TURNS: usize = 3;

/// The differences between CPUs that determine numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuDifferences {
    /// Whether some CPUs are farther from each other than others.
    pub(super) has_distances: bool,
    /// Whether atomic operations may be executed by a line's home.
    pub(super) has_far_atomics: bool,
    /// The shortest way of a line between two CPUs.
    pub(super) nearest_ns: f64,
}

/// The values of `[costs.arbitration]`, and how certain they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Arbitration {
    pub(super) numbers: Numbers,
    /// By key: the least and the most value that fit almost as well; `None` if contention does not tell it.
    ranges: [Option<(f64, f64)>; KEYS.len()],
    /// Costs of uncontended lines, which are measured directly.
    fetched: Option<Fetched>,
    /// The mean factor between measured and simulated operations, and between two medians.
    off: f64,
    noise: f64,
    /// The mean factor of ticket locks, by which nothing is fitted.
    tickets_off: f64,
}

/// Returns the operations by which the numbers are fitted.
const fn fitted(curve: &Contended) -> [Figure; 4] {
    [curve.add, curve.swap, curve.compare_exchange, curve.paused_exchange]
}

/// Returns the mean factor between two curves, from two threads on: 1 if they are equal.
fn apart<const N: usize>(
    measured: &[Contended],
    simulated: &[Contended],
    of: impl Fn(&Contended) -> [Figure; N],
) -> f64 {
    let contended = measured.iter().zip(simulated).filter(|(one, _)| one.threads > 1);
    let both = contended.flat_map(|(one, other)| of(one).into_iter().zip(of(other)));
    let ns = |figure: Figure| figure.median_ns.max(0.1);
    mean_factor(both.map(|(one, other)| (ns(one) / ns(other)).ln().abs()))
}

/// Returns the mean factor by which the measured medians are uncertain.
fn noise(measured: &[Contended]) -> f64 {
    let contended = measured.iter().filter(|curve| curve.threads > 1);
    mean_factor(contended.flat_map(fitted).map(|figure| {
        let range = (figure.max_ns.max(0.1) / figure.min_ns.max(0.1)).ln();
        // The range of that many samples is some four of their deviations, and a median's is less by the root of their number.
        range.max(0.0) / 4.0 / (figure.samples.max(1) as f64).sqrt()
    }))
}

fn mean_factor(logs: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = logs.fold((0.0, 0), |(sum, count), log| (sum + log, count + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// All values that were tried, with the mean factor of each.
type Tried = Vec<(Numbers, f64)>;

/// Chooses the parameters: those with which simulated adds, swaps and compare-exchange loops come closest to the measured
/// ones. Ticket locks are not fitted, so they show how well the rest predicts. Returns `None` without contention.
pub(super) fn fit(
    measured: &Calibration,
    shape: CpuDifferences,
    mut simulate: impl FnMut(&[Arbitration]) -> anyhow::Result<Vec<Vec<Contended>>>,
) -> anyhow::Result<Option<Arbitration>> {
    let most = measured.contended.iter().map(|curve| curve.threads).max().unwrap_or(0);
    if most < 2 {
        return Ok(None);
    }
    let values = |key: usize| -> Vec<f64> {
        match key {
            HOLD | LOCKED => NANOSECONDS.to_vec(),
            // With two CPUs, no requester waits for another one's turn.
            REQUEST if most > 2 => {
                NANOSECONDS.into_iter().filter(|ns| *ns <= shape.nearest_ns).collect()
            }
            REACH if most > 2 && shape.has_distances => REACHES.to_vec(),
            FAR_ATOMIC if shape.has_far_atomics => NANOSECONDS.to_vec(),
            _ => Vec::new(),
        }
    };
    let mut of = |all: &[Numbers]| -> anyhow::Result<Vec<f64>> {
        let with = |numbers: &Numbers| Arbitration {
            numbers: *numbers,
            fetched: measured.fetched,
            ..Arbitration::default()
        };
        let simulated = simulate(&all.iter().map(with).collect::<Vec<_>>())?;
        Ok(simulated.iter().map(|curves| apart(&measured.contended, curves, fitted)).collect())
    };
    let mut numbers = Numbers::default();
    // Any value means the same if all are equally near.
    numbers[REACH] = if shape.has_distances { 20.0 } else { 100.0 };
    let mut tried: Tried = vec![(numbers, of(&[numbers])?[0])];
    for _ in 0..MOST_TURNS {
        let before = best(&tried).0;
        for pair in TOGETHER {
            let [one, other] = pair.map(values);
            let from = best(&tried).0;
            let or_that = |values: Vec<f64>, key: usize| {
                if values.is_empty() { vec![from[key]] } else { values }
            };
            let (one, other) = (or_that(one, pair[0]), or_that(other, pair[1]));
            let each = one.iter().flat_map(|one| other.iter().map(move |other| (*one, *other)));
            let mut all: Vec<Numbers> = each
                .map(|(one, other)| {
                    let mut numbers = from;
                    (numbers[pair[0]], numbers[pair[1]]) = (one, other);
                    numbers
                })
                .collect();
            all.retain(|numbers| !tried.iter().any(|(known, _)| known == numbers));
            tried.extend(all.iter().copied().zip(of(&all)?));
        }
        if best(&tried).0 == before {
            break;
        }
    }
    let noise = noise(&measured.contended);
    let best = best(&tried);
    let close = close(tried, best.1 * noise.max(best.1).max(LEAST_NOISE));
    let (numbers, off) = if most == 2 { longest_hold(&close) } else { best };
    let mut found =
        Arbitration { numbers, off, noise, fetched: measured.fetched, ..Arbitration::default() };
    for key in 0..KEYS.len() {
        found.ranges[key] = (values(key).len() > 1).then(|| range(&close, key));
    }
    let curves = simulate(std::slice::from_ref(&found))?.remove(0);
    found.tickets_off = apart(&measured.contended, &curves, |curve| [curve.ticket_lock]);
    Ok(Some(found))
}

/// The least factor that counts as a difference. Neither do smaller ones than that of the best fit.
const LEAST_NOISE: f64 = 1.01;

fn best(tried: &Tried) -> (Numbers, f64) {
    let least = tried.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    *least.expect("the first values were tried")
}

/// Returns the values that fit within this factor.
fn close(mut tried: Tried, within: f64) -> Tried {
    tried.retain(|(_, off)| *off <= within);
    tried
}

/// Returns those of these values that hold a line longest. For two CPUs a short hold and a slow locked operation mean about the
/// same as a long hold and a fast one, but replays of padded counters are right with long ones only: of 17 gains, 12 were
/// within 25 % with 11 and 0 ns, and 4 with 6 and 6.
fn longest_hold(close: &Tried) -> (Numbers, f64) {
    let longest = close
        .iter()
        .max_by(|one, other| one.0[HOLD].total_cmp(&other.0[HOLD]).then(other.1.total_cmp(&one.1)));
    *longest.expect("the best one is close")
}

/// Returns the least and the most of these values of a key.
fn range(close: &Tried, key: usize) -> (f64, f64) {
    let values = close.iter().map(|(numbers, _)| numbers[key]);
    values.fold((f64::INFINITY, 0.0), |(least, most), it| (least.min(it), most.max(it)))
}

impl Arbitration {
    /// Formats the measurements of uncontended lines.
    fn measured_text(&self) -> String {
        let Some(fetched) = &self.fetched else { return String::new() };
        let mut text = String::new();
        if fetched.loads_take_dirty_lines() {
            text.push_str("loads_take_dirty_lines = true\n");
        }
        if fetched.pairs_come_together() {
            text.push_str("pair_prefetch = true\n");
        }
        // On other architectures a release store waits for earlier stores, which this number does not model.
        if cfg!(target_arch = "x86_64") && fetched.stores_at_once() > 1 {
            let _ = writeln!(text, "misses_at_once = {}", fetched.stores_at_once());
        }
        text
    }

    fn measured_source(&self) -> String {
        let Some(Fetched { load, load_of_pair, add, load_and_add, store }) = &self.fetched else {
            return String::new();
        };
        format!(
            "the last keys: measured on lines that another CPU has written, per line: load {:.1}, fetch-and-add {:.1}, load and fetch-and-add {:.1}, stores {:.1}, load of the other one of a pair {:.1} ns (medians of {}); ",
            load.median_ns,
            add.median_ns,
            load_and_add.median_ns,
            store.median_ns,
            load_of_pair.median_ns,
            load.samples
        )
    }

    /// Returns the larger mean factor between measured and simulated operations.
    pub(super) fn off(&self) -> f64 {
        self.off.max(self.tickets_off)
    }

    /// Formats the fitted keys, each with its range.
    fn fitted_text(&self) -> String {
        let mut text = String::new();
        for ((key, number), range) in KEYS.into_iter().zip(self.numbers).zip(self.ranges) {
            let _ = match (range, key) {
                (Some((least, most)), _) if least == most => {
                    writeln!(text, "{key} = {number} # measured")
                }
                (Some((least, most)), _) => {
                    writeln!(text, "{key} = {number} # measured: {least} to {most}")
                }
                (None, "reach_ns") => writeln!(
                    text,
                    "{key} = {number} # not measured: it acts if CPUs are at several distances"
                ),
                (None, "request_ns") if number == 0.0 => {
                    writeln!(text, "# {key} is not measured: it acts from three CPUs on")
                }
                (None, _) if number == 0.0 => Ok(()),
                (None, _) => writeln!(text, "{key} = {number}"),
            };
        }
        text
    }

    /// Formats the table of a machine file, for cores with a cycle of `cycle_ns`.
    pub(super) fn text(&self, core: &Core, cycle_ns: f64) -> String {
        let Self { off, noise, tickets_off, .. } = self;
        let fitted = self.fitted_text();
        let (measured, source) = (self.measured_text(), self.measured_source());
        let (work_ahead_ns, ahead) = (core.work_ahead_ns(cycle_ns), core.source());
        format!(
            "\n[costs.arbitration]\n{fitted}{measured}work_ahead_ns = {work_ahead_ns:.1}\nsource = \"{source}the keys with a range: fitted to contended adds, swaps and compare-exchange loops measured here, within a factor of {off:.2} on average; values of the range fit as well, as medians are known within a factor of {noise:.2}; ticket locks, which were not fitted, within {tickets_off:.2}; work_ahead: {ahead}\"\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use coreshard_results::Calibration;

    use super::*;

    const FOUR_CPUS: CpuDifferences =
        CpuDifferences { has_distances: false, has_far_atomics: false, nearest_ns: 50.0 };

    fn curve(threads: usize, add_ns: f64, loop_ns: f64) -> Contended {
        let figure =
            |median_ns: f64| Figure { median_ns, min_ns: median_ns, max_ns: median_ns, samples: 1 };
        Contended {
            threads,
            add: figure(add_ns),
            swap: figure(add_ns),
            compare_exchange: figure(loop_ns),
            paused_exchange: figure(loop_ns),
            ticket_lock: figure(2.0 * add_ns),
            ..Contended::default()
        }
    }

    /// A machine whose operations slow down with `locked`, and speed up with `hold`; loops differ.
    fn simulate(with: &Arbitration) -> Vec<Contended> {
        let [hold_ns, locked_ns, request_ns, ..] = with.numbers;
        let of = |threads: usize| {
            let early_ns = if threads > 2 { request_ns } else { 0.0 };
            let turn_ns = threads as f64 * (60.0 + locked_ns - early_ns);
            curve(threads, turn_ns / (1.0 + hold_ns / 5.0), turn_ns / (1.0 + hold_ns / 50.0))
        };
        vec![curve(1, 5.0, 9.0), of(2), of(4)]
    }

    fn simulate_all(all: &[Arbitration]) -> anyhow::Result<Vec<Vec<Contended>>> {
        Ok(all.iter().map(simulate).collect())
    }

    fn measured(contended: Vec<Contended>) -> Calibration {
        Calibration { contended, ..Calibration::default() }
    }

    #[test]
    fn the_numbers_are_found_with_which_curves_were_made() {
        for numbers in [
            [15.0, 0.0, 0.0, 100.0, 0.0],
            [0.0, 40.0, 28.0, 100.0, 0.0],
            [8.0, 20.0, 3.0, 100.0, 0.0],
            [0.0, 0.0, 0.0, 100.0, 0.0],
        ] {
            let made = Arbitration { numbers, ..Arbitration::default() };
            let calibration = measured(simulate(&made));
            let found = fit(&calibration, FOUR_CPUS, simulate_all).unwrap().unwrap();
            assert_eq!(found.numbers, numbers);
            let text = found.text(&Core::default(), 0.4);
            assert!(text.contains("factor of 1.00 on average"), "{text}");
            assert!(text.contains("reach_ns = 100 # not measured"), "{text}");
        }
    }

    #[test]
    fn values_that_fit_as_well_are_in_the_range() {
        let made = Arbitration { numbers: [0.0, 28.0, 0.0, 100.0, 0.0], ..Arbitration::default() };
        let mut calibration = measured(simulate(&made));
        let fit =
            |calibration: &Calibration| fit(calibration, FOUR_CPUS, simulate_all).unwrap().unwrap();
        let (least, most) = fit(&calibration).ranges[LOCKED].unwrap();
        assert!(least >= 20.0 && most <= 40.0, "{least} to {most}");
        for curve in &mut calibration.contended {
            for of in [
                &mut curve.add,
                &mut curve.swap,
                &mut curve.compare_exchange,
                &mut curve.paused_exchange,
            ] {
                (of.min_ns, of.max_ns) = (of.median_ns / 3.0, of.median_ns * 3.0);
            }
        }
        let (wide_least, wide_most) = fit(&calibration).ranges[LOCKED].unwrap();
        assert!(wide_least < least && wide_most > most, "{wide_least} to {wide_most}");
    }

    #[test]
    fn two_cpus_hold_as_long_as_fits_and_do_not_tell_how_early_a_request_is() {
        let made = Arbitration { numbers: [15.0, 0.0, 0.0, 100.0, 0.0], ..Arbitration::default() };
        let mut calibration = measured(simulate(&made));
        calibration.contended.pop();
        let two =
            |all: &[Arbitration]| Ok(all.iter().map(|with| simulate(with)[..2].to_vec()).collect());
        let found = fit(&calibration, FOUR_CPUS, two).unwrap().unwrap();
        assert_eq!(found.numbers[HOLD], found.ranges[HOLD].unwrap().1, "the longest that fits");
        let text = found.text(&Core::default(), 0.4);
        assert!(
            text.contains("# request_ns is not measured: it acts from three CPUs on\n"),
            "{text}"
        );
        assert!(!text.contains("\nrequest_ns"), "{text}");
    }

    #[test]
    fn what_was_measured_of_single_lines_is_written_as_it_is() {
        let figure = |median_ns| Figure { median_ns, ..Figure::default() };
        let fetched = Fetched {
            load: figure(74.0),
            load_of_pair: figure(25.0),
            add: figure(76.0),
            load_and_add: figure(77.0),
            store: figure(15.2),
        };
        let with = Arbitration { fetched: Some(fetched), ..Arbitration::default() };
        let text = with.text(&Core::default(), 0.4);
        for line in ["loads_take_dirty_lines = true", "pair_prefetch = true"] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
        assert_eq!(text.contains("misses_at_once = 5\n"), cfg!(target_arch = "x86_64"), "{text}");
        // A machine with none of these features.
        let plain = Fetched {
            load_of_pair: figure(70.0),
            load_and_add: figure(150.0),
            store: figure(75.0),
            ..fetched
        };
        let text = Arbitration { fetched: Some(plain), ..with }.text(&Core::default(), 0.4);
        for key in ["loads_take", "pair_prefetch =", "misses_at_once"] {
            assert!(!text.contains(key), "{key} in {text}");
        }
    }

    #[test]
    fn one_cpu_has_nothing_to_arbitrate() {
        let calibration = measured(vec![curve(1, 5.0, 9.0)]);
        let none = fit(&calibration, FOUR_CPUS, |_| unreachable!("nobody contends"));
        assert_eq!(none.unwrap(), None);
    }
}

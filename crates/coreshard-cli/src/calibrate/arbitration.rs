//! How contended cache lines are arbitrated: the parameters that make a simulated machine match the measured
//! contention.

use std::fmt::Write as _;

use coreshard_results::{Calibration, Contended, Fetched};

use super::core::Core;

/// The values of `[costs.arbitration]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Arbitration {
    hold_ns: f64,
    locked_ns: f64,
    reach_ns: f64,
    /// Costs of uncontended lines, which are measured directly.
    fetched: Option<Fetched>,
    /// The mean factor between measured and simulated operations: for adds and compare-exchange loops, and for ticket
    /// locks, by which nothing is fitted.
    adds_off: f64,
    tickets_off: f64,
}

/// All are tried. They are close together at small values.
const NANOSECONDS: [f64; 14] =
    [1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0, 15.0, 20.0, 28.0, 40.0, 55.0, 75.0, 100.0];

/// Requesters beyond this distance get a smaller share. Any value works if all are equally near; otherwise it is taken
/// from other machines.
const REACH_NS: [f64; 2] = [100.0, 20.0];

/// Returns the mean factor between two curves, from two threads on: 1 if they are equal.
fn apart(measured: &[Contended], simulated: &[Contended], of: impl Fn(&Contended) -> f64) -> f64 {
    let contended = measured.iter().zip(simulated).filter(|(one, _)| one.threads > 1);
    let logs: Vec<f64> =
        contended.map(|(one, other)| (of(one).max(0.1) / of(other).max(0.1)).ln().abs()).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

/// Chooses the parameters. Contended adds and compare-exchange loops distinguish an owner that keeps its line for
/// several operations (`hold`) from a locked instruction that keeps it longer than its transfer (`locked`). Ticket
/// locks are not fitted, so they show how well the rest predicts. Returns `None` without contention.
pub(super) fn fit(
    measured: &Calibration,
    one_llc: bool,
    mut simulate: impl FnMut(&Arbitration) -> anyhow::Result<Vec<Contended>>,
) -> anyhow::Result<Option<Arbitration>> {
    if measured.contended.iter().all(|curve| curve.threads < 2) {
        return Ok(None);
    }
    let reach_ns = REACH_NS[usize::from(!one_llc)];
    let first = Arbitration { reach_ns, fetched: measured.fetched, ..Arbitration::default() };
    let holds = NANOSECONDS.into_iter().map(|hold_ns| Arbitration { hold_ns, ..first });
    let locks = NANOSECONDS.into_iter().map(|locked_ns| Arbitration { locked_ns, ..first });
    let mut best = Arbitration { adds_off: f64::INFINITY, ..first };
    for mut tried in [first].into_iter().chain(holds).chain(locks) {
        let simulated = simulate(&tried)?;
        let adds_off = apart(&measured.contended, &simulated, |curve| curve.add.median_ns);
        let loop_ns = |curve: &Contended| curve.compare_exchange.median_ns;
        tried.adds_off = (adds_off * apart(&measured.contended, &simulated, loop_ns)).sqrt();
        if tried.adds_off < best.adds_off {
            let ticket_ns = |curve: &Contended| curve.ticket_lock.median_ns;
            tried.tickets_off = apart(&measured.contended, &simulated, ticket_ns);
            best = tried;
        }
    }
    Ok(Some(best))
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
        self.adds_off.max(self.tickets_off)
    }

    /// Formats the table of a machine file, for cores with a cycle of `cycle_ns`.
    pub(super) fn text(&self, core: &Core, cycle_ns: f64) -> String {
        let Self { hold_ns, locked_ns, reach_ns, adds_off, tickets_off, .. } = self;
        let (measured, source) = (self.measured_text(), self.measured_source());
        let (work_ahead_ns, ahead) = (core.work_ahead_ns(cycle_ns), core.source());
        let mut text = String::new();
        let _ = writeln!(
            text,
            "\n[costs.arbitration]\nhold_ns = {hold_ns}\nlocked_ns = {locked_ns}\nreach_ns = {reach_ns}\n{measured}work_ahead_ns = {work_ahead_ns:.1}\nsource = \"{source}hold and locked: fitted to contended adds and compare-exchange loops measured here, within a factor of {adds_off:.2} on average; ticket locks, which were not fitted, within {tickets_off:.2}; reach: from other machines; work_ahead: {ahead}\""
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use coreshard_results::{Calibration, Figure};

    use super::*;

    fn curve(threads: usize, add_ns: f64, ticket_ns: f64) -> Contended {
        let figure = |median_ns| Figure { median_ns, ..Figure::default() };
        Contended {
            threads,
            add: figure(add_ns),
            compare_exchange: figure(add_ns),
            ticket_lock: figure(ticket_ns),
            mutex: figure(ticket_ns),
        }
    }

    /// A machine whose adds slow down with `locked` and speed up with `hold`.
    fn simulate(with: &Arbitration) -> Vec<Contended> {
        let add = |threads: f64| threads * (20.0 + with.locked_ns) / (1.0 + with.hold_ns / 5.0);
        let of = |threads: usize| {
            let add = add(threads as f64);
            curve(threads, add, 2.0 * add)
        };
        vec![curve(1, 5.0, 9.0), of(2), of(4)]
    }

    fn measured(contended: Vec<Contended>) -> Calibration {
        Calibration { contended, ..Calibration::default() }
    }

    #[test]
    fn the_numbers_are_found_with_which_curves_were_made() {
        let made = [
            Arbitration { hold_ns: 15.0, ..Arbitration::default() },
            Arbitration { locked_ns: 40.0, ..Arbitration::default() },
            Arbitration::default(),
        ];
        for made in made {
            let calibration = measured(simulate(&made));
            let found = fit(&calibration, true, |with| Ok(simulate(with))).unwrap().unwrap();
            let numbers = |of: &Arbitration| (of.hold_ns, of.locked_ns);
            assert_eq!(numbers(&found), numbers(&made));
            let text = found.text(&Core::default(), 0.4);
            assert!(text.contains("factor of 1.00 on average"), "{text}");
        }
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
        let with = Arbitration { hold_ns: 15.0, fetched: Some(fetched), ..Arbitration::default() };
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
        let none = fit(&calibration, true, |_| unreachable!("nobody contends"));
        assert_eq!(none.unwrap(), None);
    }
}

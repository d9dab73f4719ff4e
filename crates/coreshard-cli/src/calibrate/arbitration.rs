//! How contended lines change hands: the numbers with which a simulated machine contends as the measured one does.

use std::fmt::Write as _;

use coreshard_results::Contended;

/// The numbers of `[costs.arbitration]` that are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Arbitration {
    hold_ns: f64,
    locked_ns: f64,
    spin_exit_ns: f64,
    reach_ns: f64,
    /// How far the adds and the ticket locks are off, as a factor, on average.
    adds_off: f64,
    tickets_off: f64,
}

/// Each is tried: close together where a nanosecond matters.
const NANOSECONDS: [f64; 14] =
    [1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 11.0, 15.0, 20.0, 28.0, 40.0, 55.0, 75.0, 100.0];

/// Beyond this distance a requester has a smaller share: any number where all are as near, else as on other machines.
const REACH_NS: [f64; 2] = [100.0, 20.0];

/// How far apart two curves are from two threads on: the mean of the points' factors, 1 where they are equal.
fn apart(measured: &[Contended], simulated: &[Contended], of: impl Fn(&Contended) -> f64) -> f64 {
    let contended = measured.iter().zip(simulated).filter(|(one, _)| one.threads > 1);
    let logs: Vec<f64> =
        contended.map(|(one, other)| (of(one).max(0.1) / of(other).max(0.1)).ln().abs()).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

/// An owner that keeps its line for several operations (`hold`) and a locked instruction that keeps it longer than its way
/// takes (`locked`) are told apart by contended adds; what leaving a loop of loads costs, by ticket locks. `None` where nobody
/// contends.
pub(super) fn fit(
    measured: &coreshard_results::Calibration,
    one_llc: bool,
    mut simulate: impl FnMut(&Arbitration) -> anyhow::Result<Vec<Contended>>,
) -> anyhow::Result<Option<Arbitration>> {
    if measured.contended.iter().all(|curve| curve.threads < 2) {
        return Ok(None);
    }
    let reach_ns = REACH_NS[usize::from(!one_llc)];
    let first = Arbitration { reach_ns, ..Arbitration::default() };
    let holds = NANOSECONDS.into_iter().map(|hold_ns| Arbitration { hold_ns, ..first });
    let locks = NANOSECONDS.into_iter().map(|locked_ns| Arbitration { locked_ns, ..first });
    let mut best = Arbitration { adds_off: f64::INFINITY, ..first };
    for mut tried in [first].into_iter().chain(holds).chain(locks) {
        let simulated = simulate(&tried)?;
        tried.adds_off = apart(&measured.contended, &simulated, |curve| curve.add.median_ns);
        if tried.adds_off < best.adds_off {
            best = tried;
        }
    }
    let mut best = Arbitration { tickets_off: f64::INFINITY, ..best };
    for spin_exit_ns in [0.0].into_iter().chain(NANOSECONDS) {
        let mut tried = Arbitration { spin_exit_ns, ..best };
        let simulated = simulate(&tried)?;
        tried.tickets_off =
            apart(&measured.contended, &simulated, |curve| curve.ticket_lock.median_ns);
        if tried.tickets_off < best.tickets_off {
            best = tried;
        }
    }
    Ok(Some(best))
}

impl Arbitration {
    /// The table of a machine's file.
    pub(super) fn text(&self) -> String {
        let Self { hold_ns, locked_ns, spin_exit_ns, reach_ns, adds_off, tickets_off } = self;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "\n[costs.arbitration]\nhold_ns = {hold_ns}\nlocked_ns = {locked_ns}\nspin_exit_ns = \
             {spin_exit_ns}\nreach_ns = {reach_ns}\nsource = \"hold and locked: chosen so that contended adds take \
             what was measured here, within a factor of {adds_off:.2} on average; spin_exit: by ticket locks, \
             {tickets_off:.2}; reach: as on other machines\""
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

    /// A machine whose adds become dearer with what is locked, cheaper with what is held.
    fn simulate(with: &Arbitration) -> Vec<Contended> {
        let add = |threads: f64| threads * (20.0 + with.locked_ns) / (1.0 + with.hold_ns / 5.0);
        let of = |threads: usize| {
            let add = add(threads as f64);
            curve(threads, add, 2.0 * add + with.spin_exit_ns)
        };
        vec![curve(1, 5.0, 9.0), of(2), of(4)]
    }

    fn measured(contended: Vec<Contended>) -> Calibration {
        let nothing = r#"{"cpus":[],"latency":[],"contended":[]}"#;
        let mut value: serde_json::Value = serde_json::from_str(nothing).unwrap();
        for key in [
            "load",
            "atomic",
            "spin_hint",
            "clock_read",
            "memory",
            "wake_nobody",
            "wait_refused",
            "wake_here",
            "context_switch",
            "spawn",
        ] {
            value[key] = serde_json::to_value(Figure::default()).unwrap();
        }
        Calibration { contended, ..serde_json::from_value(value).unwrap() }
    }

    #[test]
    fn the_numbers_are_found_with_which_curves_were_made() {
        let made = [
            Arbitration { hold_ns: 15.0, spin_exit_ns: 8.0, ..Arbitration::default() },
            Arbitration { locked_ns: 40.0, spin_exit_ns: 20.0, ..Arbitration::default() },
            Arbitration::default(),
        ];
        for made in made {
            let calibration = measured(simulate(&made));
            let found = fit(&calibration, true, |with| Ok(simulate(with))).unwrap().unwrap();
            let numbers = |of: &Arbitration| (of.hold_ns, of.locked_ns, of.spin_exit_ns);
            assert_eq!(numbers(&found), numbers(&made));
            assert!(found.text().contains("factor of 1.00 on average"), "{}", found.text());
        }
    }

    #[test]
    fn one_cpu_has_nothing_to_arbitrate() {
        let calibration = measured(vec![curve(1, 5.0, 9.0)]);
        let none = fit(&calibration, true, |_| unreachable!("nobody contends"));
        assert_eq!(none.unwrap(), None);
    }
}

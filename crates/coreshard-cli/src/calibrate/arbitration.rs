//! How contended lines change hands: the numbers with which a simulated machine contends as the measured one does.

use std::fmt::Write as _;

use coreshard_results::{Calibration, Contended, Fetched};

/// The numbers of `[costs.arbitration]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Arbitration {
    hold_ns: f64,
    locked_ns: f64,
    spin_exit_ns: f64,
    reach_ns: f64,
    /// What was measured of lines that nobody waits for, and needs no choice.
    fetched: Option<Fetched>,
    /// A ping-pong's way between the same two CPUs.
    ping_pong_ns: f64,
    /// How far the adds and compare-exchange loops are off, and the ticket locks, as a factor, on average.
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
/// takes (`locked`) are told apart by contended adds and compare-exchange loops; what leaving a loop of loads costs, by ticket
/// locks. `None` where nobody contends.
pub(super) fn fit(
    measured: &Calibration,
    one_llc: bool,
    mut simulate: impl FnMut(&Arbitration) -> anyhow::Result<Vec<Contended>>,
) -> anyhow::Result<Option<Arbitration>> {
    if measured.contended.iter().all(|curve| curve.threads < 2) {
        return Ok(None);
    }
    let reach_ns = REACH_NS[usize::from(!one_llc)];
    let ping_pong = measured.latency.get(1).and_then(|row| row[0]);
    let first = Arbitration {
        reach_ns,
        fetched: measured.fetched,
        ping_pong_ns: ping_pong.map_or(0.0, |figure| figure.median_ns),
        ..Arbitration::default()
    };
    let holds = NANOSECONDS.into_iter().map(|hold_ns| Arbitration { hold_ns, ..first });
    let locks = NANOSECONDS.into_iter().map(|locked_ns| Arbitration { locked_ns, ..first });
    let mut best = Arbitration { adds_off: f64::INFINITY, ..first };
    for mut tried in [first].into_iter().chain(holds).chain(locks) {
        let simulated = simulate(&tried)?;
        let adds_off = apart(&measured.contended, &simulated, |curve| curve.add.median_ns);
        let loop_ns = |curve: &Contended| curve.compare_exchange.median_ns;
        tried.adds_off = (adds_off * apart(&measured.contended, &simulated, loop_ns)).sqrt();
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
    /// What a request takes where it has not waited: what a line takes that nobody waits for, beyond a ping-pong's way, in
    /// which its owner keeps it for a while.
    fn fresh_request_ns(&self, fetched: &Fetched) -> f64 {
        let fetch_ns = (fetched.load.median_ns + fetched.add.median_ns) / 2.0;
        // However long the owner keeps it, a transfer takes some of a ping-pong's way.
        let transfer_ns = (self.ping_pong_ns - self.hold_ns).max(self.ping_pong_ns / 4.0);
        (fetch_ns - transfer_ns).max(0.0)
    }

    /// What was measured of lines that nobody waits for.
    fn measured_text(&self) -> String {
        let Some(fetched) = &self.fetched else { return String::new() };
        let mut text = format!("fresh_request_ns = {:.1}\n", self.fresh_request_ns(fetched));
        if fetched.loads_take_dirty_lines() {
            text.push_str("loads_take_dirty_lines = true\n");
        }
        if fetched.pairs_come_together() {
            text.push_str("pair_prefetch = true\n");
        }
        // Elsewhere a release store waits for those before it, which this number knows nothing of.
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
            "fresh_request and the keys after it: measured of lines that another CPU has \
             written, for each: load {:.1}, fetch-and-add {:.1}, load and \
             fetch-and-add {:.1}, stores {:.1}, load of the other one of a pair {:.1} ns (medians of {}); ",
            load.median_ns,
            add.median_ns,
            load_and_add.median_ns,
            store.median_ns,
            load_of_pair.median_ns,
            load.samples
        )
    }

    /// How far simulated operations are off, as a factor, on average: those that are off further.
    pub(super) fn off(&self) -> f64 {
        self.adds_off.max(self.tickets_off)
    }

    /// The table of a machine's file.
    pub(super) fn text(&self) -> String {
        let Self { hold_ns, locked_ns, spin_exit_ns, reach_ns, adds_off, tickets_off, .. } = self;
        let (measured, source) = (self.measured_text(), self.measured_source());
        let mut text = String::new();
        let _ = writeln!(
            text,
            "\n[costs.arbitration]\nhold_ns = {hold_ns}\nlocked_ns = {locked_ns}\nspin_exit_ns = \
             {spin_exit_ns}\nreach_ns = {reach_ns}\n{measured}source = \"{source}hold and locked: chosen so that \
             contended adds and compare-exchange loops take what was measured here, within a factor of {adds_off:.2} on \
             average; spin_exit: by ticket locks, {tickets_off:.2}; reach: as on other machines\""
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
        Calibration { contended, ..Calibration::default() }
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
    fn what_was_measured_of_single_lines_is_written_as_it_is() {
        let figure = |median_ns| Figure { median_ns, ..Figure::default() };
        let fetched = Fetched {
            load: figure(74.0),
            load_of_pair: figure(25.0),
            add: figure(76.0),
            load_and_add: figure(77.0),
            store: figure(15.2),
        };
        let with = Arbitration {
            hold_ns: 15.0,
            fetched: Some(fetched),
            ping_pong_ns: 62.0,
            ..Arbitration::default()
        };
        let text = with.text();
        for line in
            ["fresh_request_ns = 28.0", "loads_take_dirty_lines = true", "pair_prefetch = true"]
        {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
        assert_eq!(text.contains("misses_at_once = 5\n"), cfg!(target_arch = "x86_64"), "{text}");
        // An owner that keeps its line for longer than a ping-pong's way has no part in what a request takes.
        let kept = Arbitration { hold_ns: 100.0, ..with };
        assert!((kept.fresh_request_ns(&fetched) - (75.0 - 62.0 / 4.0)).abs() < 0.01);
        // A machine that does none of it.
        let plain = Fetched {
            load_of_pair: figure(70.0),
            load_and_add: figure(150.0),
            store: figure(75.0),
            ..fetched
        };
        let text = Arbitration { fetched: Some(plain), ..with }.text();
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

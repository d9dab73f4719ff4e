//! A closed queueing network with a station for each line, solved by mean value analysis.
//!
//! A thread alternates between computing outside, which takes the time Z, and visits to the lines of its steps.
//! A line serves one thread at a time. The time of a visit is the transfer from the CPU that had it last, by the
//! machine's mean latency between the CPUs of the threads, and the operation itself. A lock's line is busy until
//! its holder has finished. Nothing is fitted.
//!
//! Mean value analysis (M. Reiser and S. Lavenberg, 1980) then gives the throughput for each number of threads:
//! an arriving thread finds the queues as they are on average with one thread less.
//!
//! Whether a visit needs a transfer depends on whether other threads are present: the last visitor of an idle line may
//! have been the thread itself. So service times and queues are computed from each other until they agree.

use super::description::{Contention, Copies, Operation, Retry, Step};
use crate::machine::{Machine, NS, Ps};

/// The prediction for a number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Rounds per second of all threads.
    pub per_sec: f64,
    /// How long a thread takes for the steps of a round, on average, in nanoseconds.
    pub steps_ns: f64,
    /// How busy the busiest copy of each object is, from 0 to 1.
    pub busy: Vec<f64>,
}

/// A station, or equal copies of one. Each customer visits one copy, always the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// The time that a customer needs there in a round.
    pub demand: f64,
    /// The number of copies, each for an equal part of the customers.
    pub copies: usize,
}

/// The result of a mean value analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Rounds per unit of time of all customers.
    pub throughput: f64,
    /// How long a customer stays at each station in a round.
    pub stays: Vec<f64>,
}

/// Solves a closed network by mean value analysis, for customers that each spend `think` outside of the stations.
///
/// Exact if no station has copies, or if all have as many.
///
/// ```
/// use coreshard_sim::contend::queueing::{Station, solve};
///
/// // One station, no time outside: it is always busy.
/// assert_eq!(solve(&[Station { demand: 4.0, copies: 1 }], 0.0, 10).throughput, 0.25);
/// ```
#[must_use]
pub fn solve(stations: &[Station], think: f64, customers: usize) -> Solution {
    // By number of customers: the share of a customer's time that it is at its copy.
    let mut presence: Vec<Vec<f64>> = vec![vec![0.0; customers + 1]; stations.len()];
    let mut solution = Solution { throughput: 0.0, stays: vec![0.0; stations.len()] };
    for number in 1..=customers {
        for ((station, presence), stay) in stations.iter().zip(&presence).zip(&mut solution.stays) {
            // An arriving customer finds the others of its copy as they are with one less at each copy.
            let others = (number as f64 / station.copies as f64 - 1.0).max(0.0);
            let with_less = presence[number.saturating_sub(station.copies)];
            *stay = station.demand * (1.0 + others * with_less);
        }
        let cycle = (think + solution.stays.iter().sum::<f64>()).max(f64::MIN_POSITIVE);
        solution.throughput = number as f64 / cycle;
        for (presence, stay) in presence.iter_mut().zip(&solution.stays) {
            presence[number] = stay / cycle;
        }
    }
    solution
}

/// How often service times and queues are computed from each other, and the weight of the new values.
const ITERATIONS: usize = 40;
const DAMPING: f64 = 0.5;

/// Predicts a contention on a machine, with threads that compute for `outside_ns` between two rounds.
#[must_use]
pub fn predict(
    contention: &Contention,
    machine: &Machine,
    threads: usize,
    outside_ns: f64,
) -> Predicted {
    let network = Network::new(contention, machine, threads);
    let outside_ns = outside_ns * network.slowdown;
    let mut met = vec![0.0; contention.objects.len()];
    let mut solved = None;
    for _ in 0..ITERATIONS {
        let (demands, delay) = network.demands(&met);
        let stations = network.stations(&demands);
        let solution = solve(&stations, outside_ns + delay, threads);
        let cycle = threads as f64 / solution.throughput.max(f64::MIN_POSITIVE);
        for ((met, stay), group) in met.iter_mut().zip(&solution.stays).zip(&network.groups) {
            let absent = (1.0 - stay / cycle).clamp(0.0, 1.0);
            *met += DAMPING * (1.0 - absent.powf(group.sharers - 1.0) - *met);
        }
        solved = Some((solution, stations, delay));
    }
    let (solution, stations, delay) = solved.expect("there is an iteration");
    let busy = |it: &Station| (solution.throughput * it.demand / it.copies as f64).min(1.0);
    Predicted {
        per_sec: solution.throughput * 1e9,
        steps_ns: solution.stays.iter().sum::<f64>() + delay,
        busy: stations.iter().map(busy).collect(),
    }
}

/// The copies of an object.
struct Group {
    /// How many copies are in use.
    copies: usize,
    /// How many threads use the lines of one copy.
    sharers: f64,
    /// The mean transfer between their CPUs, in nanoseconds.
    transfer_ns: f64,
}

/// A contention on a machine, with a number of threads.
struct Network<'a> {
    contention: &'a Contention,
    groups: Vec<Group>,
    /// How many times longer a computation takes while the threads' CPUs are busy.
    slowdown: f64,
    atomic_ns: f64,
    hit_ns: f64,
    shared_read_ns: f64,
    far_atomic_ns: f64,
    hint_ns: f64,
    /// Waking a sleeping thread.
    wake_ns: f64,
}

/// The cost of a step: time at each object, and time that delays no other thread.
struct Cost {
    demands: Vec<f64>,
    delay: f64,
}

impl<'a> Network<'a> {
    fn new(contention: &'a Contention, machine: &Machine, threads: usize) -> Self {
        let costs = machine.costs();
        let ns = |ps: Ps| ps as f64 / NS as f64;
        let cpus = contention.cpus(machine);
        let used = &cpus[..threads.min(cpus.len())];
        let groups = contention
            .objects
            .iter()
            .map(|object| {
                let words_of_line = machine.line_bytes() / 8;
                let number_of = |at: usize| match object.copies {
                    Copies::One => 0,
                    Copies::PerShard(of_shard) => used[at] / of_shard,
                    // Copies that lie on one line share it.
                    Copies::PerThread => at * object.stride() / words_of_line,
                };
                Group::new(machine, used, number_of)
            })
            .collect();
        let slowdown = machine.slowdown(used);
        Self {
            contention,
            groups,
            slowdown,
            atomic_ns: slowdown * ns(costs.atomic + costs.compute),
            hit_ns: slowdown * ns(costs.l1_hit + costs.compute),
            shared_read_ns: ns(costs.shared_read),
            far_atomic_ns: ns(costs.arbitration.map_or(0, |its| its.far_atomic)),
            hint_ns: ns(costs.spin_hint),
            wake_ns: ns(costs.syscall + costs.futex + costs.wake + costs.ipi_send),
        }
    }

    fn stations(&self, demands: &[f64]) -> Vec<Station> {
        let of_group =
            |(demand, group): (&f64, &Group)| Station { demand: *demand, copies: group.copies };
        demands.iter().zip(&self.groups).map(of_group).collect()
    }

    /// Returns the demand at each object in a round, and the time that a thread spends elsewhere. `met` is the
    /// probability that a thread finds others at each object.
    fn demands(&self, met: &[f64]) -> (Vec<f64>, f64) {
        let mut all = vec![0.0; met.len()];
        let mut delay = 0.0;
        for step in &self.contention.steps {
            let cost = self.cost(step, met);
            let share = 1.0 / f64::from(step.every);
            all.iter_mut().zip(&cost.demands).for_each(|(sum, demand)| *sum += share * demand);
            delay += share * cost.delay;
        }
        (all, delay)
    }

    /// Returns how often a thread finds that another one has written a line since its own last access, and how
    /// often that another one has accessed it at all.
    fn lost(&self, object: usize, met: f64) -> (f64, f64) {
        let others = self.groups[object].sharers - 1.0;
        if others <= 0.0 {
            return (0.0, 0.0);
        }
        let (mut writes, mut accesses) = (0.0, 0.0);
        for step in &self.contention.steps {
            let share = 1.0 / f64::from(step.every);
            let is_of = |word: &&(usize, usize)| word.0 == object;
            let reads = step.reads.iter().filter(is_of).count() as f64;
            let inside = step.writes.iter().filter(is_of).count() as f64;
            let own = f64::from(u8::from(step.word.0 == object));
            let is_load = step.operation == Operation::Load;
            writes += share * (inside + if is_load { 0.0 } else { own });
            accesses += share * (inside + reads + own);
        }
        // Accesses by others between two by this thread: in turns if they meet, otherwise at random.
        let since = |events: f64| met * events.min(1.0) + (1.0 - met) * events / (1.0 + events);
        (since(others * writes / accesses), since(others))
    }

    fn cost(&self, step: &Step, met: &[f64]) -> Cost {
        let object = step.word.0;
        let (written, accessed) = self.lost(object, met[object]);
        let transfer = self.groups[object].transfer_ns;
        let mut cost = Cost { demands: vec![0.0; met.len()], delay: 0.0 };
        let demand = &mut cost.demands[object];
        let arrives = accessed * transfer;
        match step.operation {
            Operation::Load => {
                // The holder of a line answers one reader after the other.
                let answer = self.shared_read_ns.min(transfer);
                *demand = written * answer;
                cost.delay = self.hit_ns + written * (transfer - answer);
            }
            Operation::Store => {
                *demand = arrives;
                cost.delay = self.hit_ns;
            }
            Operation::Add if self.far_atomic_ns > 0.0 && accessed > 0.0 => {
                *demand = accessed * self.far_atomic_ns;
                cost.delay = self.atomic_ns;
            }
            Operation::Add => *demand = arrives + self.atomic_ns,
            Operation::Cas => {
                *demand = arrives + self.hit_ns + self.atomic_ns;
                if step.retry != Retry::AtOnce {
                    cost.delay = met[object] * self.hint_ns;
                }
            }
            Operation::ReadLock => {
                *demand = 2.0 * (arrives + self.atomic_ns);
                cost.delay = self.inside(step, met);
            }
            lock => {
                let (handover, more) = self.handover(lock, object, met[object]);
                *demand =
                    arrives + met[object] * handover + self.atomic_ns + self.inside(step, met);
                cost.delay = self.atomic_ns + met[object] * more;
            }
        }
        cost
    }

    /// Returns how long a contended lock is free before its next holder has it, beyond one transfer, and how
    /// long the waiter and the former holder are delayed otherwise.
    fn handover(&self, lock: Operation, object: usize, met: f64) -> (f64, f64) {
        let group = &self.groups[object];
        let transfer = group.transfer_ns;
        // Waiters read the word again, one after the other; the one that is next is in the middle.
        let readers = met * (group.sharers - 1.0).max(0.0) / 2.0 * self.shared_read_ns;
        match lock {
            // The store takes the line from the waiters, and the next holder fetches it.
            Operation::QueueLock => (transfer, 0.0),
            Operation::TicketLock => (transfer + readers, transfer),
            // Then it takes the line again, to write.
            Operation::SpinLock | Operation::WriteLock => (2.0 * transfer + readers, 0.0),
            // The holder pays for waking a thread, but takes the lock again before that thread runs.
            Operation::Mutex => (transfer, self.wake_ns),
            // The holder fetches a waiter's request, and writes that it is done.
            _ => (transfer, transfer),
        }
    }

    /// Returns how long a holder needs for its work: its lines come from the former holder, unless that does the
    /// work itself.
    fn inside(&self, step: &Step, met: &[f64]) -> f64 {
        let mut fetched = vec![step.word.0];
        let mut lines = 0.0;
        for (object, _) in step.writes.iter().chain(&step.reads) {
            // Spinning waiters take the lock's own line back.
            let is_spun_on = matches!(step.operation, Operation::SpinLock | Operation::TicketLock);
            if *object == step.word.0 && is_spun_on && !fetched[1..].contains(object) {
                lines += met[*object] * self.groups[*object].transfer_ns;
                fetched.push(*object);
            }
            if fetched.contains(object) || !self.contention.writes_to(*object) {
                continue;
            }
            fetched.push(*object);
            let (_, accessed) = self.lost(*object, met[step.word.0]);
            lines += accessed * self.groups[*object].transfer_ns;
        }
        if step.operation == Operation::Combine {
            lines *= 1.0 - met[step.word.0];
        }
        let hits = 2 * step.writes.len() + step.reads.len();
        self.slowdown * step.inside_ns + lines + hits as f64 * self.hit_ns
    }
}

impl Group {
    fn new(machine: &Machine, used: &[usize], number_of: impl Fn(usize) -> usize) -> Self {
        let count = machine.topology().cpus().len();
        let mut members: Vec<(usize, usize)> =
            used.iter().enumerate().map(|(at, cpu)| (number_of(at), *cpu)).collect();
        members.sort_unstable();
        let (mut copies, mut sum, mut pairs) = (0, 0.0, 0.0);
        for sharing in members.chunk_by(|one, other| one.0 == other.0) {
            copies += 1;
            for (_, one) in sharing {
                for (_, other) in sharing.iter().filter(|(_, other)| other != one) {
                    sum += machine.latency()[one * count + other] as f64 / NS as f64;
                    pairs += 1.0;
                }
            }
        }
        Self {
            copies: copies.max(1),
            sharers: used.len() as f64 / f64::from(copies.max(1) as u32),
            transfer_ns: if pairs > 0.0 { sum / pairs } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) {
        assert!((one / other - 1.0).abs() < 1e-9, "{one} is not {other}");
    }

    fn one(demand: f64) -> Station {
        Station { demand, copies: 1 }
    }

    #[test]
    fn a_single_station_saturates_at_the_inverse_of_its_service_time() {
        for customers in [1, 2, 30] {
            near(solve(&[one(4.0)], 0.0, customers).throughput, 0.25);
        }
        let solution = solve(&[one(4.0)], 36.0, 1_000);
        assert!((0.249..=0.25).contains(&solution.throughput), "{solution:?}");
    }

    #[test]
    fn without_a_station_customers_do_not_delay_each_other() {
        near(solve(&[], 50.0, 7).throughput, 7.0 / 50.0);
        near(solve(&[one(3.0), one(5.0)], 12.0, 1).throughput, 1.0 / 20.0);
    }

    /// N customers at K equal stations: X = N / (S (N + K − 1)).
    #[test]
    fn equal_stations_share_the_customers() {
        for (count, customers) in [(2, 3), (5, 8)] {
            let solution = solve(&vec![one(2.0); count], 0.0, customers);
            near(solution.throughput, customers as f64 / (2.0 * (customers + count - 1) as f64));
            near(solution.throughput * solution.stays.iter().sum::<f64>(), customers as f64);
        }
    }

    #[test]
    fn copies_are_networks_of_their_own() {
        for (copies, customers) in [(1, 7), (2, 6), (4, 20), (8, 8)] {
            let part = solve(&[one(3.0)], 10.0, customers / copies);
            let whole = solve(&[Station { demand: 3.0, copies }], 10.0, customers);
            near(whole.throughput, part.throughput * copies as f64);
        }
    }

    /// Two customers, one station: X(1) = 1 / (Z + S); Q(1) = X(1) S; X(2) = 2 / (Z + S (1 + Q(1))).
    #[test]
    fn two_customers_meet_as_often_as_the_formula_says() {
        let (think, service) = (6.0, 2.0);
        let queue = service / (think + service);
        near(solve(&[one(service)], think, 2).throughput, 2.0 / (think + service * (1.0 + queue)));
    }

    fn predicted(steps: &str, threads: usize, outside_ns: f64) -> Predicted {
        let text = format!("placement = \"compact\"\noutside_ns = 0\nsteps = [{steps}]");
        let contention = Contention::from_toml("it", &text).unwrap();
        let machine = Machine::from_toml("m", include_str!("../machine/pocket.toml")).unwrap();
        predict(&contention, &machine, threads, outside_ns)
    }

    #[test]
    fn a_lone_thread_pays_no_transfer() {
        let alone = predicted("{ add = \"it\" }", 1, 93.08);
        near(alone.per_sec, 1e9 / 100.0);
        near(alone.steps_ns, 6.92);
    }

    #[test]
    fn a_counter_serves_an_add_for_each_transfer() {
        let machine = Machine::pocket();
        let contention =
            Contention::from_toml("it", "outside_ns = 0\nsteps = [{ add = \"it\" }]").unwrap();
        let cpus = contention.cpus(&machine);
        let of = |at: usize| machine.topology().cpus()[at].id;
        let mut sum = 0.0;
        for one in &cpus {
            let others = cpus.iter().filter(|other| *other != one);
            sum +=
                others.map(|other| machine.latency_ns(of(*one), of(*other)).unwrap()).sum::<f64>();
        }
        let mean = sum / (cpus.len() * (cpus.len() - 1)) as f64;
        let all = predict(&contention, &machine, cpus.len(), 0.0);
        assert!((all.per_sec * (mean + 6.92) / 1e9 - 1.0).abs() < 0.01, "{all:?}, transfer {mean}");
        assert!(all.busy[0] > 0.99, "{all:?}");
    }

    /// Of 16 CPUs of a core pair each: 16 share cores, and all cores are busy.
    #[test]
    fn busy_cores_are_as_slow_as_the_machines_file_says() {
        let text = format!(
            "{}\n[costs.cores]\nall_core_clock = 0.8\nsmt_share = 0.7\nsource = \"assumed\"\n",
            include_str!("../machine/pocket.toml")
        );
        let machine = Machine::from_toml("m", &text).unwrap();
        near(machine.slowdown(&[0]), 1.0);
        near(machine.slowdown(&[0, 1]), 1.0 / 0.7);
        let all: Vec<usize> = (0..16).collect();
        near(machine.slowdown(&all), 1.0 / 0.7 / 0.8);
        let alone =
            Contention::from_toml("it", "outside_ns = 0\nsteps = [{ load = \"it\" }]").unwrap();
        let rate = predict(&alone, &machine, 16, 98.46).per_sec;
        near(rate, 16e9 * 0.7 * 0.8 / 100.0);
    }

    #[test]
    fn readers_of_a_constant_do_not_delay_each_other() {
        let [one, eight] = [1, 8].map(|threads| predicted("{ load = \"it\" }", threads, 100.0));
        near(eight.per_sec, 8.0 * one.per_sec);
    }

    #[test]
    fn a_lock_is_as_slow_as_its_holder() {
        let held = "{ ticket-lock = \"it\", inside_ns = 1000 }";
        let [one, sixteen] = [1, 16].map(|threads| predicted(held, threads, 0.0));
        assert!(one.per_sec < 1e6 && sixteen.per_sec < one.per_sec, "{one:?} {sixteen:?}");
        assert!(sixteen.per_sec > 0.5 * one.per_sec, "{one:?} {sixteen:?}");
        near(sixteen.steps_ns * sixteen.per_sec / 1e9, 16.0);
    }

    #[test]
    fn words_of_several_threads_on_one_line_are_as_slow_as_one_word() {
        let read = |text: &str| Contention::from_toml("it", text).unwrap();
        let steps = "outside_ns = 0\nplacement = \"compact\"\nsteps = [{ add = \"it\" }]";
        let (shared, own) = (read(steps), read(&format!("per_thread = [\"it\"]\n{steps}")));
        let mut padded = own.clone();
        padded.objects[0].is_padded = true;
        let machine = Machine::pocket();
        let of = |contention| predict(contention, &machine, 8, 0.0).per_sec;
        near(of(&shared), of(&own));
        near(of(&padded), 8e9 / 6.92);
    }
}

//! A model of a host bus adapter: many CPUs, a few devices, and the state that they share for each request.
//!
//! Each job runs on its own CPU and keeps its requests in flight. For each request it computes for a while
//! (the path through a kernel), takes a tag of the host's set, and counts the request as issued. The adapter
//! serves each request in a fixed time and is never the bottleneck. Then a chosen CPU is interrupted and
//! counts the request as done, and the submitter releases the tag. The tag set, its accounting and the counters belong
//! to the block layer.
//!
//! A run draws the CPUs of the jobs and, for memory on any node, the node of the device's state. The draws of
//! a run are the same for every variant. Two numbers are fitted to published figures: the computing time of a
//! request, and the number of devices. Everything else follows from the machine's costs.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_block::{
    CounterLayout, DeviceCounters, DeviceMemory, Outcome, Tag, TagPolicy, TagPort, TagSet,
    TagSetSpec, ThreadCounters,
};
use coreshard_platform::{AtomicInt, Padded, Platform, Time};
use coreshard_results::{HbaResults, HbaRow, Interrupts, Published, Repeats, SeedSpreads};
use coreshard_topology::{CoreId, CpuId, NodeId};

use crate::crew::Crew;
use crate::error::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Progress;

/// A layout of tags and counters, and the node of their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HbaVariant {
    /// How shared tags are accounted.
    pub tags: TagPolicy,
    /// How the device's counters are laid out.
    pub counters: CounterLayout,
    /// Where both are allocated.
    pub memory: DeviceMemory,
}

impl HbaVariant {
    /// The published variants in their order, and the variants that the review requested.
    pub const ALL: [Self; 5] = {
        use CounterLayout::{Packed, Padded, PerCpu};
        use DeviceMemory::{AnyNode, NodeLocal};
        const fn of(tags: TagPolicy, counters: CounterLayout, memory: DeviceMemory) -> HbaVariant {
            HbaVariant { tags, counters, memory }
        }
        [
            of(TagPolicy::Packed, Packed, AnyNode),
            of(TagPolicy::Padded, Padded, AnyNode),
            of(TagPolicy::Padded, Padded, NodeLocal),
            of(TagPolicy::Windowed { shared_pct: 50 }, PerCpu, NodeLocal),
            of(TagPolicy::None, PerCpu, NodeLocal),
        ]
    };

    /// Returns the figures of the patch series "scsi/block: NUMA-local allocation" (2026), on an unnamed
    /// machine with two sockets: random reads of 4 K, 16 jobs, 64 requests in flight each.
    pub fn published(&self) -> Option<Published> {
        let figures = |kiops, kiops_min, kiops_max, spread_pct| {
            Some(Published { kiops, kiops_min, kiops_max, spread_pct })
        };
        match (self.tags, self.memory) {
            (TagPolicy::Packed, DeviceMemory::AnyNode) => figures(6_255.0, 4_200.0, 6_700.0, 37.0),
            (TagPolicy::Padded, DeviceMemory::AnyNode) => figures(6_653.0, 6_000.0, 7_000.0, 15.0),
            (TagPolicy::Padded, DeviceMemory::NodeLocal) => figures(6_649.0, 6_400.0, 7_000.0, 9.0),
            _ => None,
        }
    }
}

/// The benchmark of the adapter model.
#[derive(Clone, Debug)]
pub struct HbaBench {
    /// The variants.
    pub variants: Vec<HbaVariant>,
    /// The number of jobs, each on its own CPU.
    pub jobs: usize,
    /// The number of devices behind the adapter; jobs take them in turn.
    pub devices: usize,
    /// Requests in flight per job.
    pub depth: u32,
    /// Requests of a job in a run.
    pub requests: u64,
    /// Runs of each variant.
    pub runs: NonZeroUsize,
    /// The seed of the draws.
    pub seed: u64,
    /// The adapter's node.
    pub adapter: NodeId,
    /// Which CPUs are interrupted by completions.
    pub interrupts: Interrupts,
    /// The computing time of a request on the submitting CPU, including its completion there.
    pub submit: Duration,
    /// The computing time of a request on the interrupted CPU.
    pub interrupt: Duration,
    /// The adapter's service time.
    pub service: Duration,
    /// Lets a platform's thread compute for a while, without accessing memory.
    pub compute: fn(Duration),
}

/// The lines that a job and its interrupted CPU share: one for each direction.
struct Mailbox<P: Platform> {
    submitted: Padded<P::AtomicU64>,
    completed: Padded<P::AtomicU64>,
    /// The time when each request's service ends, by its number modulo the depth.
    due_ns: Box<[P::AtomicU64]>,
}

/// The draws of a run.
struct Draw {
    jobs: Vec<CpuId>,
    interrupts: Vec<CpuId>,
    any_node: NodeId,
}

impl HbaBench {
    /// Runs the experiment: in each run every variant has its turn.
    ///
    /// # Errors
    /// If the machine has too few cores or nodes, if a thread cannot be started, or if there is not enough
    /// memory.
    pub fn run<P: Platform>(
        &self,
        machine: &BenchMachine,
        progress: &mut dyn Progress,
    ) -> Result<HbaResults, BenchError> {
        progress.begin(self.runs.get());
        let mut dice = fastrand::Rng::with_seed(self.seed);
        let mut iops: Vec<Vec<f64>> = vec![Vec::new(); self.variants.len()];
        for run in 0..self.runs.get() {
            if progress.step(&format!("adapter, run {}", run + 1)).is_break() {
                break;
            }
            let draw = self.draw(machine, &mut dice)?;
            for (variant, iops) in self.variants.iter().zip(&mut iops) {
                iops.push(self.turn::<P>(*variant, &draw)?);
            }
        }
        let rows = self.variants.iter().zip(iops).map(|(variant, iops)| HbaRow {
            tags: variant.tags.to_string(),
            counters: variant.counters.to_string(),
            memory: variant.memory.to_string(),
            runs: Repeats::new("adapter", iops),
            published: variant.published(),
            seeds: SeedSpreads::default(),
        });
        Ok(HbaResults {
            machine: machine.name.clone(),
            platform: machine.platform.clone(),
            jobs: self.jobs,
            devices: self.devices,
            depth: self.depth,
            interrupts: self.interrupts,
            rows: rows.collect(),
            notes: Vec::new(),
        })
    }

    fn draw(&self, machine: &BenchMachine, dice: &mut fastrand::Rng) -> Result<Draw, BenchError> {
        let topology = &machine.topology;
        // One CPU per core: a core with an idle sibling would be faster than one with a busy sibling.
        let mut seen: Vec<CoreId> = Vec::new();
        let usable = topology.cpus().iter().filter(|cpu| machine.usable.contains(cpu.id));
        let first = usable.filter(|cpu| {
            let is_new = !seen.contains(&cpu.core);
            seen.push(cpu.core);
            is_new
        });
        let mut cores: Vec<CpuId> = first.map(|cpu| cpu.id).collect();
        dice.shuffle(&mut cores);
        let on_adapter = topology.cpus_of_node(self.adapter);
        let mut interrupts: Vec<CpuId> = Vec::new();
        if self.interrupts == Interrupts::AdapterNode {
            // The same CPUs in each run, as a driver would choose them.
            let mut all: Vec<CpuId> =
                cores.iter().copied().filter(|cpu| on_adapter.contains(*cpu)).collect();
            all.sort();
            interrupts = all.into_iter().take(self.jobs).collect();
            cores.retain(|cpu| !interrupts.contains(cpu));
        }
        let wants_interrupts = self.interrupts == Interrupts::AdapterNode;
        if cores.len() < self.jobs || wants_interrupts && interrupts.len() < self.jobs {
            return Err(BenchError::bad_job(format!(
                "{} jobs and as many interrupted CPUs need more cores than {} has",
                self.jobs, machine.name
            )));
        }
        cores.truncate(self.jobs);
        let nodes = topology.node_ids();
        let any_node = nodes[dice.usize(..nodes.len())];
        Ok(Draw { jobs: cores, interrupts, any_node })
    }

    /// Runs one variant's turn. Returns requests per second.
    fn turn<P: Platform>(&self, variant: HbaVariant, draw: &Draw) -> Result<f64, BenchError> {
        let node = match variant.memory {
            DeviceMemory::AnyNode => Some(draw.any_node),
            DeviceMemory::NodeLocal => Some(self.adapter),
        };
        let failed = |error: &dyn std::fmt::Display| BenchError::failed_job(error.to_string());
        let spec = TagSetSpec {
            // Twice as many as can be in flight: tags are never short, only accounted.
            depth: 2 * self.jobs as u32 * self.depth,
            policy: variant.tags,
            threads: self.jobs as u32,
            node,
            ..TagSetSpec::default()
        };
        let set = Arc::new(TagSet::<P>::new(spec).map_err(|error| failed(&error))?);
        // The kernel's state for each device: its user of the tags, and its counters.
        let mut devices = Vec::new();
        for _ in 0..self.devices.clamp(1, self.jobs) {
            let user = set.add_user_on(node).map_err(|error| failed(&error))?;
            let counters = DeviceCounters::<P>::new(variant.counters, 2 * self.jobs, node);
            devices.push((user, Arc::new(counters.map_err(|error| failed(&error))?)));
        }
        let device = |job: usize| &devices[job % devices.len()];
        let counters =
            |job, at| device(job).1.for_thread(at).expect("each thread has its own counters");
        let mut crew = Crew::<P>::new(self.jobs + draw.interrupts.len());
        for job in 0..self.jobs {
            let mailbox = Arc::new(Mailbox::<P> {
                submitted: Padded::new(P::AtomicU64::new(0)),
                completed: Padded::new(P::AtomicU64::new(0)),
                due_ns: (0..self.depth).map(|_| P::AtomicU64::new(0)).collect(),
            });
            if let Some(cpu) = draw.interrupts.get(job) {
                let (bench, mailbox) = (self.clone(), Arc::clone(&mailbox));
                let counters = counters(job, self.jobs + job);
                let serve = move || bench.serve::<P>(&mailbox, &counters);
                crew.spawn_on(*cpu, format!("cpu-{cpu}"), serve)?;
            }
            let (bench, port, counters) = (self.clone(), device(job).0.port(), counters(job, job));
            let cpu = draw.jobs[job];
            let submit = move || bench.submit_all::<P>(&mailbox, port, &counters);
            crew.spawn_on(cpu, format!("cpu-{cpu}"), submit)?;
        }
        let elapsed_ns = crew.run().elapsed_ns;
        let all = self.requests * self.jobs as u64;
        let counts = devices.iter().map(|(_, counters)| counters.read());
        let sums = counts.fold((0, 0), |sum, one| (sum.0 + one.issued, sum.1 + one.done));
        assert_eq!(sums, (all, all), "after all requests, issued equals done");
        Ok(all as f64 * 1e9 / elapsed_ns as f64)
    }

    /// The body of a job: keeps `depth` requests in flight.
    fn submit_all<P: Platform>(
        &self,
        mailbox: &Mailbox<P>,
        mut port: TagPort<P>,
        counters: &ThreadCounters<P>,
    ) {
        let mut tags: VecDeque<Tag> = VecDeque::with_capacity(self.depth as usize);
        let (mut issued, mut over) = (0_u64, 0_u64);
        while over < self.requests {
            let before = issued + over;
            if issued < self.requests && issued - over < u64::from(self.depth) {
                (self.compute)(self.submit);
                tags.push_back(
                    port.get().expect("there are twice as many tags as requests in flight"),
                );
                counters.issued();
                let due = P::now() + self.service;
                let place = (issued % u64::from(self.depth)) as usize;
                mailbox.due_ns[place].store(due.as_ns(), Relaxed);
                issued += 1;
                if self.interrupts == Interrupts::AdapterNode {
                    mailbox.submitted.store(issued, Release);
                }
            }
            let completed = match self.interrupts {
                Interrupts::AdapterNode => mailbox.completed.load(Acquire),
                Interrupts::Submitter => {
                    let mut completed = over;
                    while completed < issued && self.is_due(mailbox, completed) {
                        (self.compute)(self.interrupt);
                        counters.done(Outcome::Success);
                        completed += 1;
                    }
                    completed
                }
            };
            while over < completed {
                port.put(tags.pop_front().expect("a request in flight has a tag"));
                over += 1;
            }
            if issued + over == before {
                P::spin_hint();
            }
        }
    }

    fn is_due<P: Platform>(&self, mailbox: &Mailbox<P>, request: u64) -> bool {
        let place = (request % u64::from(self.depth)) as usize;
        P::now() >= Time::from_ns(mailbox.due_ns[place].load(Relaxed))
    }

    /// The body of the CPU that is interrupted for a job.
    fn serve<P: Platform>(&self, mailbox: &Mailbox<P>, counters: &ThreadCounters<P>) {
        let (mut completed, mut submitted) = (0, 0);
        while completed < self.requests {
            if completed == submitted {
                submitted = mailbox.submitted.load(Acquire);
            }
            if completed < submitted && self.is_due(mailbox, completed) {
                (self.compute)(self.interrupt);
                counters.done(Outcome::Success);
                completed += 1;
                mailbox.completed.store(completed, Release);
            } else {
                P::spin_hint();
            }
        }
    }

    /// Returns the published experiment, with the platform's `compute`.
    ///
    /// The unpublished numbers (devices, computing time of a request) are fitted so that the last published
    /// variant comes near its average.
    pub fn published(compute: fn(Duration)) -> Self {
        Self {
            variants: HbaVariant::ALL.to_vec(),
            jobs: 16,
            devices: 4,
            depth: 64,
            requests: 600,
            runs: NonZeroUsize::new(10).expect("10 is not 0"),
            seed: 0,
            adapter: NodeId(0),
            interrupts: Interrupts::default(),
            submit: Duration::from_nanos(900),
            interrupt: Duration::from_nanos(300),
            service: Duration::from_micros(20),
            compute,
        }
    }
}

//! Coreshard's queue, as a user's program calls it.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard_sim::{Machine, Sim};
use coreshard_topology::{CpuSet, Scope};
use coreshard_workqueue::{Runtime, Team, Workqueue, join};

use crate::body::Body;
use crate::executor::{Executor, Items};
use crate::program::{Piece, Program};

pub(crate) struct Coreshard(Workqueue<Sim>);

impl Coreshard {
    /// `None` for the default scope.
    pub(crate) fn start(machine: &Machine, cpus: &CpuSet, scope: Option<Scope>) -> Self {
        let runtime = Runtime::<Sim>::builder(machine.topology().clone())
            .build()
            .expect("the CPUs are online");
        let queue = runtime.workqueue().name("scaling").cpu_mask(cpus.clone());
        let queue = scope.into_iter().fold(queue, |queue, scope| queue.scope(scope));
        Self(queue.build().expect("the CPUs are online"))
    }
}

impl Executor for Coreshard {
    fn submit(&self, items: &Arc<Items>) {
        let items = Arc::clone(items);
        self.0.queue(move || items.run()).expect("the queue is open");
    }

    fn run_loop(&self, elements: u32, body: &Body) -> bool {
        self.0.for_each_range(0..elements as usize, on_pieces(body)).expect("the queue is open");
        true
    }

    fn run_program(&self, program: Program) -> bool {
        self.0.install(|| call(program, program.root)).expect("the queue is open");
        true
    }

    fn end(&self) {
        self.0.shutdown(Duration::from_secs(1)).expect("nothing runs any more");
    }
}

fn on_pieces(body: &Body) -> impl Fn(Range<usize>) + Sync {
    |piece| body.run(piece.start as u32..piece.end as u32)
}

/// Coreshard's team. Each member does the same share of a loop each time.
pub(crate) struct OurTeam(Mutex<Option<Team<Sim>>>);

impl OurTeam {
    /// `None` for the default scope.
    pub(crate) fn start(machine: &Machine, members: usize, scope: Option<Scope>) -> Self {
        let runtime = Runtime::<Sim>::builder(machine.topology().clone())
            .build()
            .expect("the CPUs are online");
        let team = runtime.team("scaling").members(members);
        let team = scope.into_iter().fold(team, |team, scope| team.scope(scope));
        Self(Mutex::new(Some(team.build().expect("the machine has room for the threads"))))
    }

    fn team(&self) -> Team<Sim> {
        self.0.lock().expect("no thread panics").clone().expect("it has not ended")
    }
}

impl Executor for OurTeam {
    fn submit(&self, items: &Arc<Items>) {
        let items = Arc::clone(items);
        self.team().spawn(move || items.run());
    }

    fn run_loop(&self, elements: u32, body: &Body) -> bool {
        self.team().for_each_range(0..elements as usize, on_pieces(body));
        true
    }

    fn run_program(&self, program: Program) -> bool {
        self.team().install(|| call(program, program.root));
        true
    }

    fn end(&self) {
        self.0.lock().expect("no thread panics").take();
    }
}

fn call(program: Program, piece: Piece) {
    if let Some([left, right]) = program.split(piece) {
        join::<Sim, _, _>(|| call(program, left), || call(program, right));
    }
}

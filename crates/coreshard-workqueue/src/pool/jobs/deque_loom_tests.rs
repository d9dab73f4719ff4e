//! Models of the stack of forked jobs. Each was seen to fail when the ordering or the step that
//! its comment names was changed.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use coreshard_platform::{DataCell, Platform};

use super::deque::{Deque, Owner, Popped};
use crate::base::latch::Latch;
use coreshard_platform::Loom;

/// A job that its runner marks once, without a lock: loom reports two concurrent runners.
struct Job {
    runs: <Loom as Platform>::Cell<u32>,
    done: Latch<Loom>,
}

impl Job {
    fn new() -> Box<Self> {
        Box::new(Self { runs: DataCell::new(0), done: Latch::new() })
    }

    fn run(&self) {
        // SAFETY: the taker of a job has it alone; that is what the model checks.
        self.runs.with_mut(|runs| unsafe { *runs += 1 });
    }

    fn count(&self) -> u32 {
        // SAFETY: as above.
        self.runs.with(|runs| unsafe { *runs })
    }
}

type Stack = Deque<Loom, Job>;

fn push(owner: &Owner, stack: &Stack, job: &Job) {
    assert_ne!(owner.push(stack, NonNull::from(job)), super::Pushed::Full);
}

/// The owner pops its youngest job, or waits for the thief. After that, no thread may touch the job, which stands for its
/// frame.
fn join(owner: &Owner, stack: &Stack, job: &Job) {
    match owner.pop(stack) {
        Popped::Own => job.run(),
        Popped::Stolen => {
            while !job.done.is_open() {
                loom::thread::yield_now();
            }
        }
    }
    assert_eq!(job.count(), 1, "each job is run once");
}

fn steal(stack: &Stack) -> bool {
    let Some(job) = stack.steal() else { return false };
    // SAFETY: the owner keeps a stolen job until it has finished.
    let job = unsafe { job.as_ref() };
    job.run();
    // SAFETY: as above; not used after this.
    unsafe { Latch::open(&raw const job.done) };
    true
}

/// Two nested jobs, one thief: each job runs once, on a thread that sees it fully written.
///
/// Fails with `share`'s addition weakened to `Relaxed`, with `take_back` made a load and a store, and with `pop` that does not
/// take back shared jobs.
#[test]
fn loom_a_job_is_run_by_its_owner_or_by_one_thief() {
    Loom::check(3, || {
        let stack = Arc::new(Stack::new());
        let thief = {
            let stack = Arc::clone(&stack);
            loom::thread::spawn(move || {
                steal(&stack);
                steal(&stack);
            })
        };
        let owner = Owner::default();
        let (outer, inner) = (Job::new(), Job::new());
        push(&owner, &stack, &outer);
        push(&owner, &stack, &inner);
        join(&owner, &stack, &inner);
        join(&owner, &stack, &outer);
        thief.join().unwrap();
        assert!(!stack.has_shared());
    });
}

/// One job after the other in the same place, represented by the same word, and two thieves: neither runs the job that was
/// popped.
///
/// Fails with a word that does not count how often places were taken back.
#[test]
fn loom_a_place_that_is_used_again_gives_its_thief_the_job_that_is_there_now() {
    Loom::check(3, || {
        let stack = Arc::new(Stack::new());
        let thieves: Vec<_> = (0..2)
            .map(|_| {
                let stack = Arc::clone(&stack);
                loom::thread::spawn(move || {
                    steal(&stack);
                })
            })
            .collect();
        let owner = Owner::default();
        let jobs = [Job::new(), Job::new()];
        for job in &jobs {
            push(&owner, &stack, job);
            join(&owner, &stack, job);
        }
        thieves.into_iter().for_each(|thief| thief.join().unwrap());
        assert!(!stack.has_shared());
        assert!(jobs.iter().all(|job| job.count() == 1), "none is run after it was joined");
    });
}

/// The owner runs a subtask of one job, and then a subtask of another, each with a forked job in the same place. A thief that
/// asks for subtasks of the first job gets no subtask of the second.
///
/// Fails with `share`'s addition weakened to `Relaxed`, and if `begins_with_part_of` is called only once, before
/// the word is read.
#[test]
fn loom_who_asks_for_a_part_gets_a_part_of_that() {
    Loom::check(3, || {
        let stack = Arc::new(Stack::new());
        let jobs = Arc::new([Job::new(), Job::new()]);
        let thief = {
            let (stack, jobs) = (Arc::clone(&stack), Arc::clone(&jobs));
            loom::thread::spawn(move || {
                let Some(job) = stack.steal_part_of(1) else { return };
                assert!(std::ptr::eq(job.as_ptr(), &*jobs[0]), "a part of something else");
                jobs[0].run();
                // SAFETY: as in `steal`.
                unsafe { Latch::open(&raw const jobs[0].done) };
            })
        };
        let owner = Owner::default();
        for (whole, job) in (1..).zip(jobs.iter()) {
            let before = owner.begin_whole(&stack, whole);
            assert_eq!(owner.push_shared(&stack, NonNull::from(&**job)), super::Pushed::Shared);
            join(&owner, &stack, job);
            owner.end_whole(&stack, before);
        }
        thief.join().unwrap();
        assert!(jobs.iter().all(|job| job.count() == 1));
    });
}

/// Jobs that were on the stack before the owner began a subtask of a root job are not subtasks of that root.
///
/// Fails with `begins_with_part_of` that ignores the first place of the subtasks.
#[test]
fn loom_a_job_pushed_before_a_root_job_is_not_its_subtask() {
    Loom::check(3, || {
        let stack = Arc::new(Stack::new());
        let jobs = Arc::new([Job::new(), Job::new()]);
        let thief = {
            let (stack, jobs) = (Arc::clone(&stack), Arc::clone(&jobs));
            loom::thread::spawn(move || {
                let Some(job) = stack.steal_part_of(1) else { return };
                assert!(std::ptr::eq(job.as_ptr(), &*jobs[1]), "the job pushed before");
                jobs[1].run();
                // SAFETY: as in `steal`.
                unsafe { Latch::open(&raw const jobs[1].done) };
            })
        };
        let owner = Owner::default();
        push(&owner, &stack, &jobs[0]);
        let before = owner.begin_whole(&stack, 1);
        assert_ne!(owner.push_shared(&stack, NonNull::from(&*jobs[1])), super::Pushed::Full);
        join(&owner, &stack, &jobs[1]);
        owner.end_whole(&stack, before);
        join(&owner, &stack, &jobs[0]);
        thief.join().unwrap();
    });
}

/// Spawned subtasks are popped from the youngest on, or all stolen from the oldest on.
///
/// Fails with `pop_above` that pops only one stolen job.
#[test]
fn loom_spawned_parts_are_run_once_each() {
    Loom::check(3, || {
        let stack = Arc::new(Stack::new());
        let jobs = [Job::new(), Job::new(), Job::new()];
        let thief = {
            let stack = Arc::clone(&stack);
            loom::thread::spawn(move || {
                steal(&stack);
                steal(&stack);
                steal(&stack);
            })
        };
        let owner = Owner::default();
        push(&owner, &stack, &jobs[0]);
        for job in &jobs[1..] {
            assert_ne!(owner.push_shared(&stack, NonNull::from(&**job)), super::Pushed::Full);
        }
        while let Some(Some(job)) = owner.pop_above(&stack, 1) {
            // SAFETY: the jobs live until the end of the model.
            unsafe { job.as_ref() }.run();
        }
        assert_eq!(owner.depth(), 1);
        join(&owner, &stack, &jobs[0]);
        thief.join().unwrap();
        assert!(jobs.iter().all(|job| job.count() == 1), "each is run once");
    });
}

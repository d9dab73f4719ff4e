//! Small programs for sweeps, which let the first call of a kind fail, then the second, and so on. Each uses
//! one part of the workqueue in the same way each time.
//!
//! Rules for them:
//!
//! 1. Accepted items must run even if no other item follows: no program queues items to wake workers. Waiting
//!    is sleeping and checking the [`Record`].
//! 2. A refused call is repeated until it succeeds, for longer than any failure lasts. If the item itself was
//!    returned, that suffices.
//! 3. Code that may panic is called inside a net.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::{Platform, ThreadHandle, ThreadSpec, user};
use coreshard_topology::Scope;
use coreshard_workqueue::{
    Hooks, MissedTick, Periodic, Work, Workqueue, blocking as blocking_call, join, yield_now,
};

use super::record::{Owned, Record};
use super::stage::{Stage, discard, item_of, put, us};

pub(super) fn blocking<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(1, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder)?;
    waiting_items(stage, &queue)
}

pub(super) fn one_cpu<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    // It may be refused: the threads then stay where they are.
    let _ = P::set_affinity(&stage.cpus(1));
    blocking(stage)
}

pub(super) fn rescuer<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(2, |builder| builder.max_workers(1))?;
    let queue = stage.queue(&runtime, |builder| builder.rescuer(true))?;
    waiting_items(stage, &queue)
}

/// Queues items that wait, so that others need a worker. Some announce the wait, and wait longer than the
/// monitor's scan; others do not, and wait longer than the monitor takes to notice.
fn waiting_items<P: Platform>(stage: &Stage<'_, P>, queue: &Workqueue<P>) -> Result<(), String> {
    for round in stage.rounds() {
        let step = us(round as u64 % 7 * 150);
        stage.put(queue, move || blocks::<P>(us(3_900) + step));
        stage.put(queue, || ());
        stage.put(queue, move || blocks::<P>(us(200) + step));
        stage.put(queue, || P::sleep(us(9_000)));
        stage.put(queue, || ());
        stage.settle()?;
    }
    Ok(())
}

/// Waits, and announces it.
fn blocks<P: Platform>(time: Duration) {
    blocking_call::<P, _>(|| P::sleep(time));
}

pub(super) fn hooks<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder.idle_timeout(us(150)))?;
    let (starts, stops) = (Arc::clone(stage.record()), Arc::clone(stage.record()));
    let hooks = Hooks::new().on_start(move |_| starts.call()).on_stop(move |_| stops.call());
    let queue =
        stage.queue(&runtime, |builder| builder.scope(Scope::Smt).nice(5).hooks(hooks.clone()))?;
    for round in stage.rounds() {
        for cpu in stage.cpus(4).iter() {
            let record = stage.record();
            let item = record.offer();
            let work = item_of(record, item, move || P::sleep(us(40)));
            let answer = queue.queue_on(cpu, work);
            record.answer(item, answer.is_ok());
            discard(answer);
        }
        stage.settle()?;
        P::sleep(us(100 + round as u64 % 3 * 100));
    }
    drop(queue);
    Ok(())
}

pub(super) fn handles<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder.scope(Scope::Cache))?;
    let mut threads = Vec::new();
    for producer in 0..3_u32 {
        let (queue, record) = (queue.clone(), Arc::clone(stage.record()));
        let rounds = stage.rounds().len();
        let body = move || {
            for round in 0..rounds {
                let item = record.offer();
                let inner = (queue.clone(), Arc::clone(&record));
                let work = item_of(&record, item, move || {
                    let (queue, record) = inner;
                    put(&record, &queue, || P::sleep(us(15)));
                    if round % 3 == 1 {
                        blocks::<P>(us(60));
                    }
                });
                let handle = queue.submit(work);
                record.answer(item, handle.is_ok());
                drop(user::call(|| handle.map(|handle| discard(handle.join()))));
            }
        };
        let spec = ThreadSpec { name: format!("producer {producer}"), ..ThreadSpec::default() };
        threads.extend(P::spawn(spec, Box::new(body)));
    }
    threads.into_iter().for_each(ThreadHandle::join);
    stage.settle()
}

pub(super) fn periodic<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(2, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder)?;
    for round in stage.rounds() {
        let ticks = Arc::new(AtomicU32::new(0));
        let periodic = stage.until_done("periodic work", || {
            let (record, ticks) = (Arc::clone(stage.record()), Arc::clone(&ticks));
            let owned = Owned(Arc::clone(stage.record()));
            Periodic::start(&queue, us(400), MissedTick::Skip, move || {
                let _owned = &owned;
                ticks.fetch_add(1, SeqCst);
                record.call();
            })
        })?;
        let late = stage.record().offer();
        let work = stage.work(late);
        let accepted = work.queue_after(&queue, us(700)).is_ok();
        stage.record().answer(late, accepted);
        P::sleep(us(2_000));
        stage.until_done("the next tick", || {
            if ticks.load(SeqCst) >= 3 { Ok(()) } else { Err("no tick came") }
        })?;
        stage.settle()?;
        periodic.stop_and_wait().map_err(|error| error.to_string())?;
        let last = ticks.load(SeqCst);
        if round % 2 == 0 {
            P::sleep(us(900));
        }
        if ticks.load(SeqCst) != last {
            return Err("a tick came after periodic work was stopped".to_owned());
        }
        discard(periodic);
        discard(work);
    }
    Ok(())
}

pub(super) fn limits<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    let ordered = stage.queue(&runtime, |builder| builder.ordered())?;
    let narrow = stage.queue(&runtime, |builder| builder.max_active(2))?;
    for _ in stage.rounds() {
        for queue in [&ordered, &narrow] {
            stage.put(queue, || blocks::<P>(us(300)));
            stage.put(queue, || P::sleep(us(50)));
            let item = stage.record().offer();
            let work = stage.work(item);
            let accepted = work.queue(queue).is_ok_and(|queued| queued);
            stage.record().answer(item, accepted);
            let cancelled = stage.record().offer();
            let other = stage.work(cancelled);
            stage.record().cancel(cancelled);
            let _ = other.queue(queue);
            stage.put(queue, || ());
            other.cancel();
            work.flush().map_err(|error| error.to_string())?;
            other.flush().map_err(|error| error.to_string())?;
            discard((work, other));
        }
        stage.settle()?;
    }
    Ok(())
}

pub(super) fn scopes<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder)?;
    for _ in stage.rounds() {
        let record = stage.record();
        let seen = AtomicU32::new(0);
        let scoped = || {
            queue.scope(|scope| {
                for _ in 0..3 {
                    let item = record.offer();
                    let (queue, seen) = (&queue, &seen);
                    let answer = scope.queue(move || {
                        let _running = record.begin(item);
                        let _owned = Owned(Arc::clone(record));
                        record.call();
                        queue.scope(|scope| {
                            let item = record.offer();
                            let answer = scope.queue(move || {
                                let _running = record.begin(item);
                                seen.fetch_add(1, SeqCst);
                                P::sleep(us(20));
                                record.call();
                            });
                            record.answer(item, answer.is_ok());
                        });
                    });
                    record.answer(item, answer.is_ok());
                }
            });
        };
        discard(user::call(scoped));
        if record.unfinished() > 0 {
            return Err("a scope returned before its items had finished".to_owned());
        }
    }
    Ok(())
}

pub(super) fn forks<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder.scope(Scope::Cache))?;
    for _ in stage.rounds() {
        let record = stage.record();
        let leaves: Vec<_> = (0..16).map(|_| AtomicU32::new(0)).collect();
        let tree = user::call(|| queue.install(|| tree::<P>(record, &leaves)));
        let whole = matches!(&tree, Ok(Ok(())));
        discard(tree);
        let mut numbers = [0_u32; 24];
        let each = |number: &mut u32| {
            *number += 1;
            record.call();
            (0..30).for_each(|_| P::spin_hint());
        };
        let done = user::call(|| queue.for_each_mut(&mut numbers, each).is_ok());
        let all = matches!(done, Ok(true));
        discard(done);
        let visits = leaves.iter().map(|leaf| leaf.load(SeqCst));
        if visits.clone().any(|visits| visits > 1 || (whole && visits != 1)) {
            return Err(format!("leaves were visited {:?} times", visits.collect::<Vec<_>>()));
        }
        if numbers.iter().any(|number| *number > 1 || (all && *number != 1)) {
            return Err(format!("elements were visited {numbers:?} times"));
        }
    }
    Ok(())
}

pub(super) fn freeze<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder.scope(Scope::Cache))?;
    for _ in stage.rounds() {
        stage.put(&queue, || P::sleep(us(100)));
        stage.record().hold(true);
        stage.until_done("a freeze", || queue.freeze())?;
        (0..3).for_each(|_| stage.put(&queue, || P::sleep(us(20))));
        P::sleep(us(300));
        stage.until_done("a thaw", || queue.thaw())?;
        stage.record().hold(false);
        stage.put(&queue, || ());
        stage.settle()?;
    }
    Ok(())
}

pub(super) fn change<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(8, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder)?;
    for round in stage.rounds() {
        stage.put(&queue, || P::sleep(us(100)));
        stage.put(&queue, || blocks::<P>(us(400)));
        let change = || match round % 4 {
            0 => queue.change().scope(Scope::Cpu),
            1 => queue.change().cpu_mask(stage.cpus(2)),
            2 => queue.change().max_active(1),
            _ => queue.change().scope(Scope::System).cpu_mask(None).max_active(None),
        };
        stage.until_done("a change", || change().apply())?;
        (0..3).for_each(|_| stage.put(&queue, || P::sleep(us(30))));
        let inside = queue.clone();
        stage.put(&queue, move || {
            // Inside an item it may be refused; then nothing changes.
            let _ = inside.change().max_active(2).apply();
            discard(inside);
        });
        stage.settle()?;
    }
    Ok(())
}

pub(super) fn usable<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder.scope(Scope::Smt))?;
    for round in stage.rounds() {
        (0..3).for_each(|_| stage.put(&queue, || P::sleep(us(60))));
        let cpus = stage.cpus(if round % 2 == 0 { 1 } else { 4 });
        stage.until_done("a set of CPUs", || runtime.set_usable(cpus.clone()))?;
        (0..3).for_each(|_| stage.put(&queue, || blocks::<P>(us(60))));
        stage.settle()?;
    }
    Ok(())
}

pub(super) fn drops<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    for round in stage.rounds() {
        let runtime = stage.runtime(2, |builder| builder)?;
        let queue = stage.queue(&runtime, |builder| builder)?;
        stage.put(&queue, || P::sleep(us(50)));
        stage.put(&queue, || blocks::<P>(us(300)));
        let other = stage.queue(&runtime, |builder| builder.strict(round % 2 == 0))?;
        stage.put(&other, || ());
        let inside = queue.clone();
        // The last handle may be dropped inside an item of the queue.
        stage.put(&queue, move || {
            P::sleep(us(400));
            discard(inside);
        });
        let kept = other.clone();
        let delayed = Work::<P>::new(move |_| discard(kept.name()));
        let _ = delayed.queue_after(&other, us(200));
        discard(queue);
        discard(delayed);
        discard(other);
        discard(runtime);
        stage.settle()?;
    }
    Ok(())
}

pub(super) fn tasks<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(2, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder)?;
    for _ in stage.rounds() {
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let item = stage.record().offer();
            let (record, sleep) = (Arc::clone(stage.record()), runtime.sleep(us(150)));
            let owned = Owned(Arc::clone(stage.record()));
            let task = queue.spawn(async move {
                let _running = record.begin(item);
                let _owned = owned;
                record.call();
                if let Ok(sleep) = sleep {
                    sleep.await;
                }
                yield_now().await;
                record.call();
            });
            stage.record().answer(item, task.is_ok());
            tasks.extend(user::call(|| task.ok()).ok().flatten());
        }
        let item = stage.record().offer();
        stage.record().cancel(item);
        let record = Arc::clone(stage.record());
        let waits = runtime.sleep(us(5_000));
        let cancelled = queue.spawn(async move {
            let _running = record.begin(item);
            let _owned = Owned(Arc::clone(&record));
            if let Ok(waits) = waits {
                waits.await;
            }
        });
        P::sleep(us(60));
        discard(cancelled);
        if let Some(task) = tasks.pop() {
            discard(user::call(|| task.detach()));
        }
        stage.settle()?;
        discard(tasks);
    }
    Ok(())
}

/// Visits each leaf.
fn tree<P: Platform>(record: &Arc<Record>, leaves: &[AtomicU32]) {
    match leaves {
        [] => {}
        [leaf] => {
            leaf.fetch_add(1, SeqCst);
            record.call();
            (0..40).for_each(|_| P::spin_hint());
        }
        leaves => {
            let (left, right) = leaves.split_at(leaves.len() / 2);
            join::<P, _, _>(|| tree::<P>(record, left), || tree::<P>(record, right));
        }
    }
}

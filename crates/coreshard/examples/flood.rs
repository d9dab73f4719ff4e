//! scratch
use std::sync::atomic::*;
use std::time::*;
#[repr(align(128))]
struct Pad<T>(T);
static DONE: Pad<AtomicU64> = Pad(AtomicU64::new(0));
fn main() {
    let n: u64 = 1_000_000;
    for intake in coreshard::Intake::ALL {
        for wake in coreshard::Wake::ALL {
            for prods in [1usize, 2, 4] {
                let mut v = vec![];
                let mut st = String::new();
                for _ in 0..5 {
                    let q = coreshard::workqueue()
                        .unwrap()
                        .name("flood")
                        .intake(intake)
                        .wake(wake)
                        .build()
                        .unwrap();
                    DONE.0.store(0, Ordering::SeqCst);
                    let b = std::sync::Barrier::new(prods + 1);
                    let t = std::thread::scope(|s| {
                        for p in 0..prods {
                            let (b, q) = (&b, &q);
                            s.spawn(move || {
                                let c: coreshard::CpuSet =
                                    [coreshard::CpuId((p % 2) as u32)].into_iter().collect();
                                coreshard_platform::set_affinity(&c).unwrap();
                                b.wait();
                                for _ in 0..n {
                                    q.queue(|| {
                                        DONE.0.fetch_add(1, Ordering::Relaxed);
                                    })
                                    .unwrap();
                                }
                            });
                        }
                        b.wait();
                        Instant::now()
                    });
                    q.drain().unwrap();
                    assert_eq!(DONE.0.load(Ordering::SeqCst), n * prods as u64);
                    v.push(t.elapsed().as_nanos() as f64 / (n * prods as u64) as f64);
                    let s = q.stats().total();
                    st = format!(
                        "kicks {} wakeups {} stolen {} workers {} bytes {}",
                        s.kicks, s.wakeups, s.stolen, s.workers, s.intake_bytes
                    );
                }
                v.sort_by(f64::total_cmp);
                println!(
                    "{intake:10} {wake:12} prods {prods} {:.1} [{:.1} {:.1}] ns/item {st}",
                    v[2], v[0], v[4]
                );
            }
        }
    }
}

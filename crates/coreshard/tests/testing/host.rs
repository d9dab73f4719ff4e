//! Outside of a test, programs on the test machine run on this machine.

use std::time::Duration;

use coreshard::testing::simulated;

#[test]
fn outside_of_a_test_programs_run_on_this_machine() {
    let queue = simulated::workqueue().unwrap().name("here").build().unwrap();
    let sum: u64 = (0..1_000_u64)
        .map(|number| queue.submit(move || number).unwrap())
        .map(|handle| handle.join().unwrap())
        .sum();
    assert_eq!(sum, 499_500);
    let (left, right) = simulated::join(|| 1, || 2);
    assert_eq!(left + right, 3);
    let work = simulated::Work::new(|_| ());
    work.queue_after(&queue, Duration::from_millis(1)).unwrap();
    work.flush().unwrap();
    let answer = coreshard::testing::block_on(queue.spawn(async { 5 }).unwrap());
    assert_eq!(answer, 5);
}

#[test]
fn what_was_made_in_a_test_refuses_outside_of_it() {
    let (queue, handle) = coreshard::testing::by_hand(|_hand| {
        let runtime = simulated::runtime_builder().unwrap().build().unwrap();
        let queue = runtime.workqueue().name("there").build().unwrap();
        let handle = queue.submit(|| 1).unwrap();
        (queue, handle)
    });
    assert!(queue.queue(|| ()).is_err());
    // Queued items have run at the test's end.
    assert_eq!(handle.join().unwrap(), 1);
}

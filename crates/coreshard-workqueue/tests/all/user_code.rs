//! Faults in user code, at every place that the library calls it from: the code panics, its panic payload panics as it is
//! dropped, or its captures panic as they are dropped. The process survives, no thread hangs, the next item runs, and each
//! panic is reported exactly once: to the owner of the handle, or to the queue's panic handler.
//!
//! Each combination of place and fault has its own process, since a failure may be an abort or a hang.

mod items;
mod rig;
mod tasks;
mod timed;

/// The table: the name of each test, and the function that it runs in a new process for each fault.
macro_rules! places {
    ($($name:ident: $case:path;)+) => {
        $(#[test]
        fn $name() {
            rig::attack(stringify!($name), $case);
        })+
    };
}

places! {
    an_item: items::queued;
    an_item_that_is_joined: items::joined;
    an_item_whose_handle_is_dropped_before_it_runs: items::handle_dropped_before;
    an_item_whose_handle_is_dropped_after_it_ran: items::handle_dropped_after;
    a_value_that_nobody_takes: items::value_dropped_by_worker;
    an_item_of_a_scope: items::scoped;
    two_items_of_a_scope: items::scoped_twice;
    a_body_and_an_item_of_a_scope: items::scope_body_and_item;
    an_installed_closure: items::installed;
    the_first_of_two_forked: items::join_first;
    the_second_of_two_forked: items::join_second;
    both_of_two_forked: items::join_both;
    a_loop: items::looped;
    a_panic_handler: items::panic_handler;
    hooks_of_workers: items::hooks;
    a_reusable_item: timed::work;
    the_last_handle_of_a_reusable_item_at_its_worker: timed::work_dropped_by_worker;
    a_periodic_item: timed::periodic;
    the_last_handle_of_a_delayed_item: timed::dropped_by_timekeeper;
    a_delayed_item_that_holds_the_last_handle_of_a_queue: timed::holds_a_queue;
    a_foreign_waker_of_a_sleep: timed::foreign_waker;
    a_foreign_waker_that_never_returns: timed::waker_that_blocks;
    a_waker_that_is_dropped_with_its_sleep: timed::waker_dropped;
    a_sleeping_task_of_a_queue_that_is_gone: timed::task_of_a_queue_that_is_gone;
    a_future_that_is_awaited: tasks::awaited;
    a_future_that_is_detached: tasks::detached;
    a_future_that_is_detached_after_it_ended: tasks::detached_after;
    a_future_whose_handle_is_dropped_while_it_is_polled: tasks::dropped_while_polled;
    a_future_that_is_detached_while_it_is_polled: tasks::detached_while_polled;
    a_future_that_is_cancelled: tasks::cancelled;
    a_future_that_is_cancelled_and_awaited: tasks::cancelled_and_awaited;
    an_output_that_nobody_takes: tasks::output_of_detached;
    an_output_that_is_dropped_with_its_handle: tasks::output_dropped;
    a_waker_of_whoever_awaits: tasks::awaiters_waker;
    a_future_that_waits_without_a_waker: tasks::no_waker;
    a_future_that_waits_without_a_waker_and_is_detached_in_its_poll: tasks::no_waker_in_poll;
    a_future_that_is_woken_after_its_queue_is_gone: tasks::woken_after_the_queue;
}

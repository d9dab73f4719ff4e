//! Panics that could not be reported abort the process. Each case has its own process: the test runs its own program.
#![allow(unsafe_code, reason = "no core is to be left behind")]

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rayon_core::ThreadPoolBuilder;

#[track_caller]
fn aborts(case: &str) {
    let mut command = Command::new(env::current_exe().unwrap());
    let output =
        command.args(["--ignored", "--exact", &format!("abort::{case}")]).output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
}

fn leave_no_core() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a plain call with a live argument.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) }, 0);
}

/// The process must end meanwhile.
fn wait_in_vain() {
    std::thread::sleep(testing::NEVER);
}

macro_rules! cases {
    ($($name:ident: $case:ident => $body:block)*) => { $(
        #[test]
        fn $name() {
            aborts(stringify!($case));
        }

        #[test]
        #[ignore = "ends its process; another one runs it"]
        fn $case() {
            leave_no_core();
            $body
            wait_in_vain();
        }
    )* };
}

cases! {
    spawned_work_that_throws: spawn => { rayon_core::spawn(|| panic!("hello")); }
    spawned_work_of_a_pool_that_throws: pool_spawn_fifo => {
        let pool = crate::support::pool(1);
        pool.spawn_fifo(|| panic!("hello"));
        wait_in_vain();
    }
    a_spawned_broadcast_that_throws: spawn_broadcast => {
        rayon_core::spawn_broadcast(|thread| assert_ne!(thread.index(), 0));
    }
    a_handler_that_throws: handler => {
        let builder = ThreadPoolBuilder::new().panic_handler(|_| panic!("again"));
        builder.build().unwrap().spawn(|| panic!("hello"));
    }
    a_start_handler_that_throws: start_handler => {
        let _pool = ThreadPoolBuilder::new().start_handler(|_| panic!("hello")).build();
        wait_in_vain();
    }
    an_exit_handler_that_throws: exit_handler => {
        drop(ThreadPoolBuilder::new().exit_handler(|_| panic!("hello")).build());
    }
}

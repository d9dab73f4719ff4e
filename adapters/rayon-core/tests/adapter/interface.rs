//! Bounds, messages and `Debug` output of the interface.

use std::error::Error;
use std::fmt::Debug;

use rayon_core::{
    BroadcastContext, FnContext, Scope, ScopeFifo, ThreadBuilder, ThreadPool, ThreadPoolBuildError,
    ThreadPoolBuilder, Yield,
};

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_debug<T: Debug>() {}

#[test]
fn check_error_send_sync() {
    is_send::<ThreadPoolBuildError>();
    is_sync::<ThreadPoolBuildError>();
    fn is_error<T: Error + 'static>() {}
    is_error::<ThreadPoolBuildError>();
}

/// Missing bounds are tested by the crate's examples that fail to compile.
#[test]
fn who_can_be_sent_and_shared() {
    is_send::<ThreadPool>();
    is_sync::<ThreadPool>();
    is_send::<ThreadBuilder>();
    is_send::<Scope<'static>>();
    is_sync::<Scope<'static>>();
    is_send::<ScopeFifo<'static>>();
    is_sync::<ScopeFifo<'static>>();
    is_send::<Yield>();
    is_sync::<Yield>();
}

#[test]
fn all_can_be_shown() {
    is_debug::<ThreadPool>();
    is_debug::<ThreadBuilder>();
    is_debug::<Scope<'static>>();
    is_debug::<ScopeFifo<'static>>();
    is_debug::<BroadcastContext<'static>>();
    is_debug::<FnContext>();
    is_debug::<ThreadPoolBuildError>();
    is_debug::<Yield>();
    let text = format!("{:?}", crate::support::pool(3));
    assert!(text.starts_with("ThreadPool") && text.contains("num_threads: 3"), "{text}");
}

#[test]
#[allow(deprecated, reason = "part of the interface")]
fn a_builder_shows_what_it_was_told() {
    let builder = ThreadPoolBuilder::new().num_threads(2).stack_size(3).start_handler(|_| ());
    let expected = "ThreadPoolBuilder { num_threads: 2, use_current_thread: false, get_thread_name: None, \
                    panic_handler: None, stack_size: Some(3), start_handler: Some(<closure>), exit_handler: None, \
                    breadth_first: false }";
    assert_eq!(format!("{builder:?}"), expected);
    // The closure that starts its threads need not be Debug.
    let custom = builder.spawn_handler(|_| Ok(()));
    assert_eq!(format!("{custom:?}"), expected);
    let configuration = rayon_core::Configuration::new().num_threads(2).stack_size(3);
    assert_eq!(format!("{:?}", configuration.start_handler(|_| ())), expected);
}

/// Each function and method requires only the published bounds: these closures and results are neither `Sync` nor `Clone`, and
/// borrow.
#[test]
fn bounds() {
    let pool = crate::support::pool(2);
    let mut number = 1;
    let text = String::from("text");
    let _: (&str, &mut i32) = pool.join(|| text.as_str(), || &mut number);
    let _: &str = pool.install(|| text.as_str());
    let _: &str = pool.scope(|_| text.as_str());
    let _: &str = pool.scope_fifo(|_| text.as_str());
    let _: Vec<&str> = pool.broadcast(|_| text.as_str());
    let _: std::rc::Rc<i32> = pool.in_place_scope(|_| std::rc::Rc::new(1));
    let _: std::rc::Rc<i32> = pool.in_place_scope_fifo(|_| std::rc::Rc::new(1));
    let _: (std::cell::Cell<i32>, &str) = rayon_core::join_context(
        |context: FnContext| std::cell::Cell::new(i32::from(context.migrated())),
        |_: FnContext| text.as_str(),
    );
    let _: Option<usize> = rayon_core::current_thread_index();
    let _: Option<bool> = rayon_core::current_thread_has_pending_tasks();
    let _: usize = rayon_core::max_num_threads();
}

//! The global pool is built once. One test, since a process has one global pool.

use std::error::Error;

use rayon_core::ThreadPoolBuilder;

#[test]
#[allow(deprecated, reason = "part of the interface")]
fn double_init_fail() {
    testing::own_process!();
    ThreadPoolBuilder::new().num_threads(3).build_global().unwrap();
    let text = "The global thread pool has already been initialized.";
    let error = ThreadPoolBuilder::new().build_global().unwrap_err();
    assert!(error.source().is_none());
    assert_eq!(error.to_string(), text);
    assert_eq!(error.description(), text);
    let error = rayon_core::initialize(rayon_core::Configuration::new()).unwrap_err();
    assert_eq!(error.to_string(), text);
    assert_eq!(rayon_core::current_num_threads(), 3);
    assert_eq!(rayon_core::scope(|_| rayon_core::current_num_threads()), 3);
}

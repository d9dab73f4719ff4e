//! 0 threads means the machine's number. One test, since a process has one global pool.

#[test]
fn init_zero_threads() {
    testing::own_process!();
    rayon_core::ThreadPoolBuilder::new().num_threads(0).build_global().unwrap();
    assert!(rayon_core::current_num_threads() > 0);
}

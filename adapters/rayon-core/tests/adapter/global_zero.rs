//! No threads are the machine's. One test, since it is one process's.

#[test]
fn init_zero_threads() {
    testing::own_process!();
    rayon_core::ThreadPoolBuilder::new().num_threads(0).build_global().unwrap();
    assert!(rayon_core::current_num_threads() > 0);
}

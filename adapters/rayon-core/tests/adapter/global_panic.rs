//! A panic on the global pool, in its first call.

#[test]
fn simple_panic() {
    testing::own_process!();
    let join = || _ = rayon_core::join(|| (), || panic!("should panic"));
    assert_eq!(crate::support::thrown(join), "should panic");
}

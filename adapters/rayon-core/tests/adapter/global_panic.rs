//! A panic on the global pool, in the first call that there is.

#[test]
fn simple_panic() {
    testing::own_process!();
    let join = || _ = rayon_core::join(|| (), || panic!("should panic"));
    assert_eq!(crate::support::thrown(join), "should panic");
}

//! A panic on the global pool, in the first call that there is.

mod support;

testing::watch!();

#[test]
fn simple_panic() {
    let join = || _ = rayon_core::join(|| (), || panic!("should panic"));
    assert_eq!(support::thrown(join), "should panic");
}

//! A glob import of the crate hides none of the crates beside it.

#[allow(unused_imports, reason = "the imported names are the point")]
use coreshard::*;

#[test]
fn other_crates_are_still_found() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let queue = workqueue().unwrap().name("glob").build().unwrap();
    assert_eq!(runtime.block_on(queue.submit(|| 1).unwrap()).unwrap(), 1);
    let _layers = tower::ServiceBuilder::new();
    let _method: hyper::Method = axum::http::Method::GET;
    #[cfg(feature = "metrics")]
    metrics::counter!("one").increment(1);
}

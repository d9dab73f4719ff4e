//! The process's pools and queues, shown to `coreshard top`.

use std::sync::OnceLock;

use coreshard::insight::InsightServer;
use coreshard_platform::PerProcess;

/// Serves from now on to the end of the process; a program that does so by itself has priority.
pub(crate) fn serve() {
    static SERVER: PerProcess<OnceLock<Option<InsightServer>>> = PerProcess::new();
    SERVER.here().get_or_init(|| match coreshard::serve_insight() {
        Ok(server) => Some(server),
        Err(error) => {
            tracing::warn!(%error, "coreshard top will not see this process");
            None
        }
    });
}

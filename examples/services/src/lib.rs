//! Code shared by the programs of this crate, and reusable parts of them:
//!
//! | program | shows |
//! |---|---|
//! | `web-service` | axum: heavy handlers on a queue with a capacity (503 with Retry-After) and a deadline (504), metrics, a graceful shutdown |
//! | `hyper-server` | HTTP/1 and HTTP/2 on hyper, with a queue as executor and timer, and tokio sockets |
//! | `pipeline` | stages with bounded queues, in the order of the input or not |
//! | `debounced-cache` | a [`DebouncedCache`], which is written to a file when it has not changed for a while |
//! | `directory-sizes` | a walk over folders: a scope whose items queue more |
//! | `batch-writer` | a [`BatchWriter`]: one flush for many records, and an acknowledgement for each |

mod batch_writer;
mod debounced_cache;
mod ending;
mod prometheus;

pub use batch_writer::{Append, BatchWriter};
pub use debounced_cache::DebouncedCache;
pub use ending::{Left, end, terminated};
pub use prometheus::prometheus;

#[cfg(test)]
testing::watch!();

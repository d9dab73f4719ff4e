//! What the programs of this crate share, and what is worth taking out of them:
//!
//! | program | shows |
//! |---|---|
//! | `web-service` | axum: heavy handlers on a queue with a capacity (503 with Retry-After) and a deadline (504), metrics, an end in good order |
//! | `hyper-server` | HTTP/1 and HTTP/2 on hyper, with a queue as executor and timer, sockets of tokio's |
//! | `pipeline` | stages with bounded queues, in the order of the input or not |
//! | `debounced-cache` | a [`DebouncedCache`], which writes itself to a file once it is left alone |
//! | `directory-sizes` | a walk over folders: a scope whose items queue more |
//! | `batch-writer` | a [`BatchWriter`]: one flush for many records, each of which is acknowledged |

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

//! Statistics of a running process's queues and pools, for its own user.
//!
//! A process that calls [`serve_insight`] has a socket in a folder that only its user can enter. A client connects,
//! sends one request and receives one answer. The server closes the connection at most a second after it was accepted.
//! One thread (`connections`) serves up to sixteen clients at once. It sleeps in `poll` while there is no request, and
//! exits at once on request.
//!
//! | side | checks |
//! |---|---|
//! | server | `XDG_RUNTIME_DIR` is used only if the process has no more rights than its caller (`AT_SECURE`); the
//! folder belongs to its user, has mode 0700 and is not a link; the socket has mode 0600; the client has the same user,
//! as the kernel reports it (`SO_PEERCRED`) |
//! | client | the server has the same user, and is the requested process |
//!
//! In both directions, a frame consists of the four bytes `COSH`, the protocol version, the length of the rest (both 32
//! bits, little-endian), and JSON. A version stands for the format of the header and of [`Snapshot`]. Adding fields
//! does not change it, other changes do. A client of another version receives the server's version.

mod address;
mod client;
mod connections;
mod error;
mod protocol;
mod server;
mod snapshot;

pub use client::InsightClient;
pub use error::InsightError;
pub use protocol::PROTOCOL_VERSION;
pub use server::{InsightServer, serve_insight};
pub use snapshot::{PoolSnapshot, Quantiles, QueueSnapshot, Snapshot, TimesSnapshot};

/// Parses bytes as a server parses a request and a client an answer, for fuzzing. No input makes it panic, block, or
/// take more memory than its own size.
#[doc(hidden)]
pub fn read_any_frame(bytes: &[u8]) {
    drop(protocol::read::<protocol::Request>(&mut &bytes[..], protocol::LONGEST_REQUEST));
    drop(protocol::read::<protocol::Answer>(&mut &bytes[..], protocol::LONGEST_ANSWER));
}

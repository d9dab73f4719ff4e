//! What a running process tells of its queues and pools, to its own user.
//!
//! A process that calls [`serve_insight`] has a socket in a folder that only its user can enter. A
//! client connects, asks one thing, has one answer, and is hung up on, a second after it came at the latest.
//! One thread (`connections`) serves up to sixteen clients at once. It sleeps in `poll` while nobody asks, and
//! ends at once when it is told to.
//!
//! | who | checks |
//! |---|---|
//! | server | the environment names the folder only where the process has no more rights than its caller (`AT_SECURE`); the folder is its user's own, with mode 0700, and no link; the socket gets mode 0600; the client's user, by the kernel's word (`SO_PEERCRED`), is its own |
//! | client | the server's user is its own, and its process the one that was asked for |
//!
//! On the wire, both ways: the four bytes `COSH`, the protocol's version and the length of what
//! follows (both 32 bits, the least byte first), then JSON. A version is the shape of the header and
//! of [`Snapshot`]: fields that are added keep it, whatever else changes raises it, and a client of
//! another version is told which one it found.

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

/// Reads bytes as a server does a request and as a client does an answer. For fuzzing: no bytes make it
/// panic, wait or take more memory than they have themselves.
#[doc(hidden)]
pub fn read_any_frame(bytes: &[u8]) {
    drop(protocol::read::<protocol::Request>(&mut &bytes[..], protocol::LONGEST_REQUEST));
    drop(protocol::read::<protocol::Answer>(&mut &bytes[..], protocol::LONGEST_ANSWER));
}

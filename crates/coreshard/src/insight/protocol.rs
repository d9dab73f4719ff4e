//! Frames: a header, and JSON.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Snapshot;

/// The protocol version of this release.
pub const PROTOCOL_VERSION: u32 = 1;

const MAGIC: [u8; 4] = *b"COSH";
const HEADER_BYTES: usize = 12;

/// Maximum lengths of a request and an answer, in bytes. A queue or a pool takes about half a KiB, so an answer has
/// room for some hundred thousand.
pub(super) const LONGEST_REQUEST: u32 = 4 << 10;
pub(super) const LONGEST_ANSWER: u32 = 64 << 20;
/// Maximum length of a request with its header.
pub(super) const LONGEST_FRAME: usize = LONGEST_REQUEST as usize + HEADER_BYTES;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    Snapshot,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Snapshot(Snapshot),
    /// The reason why there is no snapshot.
    Refused(String),
}

/// Why a frame cannot be read.
#[derive(Debug)]
pub(super) enum FrameError {
    Io(io::Error),
    /// It does not start with the frame marker.
    Foreign,
    /// It has this version.
    Version(u32),
    /// It claims to have this many bytes.
    TooLong(u32),
    Json(serde_json::Error),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(super) fn write(to: &mut impl Write, body: &impl Serialize) -> io::Result<()> {
    write_as(PROTOCOL_VERSION, to, body)
}

pub(super) fn write_as(version: u32, to: &mut impl Write, body: &impl Serialize) -> io::Result<()> {
    let mut frame = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut frame, body)?;
    let length = u32::try_from(frame.len() - HEADER_BYTES)
        .map_err(|_| io::Error::other("a frame of 4 GiB or more"))?;
    frame[..4].copy_from_slice(&MAGIC);
    frame[4..8].copy_from_slice(&version.to_le_bytes());
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    to.write_all(&frame)
}

/// Reads a frame whose body has at most `longest` bytes.
pub(super) fn read<T: DeserializeOwned>(
    from: &mut impl Read,
    longest: u32,
) -> Result<T, FrameError> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header)?;
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if header[..4] != MAGIC {
        return Err(FrameError::Foreign);
    }
    // Checked before the length: the header of another version may differ.
    if word(4) != PROTOCOL_VERSION {
        return Err(FrameError::Version(word(4)));
    }
    if word(8) > longest {
        return Err(FrameError::TooLong(word(8)));
    }
    let mut body = Vec::new();
    // Grows with the received bytes, so that a large length alone takes no memory.
    let read = from.take(u64::from(word(8))).read_to_end(&mut body)?;
    if read < word(8) as usize {
        return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    serde_json::from_slice(&body).map_err(FrameError::Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot_frame() -> Vec<u8> {
        let mut frame = Vec::new();
        let mut snapshot = Snapshot { pid: 7, ..Snapshot::default() };
        snapshot.queues.push(crate::insight::QueueSnapshot::default());
        write(&mut frame, &Answer::Snapshot(snapshot)).unwrap();
        frame
    }

    #[test]
    fn what_is_written_is_read() {
        let frame = snapshot_frame();
        match read::<Answer>(&mut frame.as_slice(), LONGEST_ANSWER).unwrap() {
            Answer::Snapshot(snapshot) => {
                assert_eq!((snapshot.pid, snapshot.queues.len()), (7, 1));
            }
            Answer::Refused(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn a_frame_that_is_cut_anywhere_is_an_error() {
        let frame = snapshot_frame();
        for bytes in 0..frame.len() {
            let outcome = read::<Answer>(&mut &frame[..bytes], LONGEST_ANSWER);
            assert!(matches!(outcome, Err(FrameError::Io(_))), "{bytes}: {outcome:?}");
        }
    }

    #[test]
    fn a_byte_that_is_changed_never_panics() {
        let frame = snapshot_frame();
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut frame = frame.clone();
                frame[at] ^= 1 << bit;
                let outcome = read::<Answer>(&mut frame.as_slice(), LONGEST_ANSWER);
                match at {
                    0..4 => assert!(matches!(outcome, Err(FrameError::Foreign))),
                    4..8 => assert!(matches!(outcome, Err(FrameError::Version(_)))),
                    8..12 => assert!(outcome.is_err()),
                    _ => drop(outcome),
                }
            }
        }
    }

    #[test]
    fn a_length_beyond_what_is_allowed_is_not_believed() {
        let frame = snapshot_frame();
        let outcome = read::<Answer>(&mut frame.as_slice(), 16);
        assert!(matches!(outcome, Err(FrameError::TooLong(_))), "{outcome:?}");
    }

    #[test]
    fn a_field_that_this_release_does_not_know_is_passed_over() {
        let text = r#"{"snapshot":{"pid":1,"program":"a","release":"9","machine":"m",
            "taken_ns":5,"queues":[],"pools":[],"moon_phase":"full"}}"#;
        assert!(matches!(serde_json::from_str(text).unwrap(), Answer::Snapshot(_)));
    }
}

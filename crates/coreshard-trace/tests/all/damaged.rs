//! Recordings that are truncated or damaged at any offset.

use coreshard_sim::Machine;
use coreshard_trace::{About, Ending, Lack, Recording, RecordingWriter, ReplayOptions, replay};

const CHUNKS: u32 = 6;

/// Returns a recording with one access in each chunk, and the offset of its first chunk.
fn whole() -> (Vec<u8>, usize) {
    let mut file = Vec::new();
    let about = About { engine: "tsan".to_owned(), ..About::default() };
    let mut writer = RecordingWriter::new(&mut file, &about).unwrap();
    let begin = writer.written_bytes() as usize;
    for order in 0..CHUNKS {
        let mut events = 5u16.to_le_bytes().to_vec();
        events.extend(0x40_0000_u64.to_le_bytes());
        events.extend((0x7000 + 8 * u64::from(order)).to_le_bytes());
        events.extend([1, 8]);
        writer.chunk(1 + order % 2, order / 2, &events).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    (file, begin)
}

/// Returns the number of accesses that a replay finds. They must come from the whole chunks before `good`.
fn accesses(file: Vec<u8>, good: usize) -> u64 {
    let length = file.len();
    let recording = Recording::from_bytes(file).unwrap();
    let ends_at = recording.lacks().iter().find_map(|lack| match lack {
        Lack::Cut { offset } | Lack::Garbage { offset, .. } => Some(*offset as usize),
        _ => None,
    });
    // A recording that is cut between two frames lacks only its end.
    assert!(ends_at.unwrap_or(length) <= good, "{good}: {:?}", recording.lacks());
    assert!(recording.lacks().contains(&Lack::End), "{good}: {:?}", recording.lacks());
    let report = replay(&recording, &Machine::pocket(), &ReplayOptions::default()).unwrap();
    let says_where = report.notes.iter().any(|note| note.contains("everything after offset"));
    assert_eq!(says_where, ends_at.is_some(), "{good}: {:?}", report.notes);
    report.accesses
}

#[test]
fn what_is_good_is_read_and_the_rest_is_said_to_be_lacking() {
    let (file, begin) = whole();
    let mut most = 0;
    // Up to the last frame, which is the end.
    for good in begin + 1..file.len() - 1 {
        let mut found = vec![accesses(file[..good].to_vec(), good)];
        for filler in [0, 0x01, 0xaa, 0xff] {
            let garbage = std::iter::repeat_n(filler, 2 * file.len());
            let bytes = file[..good].iter().copied().chain(garbage).collect();
            // Skip a byte that already has the value of the filler.
            if file[good] != filler {
                found.push(accesses(bytes, good));
            }
        }
        assert!(found.windows(2).all(|two| two[0] == two[1]), "{good}: {found:?}");
        assert!(found[0] >= most, "{good}: {found:?}, and {most} before");
        most = found[0];
    }
    assert_eq!(most, u64::from(CHUNKS));
}

#[test]
fn what_never_was_a_recording_is_refused() {
    let (file, _) = whole();
    for good in [0, 7, 15, 16] {
        let bytes = file[..good].iter().copied().chain(std::iter::repeat_n(0xaa, 500)).collect();
        Recording::from_bytes(bytes).unwrap_err();
    }
}

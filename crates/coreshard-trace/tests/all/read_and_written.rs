//! One instruction that is recorded both as a load and as a read-modify-write, as emulation does while the program has
//! only one thread.

use coreshard_sim::Machine;
use coreshard_trace::{
    About, AccessKind, Ending, Recording, RecordingWriter, ReplayOptions, replay,
};

const LOADED: u8 = 4;
const MODIFIED: u8 = 2 | 4;

fn access(site: u16, kind: u8) -> Vec<u8> {
    let mut event = (site << 4 | 5).to_le_bytes().to_vec();
    event.extend(0x40_0000_u64.to_le_bytes());
    event.extend(0x7000_u64.to_le_bytes());
    event.extend([kind, 8]);
    event
}

#[test]
fn what_an_instruction_writes_is_not_lost_where_it_read_first() {
    let mut file = Vec::new();
    let mut writer = RecordingWriter::new(&mut file, &About::default()).unwrap();
    for thread in 1..3 {
        let mut events = access(0, LOADED);
        events.extend(access(1, MODIFIED));
        (0..9).for_each(|_| events.extend((1u16 << 4).to_le_bytes()));
        writer.chunk(thread, 0, &events).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    let recording = Recording::from_bytes(file).unwrap();
    let report = replay(&recording, &Machine::pocket(), &ReplayOptions::default()).unwrap();
    let words = &report.lines[0].words;
    let count = |kind| {
        let its = words.iter().filter(|word| word.access == kind);
        its.map(|word| word.count).sum::<u64>()
    };
    assert_eq!(count(AccessKind::Load), 2, "{words:#?}");
    assert_eq!(count(AccessKind::Modify), 20, "{words:#?}");
}

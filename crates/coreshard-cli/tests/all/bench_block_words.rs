//! fio's words mean what they mean in fio: each with the bytes and blocks that fio 3.33 gave for it.
//!
//! `peers/fio/words.py` compares more of them with fio itself.

use std::fs;

use assert_cmd::Command;
use coreshard_bench::JOB_KEYS;
use serde_json::Value;

const KIB: u64 = 1024;
const BLOCK: usize = 4096;

/// The results of a job.
struct Done {
    job: Value,
    notes: Vec<String>,
    /// Bytes of its file.
    file_bytes: u64,
    /// The blocks of the file that were written.
    blocks: Vec<u64>,
}

impl Done {
    fn written(&self) -> u64 {
        self.job["write"]["io_bytes"].as_u64().unwrap()
    }

    fn read(&self) -> u64 {
        self.job["read"]["io_bytes"].as_u64().unwrap()
    }

    fn verified(&self) -> u64 {
        self.job["verified_bytes"].as_u64().unwrap()
    }

    /// How many blocks were written, the first of them, and the last.
    fn span(&self) -> (usize, u64, u64) {
        (self.blocks.len(), self.blocks[0], *self.blocks.last().unwrap())
    }
}

/// Runs a job of 4 KiB writes by the given words. Its file holds nothing but zeros, and is there already if
/// `file_bytes` says how large it is to be.
fn run(words: &str, file_bytes: Option<u64>) -> Done {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    if let Some(bytes) = file_bytes {
        fs::File::create(&file).unwrap().set_len(bytes).unwrap();
    }
    let engine = if words.contains("ioengine") { "" } else { "ioengine=psync" };
    let words = words.split_whitespace().chain(engine.split_whitespace());
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command
        .args(["bench", "block", "--bs=4k", "--allow-overwrite", "--json=-"])
        .arg(format!("--filename={}", file.display()))
        .args(words.map(|word| format!("--{word}")));
    let assert = command.assert().success();
    let json: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let contents = fs::read(&file).unwrap();
    let is_written = |block: &[u8]| block.iter().any(|byte| *byte != 0);
    let blocks = contents.chunks(BLOCK).zip(0..).filter(|(block, _)| is_written(block));
    Done {
        job: json["jobs"][0].clone(),
        notes: serde_json::from_value(json["notes"].clone()).unwrap(),
        file_bytes: contents.len() as u64,
        blocks: blocks.map(|(_, at)| at).collect(),
    }
}

/// On a file of 1 MiB, which has 256 blocks.
fn on_a_mebibyte(words: &str) -> Done {
    run(words, Some(1 << 20))
}

/// What no job of this file says of its figures, whose times are short.
fn says_nothing_of_little(done: &Done) {
    assert!(!done.notes.iter().any(|note| note.contains("Little")), "{:?}", done.notes);
}

#[test]
fn size_ends_a_job_before_its_runtime() {
    let done = on_a_mebibyte("rw=write size=1m runtime=3600");
    assert_eq!((done.written(), done.span()), (1024 * KIB, (256, 0, 255)));
}

#[test]
fn size_in_per_cent_is_of_the_file() {
    for (words, blocks) in [("size=25%", 64), ("size=33%", 84), ("size=100%", 256)] {
        let done = on_a_mebibyte(&format!("rw=write {words}"));
        assert_eq!(done.span(), (blocks, 0, blocks as u64 - 1), "{words}");
        assert_eq!(done.written(), blocks as u64 * 4 * KIB, "{words}");
    }
}

#[test]
fn each_thread_transfers_the_size() {
    let done = on_a_mebibyte("rw=write numjobs=2");
    assert_eq!((done.written(), done.span()), (2048 * KIB, (256, 0, 255)));
    let done = on_a_mebibyte("rw=write numjobs=2 number_ios=10");
    assert_eq!((done.written(), done.span()), (80 * KIB, (10, 0, 9)), "all begin at the start");
}

#[test]
fn time_based_goes_on_until_the_runtime_is_over() {
    let done = on_a_mebibyte("rw=randwrite runtime=300ms time_based number_ios=10");
    assert!(done.written() > 1024 * KIB, "it goes around, and number_ios ends nothing");
    assert!(done.job["job_runtime"].as_u64().unwrap() >= 300);
    assert_eq!(done.span(), (256, 0, 255));
}

#[test]
fn time_based_without_runtime_has_no_effect_and_says_so() {
    let done = on_a_mebibyte("rw=write time_based");
    assert_eq!(done.written(), 1024 * KIB);
    assert!(done.notes.iter().any(|note| note.contains("no effect without runtime")));
}

#[test]
fn random_blocks_come_once_each() {
    for words in ["", "norandommap=0", "randrepeat=0", "iodepth=4", "randseed=77"] {
        let done = on_a_mebibyte(&format!("rw=randwrite {words}"));
        assert_eq!((done.written(), done.span()), (1024 * KIB, (256, 0, 255)), "{words}");
    }
    let half = on_a_mebibyte("rw=randwrite io_size=512k");
    assert_eq!((half.written(), half.blocks.len()), (512 * KIB, 128));
    let mixed = on_a_mebibyte("rw=randrw rwmixread=25");
    assert_eq!(mixed.written() + mixed.read(), 1024 * KIB);
    assert_eq!(mixed.blocks.len() as u64, mixed.written() / (4 * KIB));
}

#[test]
fn norandommap_leaves_blocks_out() {
    let done = on_a_mebibyte("rw=randwrite norandommap=1");
    assert_eq!(done.written(), 1024 * KIB);
    // All 256 of 256 draws differ by a chance of 10^-110.
    assert!(done.blocks.len() < 220, "{}", done.blocks.len());
}

#[test]
fn randrepeat_repeats() {
    let blocks = |words: &str| on_a_mebibyte(&format!("rw=randwrite io_size=64k {words}")).blocks;
    assert_eq!(blocks(""), blocks("randrepeat=1"));
    assert_eq!(blocks("randrepeat=0 randseed=5"), blocks("randseed=5"), "the seed was given");
    // 16 of 256 blocks are the same by a chance of 10^-25.
    assert_ne!(blocks("randrepeat=0"), blocks("randrepeat=0"));
}

#[test]
fn offset_moves_what_is_used() {
    for (words, blocks) in [
        ("offset=256k", (192, 64, 255)),
        ("offset=256k size=512k", (128, 64, 191)),
        ("offset=33%", (171, 85, 255)),
        ("offset=75% size=50%", (64, 192, 255)),
    ] {
        let done = on_a_mebibyte(&format!("rw=write {words}"));
        assert_eq!((done.span(), done.written()), (blocks, blocks.0 as u64 * 4 * KIB), "{words}");
    }
    // A file that is made has room for both; all of it is marked as the benchmark's.
    let made = run("rw=write offset=256k size=1m", None);
    assert_eq!((made.file_bytes, made.written()), (1280 * KIB, 1024 * KIB));
}

#[test]
fn io_size_is_what_is_transferred() {
    for (words, written, blocks) in [
        ("io_size=256k", 256, (64, 0, 63)),
        ("io_size=1536k", 1536, (256, 0, 255)),
        ("io_size=50%", 512, (128, 0, 127)),
        ("size=50% io_size=50%", 256, (64, 0, 63)),
        ("io_size=10000", 12, (3, 0, 2)),
    ] {
        let done = on_a_mebibyte(&format!("rw=write {words}"));
        assert_eq!((done.written(), done.span()), (written * KIB, blocks), "{words}");
    }
}

#[test]
fn loops_repeat_the_job() {
    for (words, written, blocks) in [
        ("rw=write loops=3", 3072, (256, 0, 255)),
        ("rw=write loops=2 io_size=256k", 512, (128, 0, 127)),
        ("rw=write loops=2 number_ios=10", 80, (20, 0, 19)),
    ] {
        let done = on_a_mebibyte(words);
        assert_eq!((done.written(), done.span()), (written * KIB, blocks), "{words}");
    }
}

#[test]
fn number_ios_ends_a_job_and_does_not_extend_it() {
    assert_eq!(on_a_mebibyte("rw=write number_ios=10").span(), (10, 0, 9));
    assert_eq!(on_a_mebibyte("rw=write number_ios=1000").written(), 1024 * KIB);
}

#[test]
fn bssplit_has_requests_of_several_sizes() {
    for rw in ["write", "randwrite"] {
        let done = on_a_mebibyte(&format!("rw={rw} bssplit=4k/50:16k/50"));
        assert_eq!((done.written(), done.span()), (1024 * KIB, (256, 0, 255)), "{rw}");
        let ios = done.job["write"]["total_ios"].as_u64().unwrap();
        assert!((65..255).contains(&ios), "{rw}: {ios} requests are of both sizes");
    }
    let done = on_a_mebibyte("rw=randwrite verify=pattern bssplit=4k/20:8k/:16k/");
    assert_eq!((done.written(), done.verified()), (1024 * KIB, 1024 * KIB));
}

#[test]
fn rate_iops_bounds_each_direction() {
    // What takes longer than it must cannot be told from a busy machine; that it takes so long can.
    let done = on_a_mebibyte("rw=write rate_iops=512");
    assert_eq!(done.written(), 1024 * KIB);
    assert!(done.job["job_runtime"].as_u64().unwrap() >= 490, "{}", done.job["job_runtime"]);
    // Reads may be twice as many, whatever the dice say.
    let mixed = on_a_mebibyte("rw=rw rwmixread=25 rate_iops=1000,500");
    assert_eq!(mixed.written() + mixed.read(), 1024 * KIB);
    assert!(mixed.job["job_runtime"].as_u64().unwrap() >= 160, "{}", mixed.job["job_runtime"]);
}

#[test]
fn ramp_time_is_not_reported() {
    // 512 per second for half a second each; the preceding part is as long.
    let done = on_a_mebibyte("rw=write loops=100 rate_iops=512 ramp_time=500ms runtime=500ms");
    let ios = done.job["write"]["total_ios"].as_u64().unwrap();
    assert!(ios <= 257, "{ios}");
    assert!(done.job["issued"].as_u64().unwrap() > ios, "more were made than are reported");
    // Over before the ramp is: all of it is reported, as in fio.
    let done = on_a_mebibyte("rw=write ramp_time=3600");
    assert_eq!(done.written(), 1024 * KIB);
}

#[test]
fn what_was_written_is_verified_and_not_measured() {
    for (words, written, verified) in [
        ("rw=write", 1024, 1024),
        ("rw=randwrite", 1024, 1024),
        ("rw=randwrite loops=2", 2048, 2048),
        ("rw=write numjobs=2", 2048, 2048),
        ("rw=write number_ios=10 loops=2", 80, 80),
        ("rw=randwrite offset=50% size=25%", 256, 256),
    ] {
        let done = on_a_mebibyte(&format!("{words} verify=pattern"));
        assert_eq!((done.written(), done.verified()), (written * KIB, verified * KIB), "{words}");
        assert_eq!(done.read(), 0, "{words}");
        says_nothing_of_little(&done);
    }
    let mixed = on_a_mebibyte("rw=randrw verify=pattern");
    assert_eq!(mixed.written() + mixed.read(), 1024 * KIB);
    assert_eq!(mixed.verified(), mixed.written());
    says_nothing_of_little(&mixed);
    let random = on_a_mebibyte("rw=randwrite norandommap verify=pattern");
    assert_eq!(random.verified(), random.blocks.len() as u64 * 4 * KIB, "each block once");
}

#[test]
fn time_based_with_verify_writes_until_the_runtime_is_over() {
    let done = on_a_mebibyte("rw=randwrite verify=pattern runtime=300ms time_based");
    assert!(done.written() > 1024 * KIB && done.job["job_runtime"].as_u64().unwrap() >= 300);
    assert_eq!(done.verified(), 1024 * KIB);
    says_nothing_of_little(&done);
}

#[test]
fn libaio_stands_for_auto_and_says_so() {
    let done = on_a_mebibyte("rw=write ioengine=libaio iodepth=8");
    assert_eq!((done.written(), done.span()), (1024 * KIB, (256, 0, 255)));
    assert!(done.notes.iter().any(|note| note.contains("ioengine=libaio is treated as")));
}

#[test]
fn words_that_cannot_be_obeyed_are_refused_by_name() {
    for (word, says) in [
        ("group_reporting=0", "--group_reporting: 0 is not supported"),
        ("thread=0", "--thread: 0 is not supported"),
        (
            "bssplit=4k/50:6k/50",
            "--bssplit: \"4k/50:6k/50\" has sizes that are not multiples of the smallest",
        ),
        ("size=200%", "--size: \"200%\" is not a percentage from 1% to 100%"),
        ("offset=2m", "has 1048576 bytes, and nothing at offset=2097152"),
        ("filename=/a:/b", "names several files"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
        let mut command = Command::cargo_bin("coreshard").unwrap();
        command.args(["bench", "block", "--rw=read"]).arg(format!("--{word}"));
        if !word.starts_with("filename") {
            command.arg(format!("--filename={}", file.display()));
        }
        let assert = command.assert().code(2);
        let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(stderr.contains(says), "{word}: {stderr}");
    }
}

/// A word that nothing tests may be taken and not obeyed.
#[test]
fn every_word_has_a_test() {
    // Which are not seen in bytes or blocks.
    const ELSEWHERE: &[(&str, &str)] = &[
        ("name", "bench_block.rs"),
        ("readwrite", "another name of rw"),
        ("blocksize", "another name of bs"),
        ("io_limit", "another name of io_size"),
        ("direct", "coreshard-block's tests of files"),
        ("fixedbufs", "coreshard-block's tests of rings"),
        ("sqthread_poll", "coreshard-block's tests of rings"),
        ("hipri", "coreshard-block's tests of rings"),
        ("cpus_allowed", "the threads' own affinity, read back by the platform"),
        ("tags", "coreshard-block's tests of tags"),
        ("tag_depth", "coreshard-block's tests of tags"),
        ("counters", "coreshard-block's tests of counters"),
        ("memory", "coreshard-block's tests of hosts"),
        ("allow_overwrite", "bench_block_overwrite.rs"),
        ("allow_mounted_write", "bench_block_overwrite.rs"),
        ("registerfiles", "always on; 0 is rejected"),
        ("stonewall", "always on; 0 is rejected"),
        ("cpus_allowed_policy", "always split; shared is rejected"),
    ];
    let tests = include_str!("bench_block_words.rs");
    let tests = &tests[..tests.find("fn every_word_has_a_test").unwrap()];
    let is_tested = |key: &str| {
        tests
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .any(|word| word == key)
    };
    for key in JOB_KEYS {
        let elsewhere = ELSEWHERE.iter().any(|(word, _)| word == key);
        assert!(is_tested(key) || elsewhere, "{key}: no job of this file has it");
    }
}

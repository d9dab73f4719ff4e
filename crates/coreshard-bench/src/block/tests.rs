//! Small jobs, on real threads.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_results::BlockResults;

use super::*;
use crate::BenchError;
use crate::machine::BenchMachine;
use crate::progress::Unwatched;

fn run(job: BlockJob) -> Result<BlockResults, BenchError> {
    let bench = BlockBench { jobs: vec![job], repeat: NonZeroUsize::MIN };
    bench.run::<Host>(&BenchMachine::host(), &mut Unwatched)
}

fn job(ioengine: IoEngine) -> BlockJob {
    BlockJob { ioengine, iodepth: 8, number_ios: Some(200), ..BlockJob::default() }
}

fn on_file(path: &Path, ioengine: IoEngine) -> BlockJob {
    let filename = Some(path.to_owned());
    BlockJob { filename, size: Some(Amount::Bytes(1 << 20)), ..job(ioengine) }
}

#[test]
fn every_engine_counts_what_it_does_and_little_s_law_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for engine in
        [IoEngine::Null, IoEngine::Memory, IoEngine::Auto, IoEngine::Sync, IoEngine::Threads]
    {
        for rw in [Pattern::Read, Pattern::RandMixed] {
            let job = BlockJob { rw, numjobs: 2, ..on_file(&path, engine) };
            let results = run(job).unwrap();
            let job = &results.jobs[0];
            assert_eq!(job.read.total_ios + job.write.total_ios, 400, "{engine} {rw}");
            assert_eq!((job.issued, job.done, job.errors), (400, 400, 0));
            assert_eq!(job.read.io_bytes + job.write.io_bytes, 400 * 4096);
            assert_eq!(job.write.total_ios > 0, rw.writes());
            let law = job.littles_law;
            assert!((law.ratio - 1.0).abs() < 0.02, "{engine} {rw}: {law:?}");
            assert!(law.in_flight <= 16.0 && law.in_flight > 0.0, "{law:?}");
            let lat = &job.read.lat_ns;
            assert!(lat.min > 0 && lat.min <= lat.max && lat.percentile.len() == 17);
            assert!(lat.percentile.values().is_sorted());
            assert!((job.read.slat_ns.mean + job.read.clat_ns.mean - lat.mean).abs() < 1.0);
        }
    }
}

#[test]
fn runs_are_compared_and_end_in_time() {
    let timed = BlockJob {
        runtime: Some(Duration::from_millis(30)),
        time_based: true,
        ..job(IoEngine::Null)
    };
    let bench = BlockBench { jobs: vec![timed], repeat: NonZeroUsize::new(3).unwrap() };
    let results = bench.run::<Host>(&BenchMachine::host(), &mut Unwatched).unwrap();
    let repeats = &results.repeats[0];
    assert_eq!(repeats.iops.len(), 3);
    assert!(repeats.min <= repeats.average && repeats.average <= repeats.max);
    assert!(repeats.min > 0.0 && (0.0..1.0).contains(&repeats.spread), "{repeats:?}");
}

#[test]
fn what_was_written_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (engine, rw) in [
        (IoEngine::Auto, Pattern::RandWrite),
        (IoEngine::Memory, Pattern::Write),
        (IoEngine::Threads, Pattern::RandWrite),
    ] {
        let job =
            BlockJob { rw, verify: true, numjobs: 2, number_ios: None, ..on_file(&path, engine) };
        let results = run(job).unwrap();
        // Each thread writes the whole file, as in fio, and reads it back.
        assert_eq!(results.jobs[0].verified_bytes, 2 << 20, "{engine}");
        assert_eq!(results.jobs[0].write.total_ios, 512);
        assert_eq!(results.notes, [""; 0], "{engine}");
    }
    // A device that stores nothing is detected: a buffer still contains its previous content, of another
    // block.
    let job = BlockJob { rw: Pattern::RandWrite, verify: true, ..job(IoEngine::Null) };
    let error = run(job).unwrap_err();
    assert!(error.to_string().contains("is not what was written"), "{error}");
    assert!(!error.is_bad_input());
}

#[test]
fn jobs_that_cannot_be_are_told_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, [0; 5_000]).unwrap();
    let bare = BlockJob { filename: Some(path.clone()), ..job(IoEngine::Auto) };
    for (job, says) in [
        (BlockJob { filename: None, ..bare.clone() }, "give a filename"),
        (BlockJob { filename: Some(folder.path().join("no")), ..bare.clone() }, "create it"),
        (BlockJob { filename: Some(folder.path().to_owned()), ..bare.clone() }, "is a folder"),
        (BlockJob { bs: 8192, ..bare.clone() }, "give a smaller bs"),
        (BlockJob { size: Some(Amount::Bytes(10_000)), ..bare.clone() }, "give a smaller size"),
        (BlockJob { bs: 1000, direct: true, ..bare.clone() }, "direct=0"),
        (
            BlockJob {
                filename: Some("/no/such/folder/f".into()),
                size: Some(Amount::Bytes(1)),
                ..bare.clone()
            },
            "create its folder first",
        ),
    ] {
        let error = run(job).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn what_has_no_size_is_told() {
    let filename = Some("/dev/full".into());
    let error = run(BlockJob { filename, rw: Pattern::Write, ..job(IoEngine::Auto) }).unwrap_err();
    assert!(error.is_bad_input());
    assert!(error.to_string().contains("/dev/full has no size"), "{error}");
}

//! The command `coreshard bench block`, as a user meets it.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;

fn coreshard() -> Command {
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command.args(["bench", "block"]);
    command
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_job_of_options_prints_fio_s_lines_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let (file, report) = (folder.path().join("file"), folder.path().join("out.json"));
    coreshard()
        .arg(format!("--filename={}", file.display()))
        .args(["--rw=randrw", "--bs=4k", "--size=1m", "--iodepth=8", "--numjobs=2"])
        .args(["--number_ios=200", "--name=small", "--thread", "--repeat=2", "--json"])
        .arg(&report)
        .assert()
        .success()
        .stdout(predicate::str::contains("small: (groupid=0, jobs=2): err= 0"))
        .stdout(predicate::str::contains("clat percentiles"))
        .stdout(predicate::str::contains("spread="));
    let json = json(&report);
    let job = &json["jobs"][0];
    let ios = |direction: &str| job[direction]["total_ios"].as_u64().unwrap();
    assert_eq!(ios("read") + ios("write"), 400);
    assert_eq!(job["job options"]["rw"], "randrw");
    for key in ["iops", "iops_min", "iops_max", "iops_mean", "iops_stddev", "bw_bytes"] {
        assert!(job["read"][key].as_f64().unwrap() > 0.0 || key == "iops_stddev", "{key}");
    }
    for key in ["slat_ns", "clat_ns", "lat_ns"] {
        assert!(job["read"][key]["mean"].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(job["read"]["clat_ns"]["percentile"]["99.000000"].as_u64().unwrap() > 0);
    assert_eq!(json["repeats"][0]["iops"].as_array().unwrap().len(), 2);
    assert_eq!(fs::metadata(&file).unwrap().len(), 1 << 20, "laid out as fio does");
}

#[test]
fn a_job_file_runs_its_sections_with_the_options_on_top() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = folder.path().join("two.fio");
    fs::write(
        &jobs,
        "[global]\nioengine=memory\nsize=1m\nnumber_ios=50\n[one]\nrw=write\nverify=pattern\n[two]\n",
    )
    .unwrap();
    let out = coreshard().arg(&jobs).args(["--iodepth=4", "--json=-"]).assert().success();
    let json: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    let names: Vec<&str> = json["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["jobname"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(json["jobs"][0]["verified_bytes"], 50 * 4096);
    assert_eq!(json["jobs"][1]["job options"]["iodepth"], "4");
}

#[test]
fn bad_input_is_one_sentence_with_a_remedy_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = folder.path().join("bad.fio");
    fs::write(&jobs, "[a]\nbs=4k\nzonemode=zbd\n").unwrap();
    let small = folder.path().join("small");
    fs::write(&small, [0; 100]).unwrap();
    let (jobs, small) = (jobs.display().to_string(), small.display().to_string());
    let missing = folder.path().join("missing").display().to_string();
    let target = folder.path().display().to_string();
    for (args, says) in [
        (vec![jobs.as_str()], "bad.fio: line 3: zonemode: there is no such key"),
        (vec!["no-such.fio"], "the job file no-such.fio cannot be read"),
        (vec!["--bs=4q"], "--bs: \"4q\" is no number of bytes"),
        (vec!["--ioengine=libaio"], "io_uring, psync"),
        (vec!["--rw=randread"], "give a filename"),
        (vec!["--filename", &missing], "missing cannot be opened: No such file"),
        (vec!["--filename", &target], "is a folder"),
        (vec!["--filename", &small], "give a smaller bs"),
        (vec!["--ladder", "--bs=4k"], "--ladder takes no words of a job"),
        (
            vec!["--ioengine=null", "--number_ios=1", "--json=/no/such/folder/f"],
            "cannot be written",
        ),
    ] {
        let assert = coreshard().args(&args).assert().code(2);
        let output = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(output.contains(says), "{args:?}: {output}");
        assert_eq!(output.lines().count(), 1, "{output}");
    }
}

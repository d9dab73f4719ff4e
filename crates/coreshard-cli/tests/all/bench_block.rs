//! The command `coreshard bench block`, as a user meets it.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;
use testing::{Lack, NEVER, skip, within};

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
fn without_a_job_memory_is_read_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let assert = coreshard().current_dir(&folder).args(["--json"]).assert().success();
    let json: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["job options"]["ioengine"], "memory");
    assert!(job["read"]["total_ios"].as_u64().unwrap() > 0);
    assert_eq!(job["write"]["total_ios"], 0);
    assert!(json.to_string().contains("use --filename for a file or device"), "{json}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
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
        (vec![jobs.as_str()], "bad.fio: line 3: zonemode: unknown key"),
        (vec!["no-such.fio"], "cannot read the job file no-such.fio"),
        (vec!["--bs=4q"], "--bs: \"4q\" is not a number of bytes"),
        (vec!["--ioengine=mmap"], "io_uring, psync"),
        (vec!["--rw=randread"], "give a filename"),
        (vec!["--filename", &missing], "missing cannot be opened: No such file"),
        (vec!["--filename", &target], "is a folder"),
        (vec!["--filename", &small], "give a smaller bs"),
        (vec!["--compare", "--bs=4k"], "--compare accepts no job options"),
        (
            vec!["--ioengine=null", "--number_ios=1", "--json=/no/such/folder/f"],
            "cannot write the report",
        ),
    ] {
        let assert = coreshard().args(&args).assert().code(2);
        let output = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(output.contains(says), "{args:?}: {output}");
        assert_eq!(output.lines().count(), 1, "{output}");
    }
}

/// Returns the output of a command whose io_uring calls fail with `errno`, as in many containers. Returns `None`, with
/// a message, if seccomp filters are not available.
fn without_io_uring(errno: i32, args: Vec<String>) -> Option<std::process::Output> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    // The filter is the thread's, and that of the command which it starts.
    within(NEVER, move || {
        let forbid = || -> Result<(), Box<dyn std::error::Error>> {
            let rules = [(libc::SYS_io_uring_setup, Vec::new())].into_iter().collect();
            let answer = SeccompAction::Errno(errno as u32);
            let arch = std::env::consts::ARCH.try_into()?;
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?;
            Ok(seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?)
        };
        if let Err(error) = forbid() {
            skip(Lack::Seccomp, error);
            return None;
        }
        Some(coreshard().args(args).output().unwrap())
    })
}

#[test]
fn where_io_uring_is_forbidden_it_says_so_or_goes_on_without() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("file").display().to_string();
    for (errno, words) in
        [(libc::EPERM, "Operation not permitted"), (libc::ENOSYS, "Function not implemented")]
    {
        let run = |engine: &str| {
            let mut args: Vec<String> =
                ["--rw=randwrite", "--verify=pattern", "--size=1m", "--iodepth=4"]
                    .map(str::to_owned)
                    .into();
            args.extend([format!("--filename={file}"), format!("--ioengine={engine}")]);
            let output = without_io_uring(errno, args)?;
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            Some((output.status.code(), text(output.stdout), text(output.stderr)))
        };
        let Some((code, stdout, stderr)) = run("io_uring") else { return };
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        for word in [file.as_str(), words, "a seccomp filter is in force", "threads"] {
            assert!(stderr.contains(word), "{word:?} is not in {stderr}");
        }
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        for (engine, says) in
            [("auto", "thread pool (no io_uring: SINGLE_ISSUER"), ("threads", "thread pool\n")]
        {
            let (code, stdout, stderr) = run(engine).unwrap();
            assert_eq!(code, Some(0), "{stderr}");
            if engine == "auto" && stdout.contains("the file is in memory") {
                skip(Lack::Disk, "the build folder is in memory");
                continue;
            }
            assert!(stdout.contains(says), "{stdout}");
            assert!(engine != "auto" || stdout.contains(words), "{stdout}");
            assert!(stdout.contains("verified     : 1024KiB"), "{stdout}");
        }
    }
}

#[test]
fn fio_s_own_tool_reads_what_output_format_json_plus_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (plus, csv) = (folder.path().join("plus.json"), folder.path().join("out.csv"));
    let command = || {
        let mut command = coreshard();
        command.args(["--ioengine=memory", "--rw=randrw", "--size=1m", "--number_ios=2000"]);
        command
    };
    let stdout = |format: &str| -> Value {
        let out = command().arg(format!("--output-format={format}")).assert().success();
        serde_json::from_slice(&out.get_output().stdout).unwrap()
    };
    let json = stdout("json");
    assert!(json["jobs"][0]["read"]["clat_ns"].get("bins").is_none());
    let json = stdout("json+");
    for direction in ["read", "write"] {
        let direction = &json["jobs"][0][direction];
        let clat = &direction["clat_ns"];
        let bins = clat["bins"].as_object().unwrap();
        let counted: u64 = bins.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(counted, direction["total_ios"].as_u64().unwrap());
        assert_eq!(counted, clat["N"].as_u64().unwrap());
        let times: Vec<u64> = bins.keys().map(|ns| ns.parse().unwrap()).collect();
        assert!(times.len() > 1);
    }
    fs::write(&plus, serde_json::to_vec(&json).unwrap()).unwrap();
    for validate in [false, true] {
        let mut tool = std::process::Command::new("fio_jsonplus_clat2csv");
        tool.args([&plus, &csv]).args(validate.then_some("--validate"));
        let output = match tool.output() {
            Ok(output) => output,
            Err(error) => return skip(Lack::Fio, format!("fio_jsonplus_clat2csv: {error}")),
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains("ModuleNotFoundError") {
            return skip(Lack::Fio, format!("fio_jsonplus_clat2csv lacks a module: {stderr}"));
        }
        assert!(output.status.success(), "{stderr}");
    }
    let table = fs::read_to_string(folder.path().join("out_job0.csv")).unwrap();
    assert!(table.starts_with("nsec, ") && table.lines().count() > 2, "{table}");
    assert!(table.contains("read_clat_ns_count") && table.contains(", 1.0"), "{table}");
}

#[test]
#[ignore = "at night: simulates 512 CPUs"]
fn the_published_order_of_variants_comes_out_on_a_simulated_machine_at_night() {
    let run = || {
        let out = coreshard()
            .args(["--compare", "--machine=epyc-9754-2s", "--repeat=2", "--seeds=2", "--json=-"])
            .assert()
            .success();
        out.get_output().stdout.clone()
    };
    let bytes = run();
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let average = |row: usize| rows[row]["runs"]["average"].as_f64().unwrap();
    assert_eq!(rows[1]["seeds"]["average"]["each"].as_array().unwrap().len(), 2);
    assert!(average(1) > average(0), "padded beats packed");
    assert!(average(3) > average(2) && average(4) > average(2), "and no shared count beats both");
    assert_eq!(run(), bytes, "equal seeds give equal results");
    coreshard()
        .args(["--compare", "--machine=no-such"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("no-such"));
}

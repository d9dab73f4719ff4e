//! `coreshard bench block` writes over nothing that it did not make, unless it is told to.
#![expect(clippy::print_stderr, reason = "a test that leaves something out says so")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{Ending, wait_until};
use assert_cmd::Command;
use assert_cmd::cargo::CommandCargoExt;
use testing::{Lack, NEVER, skip};

const SMALL: [&str; 2] = ["--iodepth=2", "--ioengine=psync"];

fn bench(file: &Path, args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("coreshard").unwrap();
    command.args(["bench", "block", "--filename"]).arg(file).args(SMALL).args(args);
    command
}

/// Returns the error of a refusal: one line, with status 2.
fn refusal(mut command: Command) -> String {
    let output = command.assert().code(2).get_output().stderr.clone();
    let text = String::from_utf8(output).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// One that leads to the benchmark's own file when it is looked at, and may lead to the user's when it is opened.
#[test]
fn a_path_that_is_exchanged_all_the_time_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [path, ours, diary, next] =
        ["path", "ours", "diary", "next"].map(|name| folder.path().join(name));
    bench(&ours, &["--rw=write", "--size=64k"]).assert().success();
    let text = b"Dear diary, my file goes in and out.\n".repeat(2_000);
    fs::write(&diary, &text).unwrap();
    fs::hard_link(&ours, &path).unwrap();
    let is_over = AtomicBool::new(false);
    let (mut written, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for file in [&diary, &ours].into_iter().cycle() {
                fs::hard_link(file, &next).unwrap();
                fs::rename(&next, &path).unwrap();
                // A link to the same file is not removed.
                let _ = fs::remove_file(&next);
                if is_over.load(Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..30 {
            // No panic before the other thread has been told to stop.
            let output = bench(&path, &["--rw=write", "--number_ios=1"]).output();
            match output.ok().and_then(|output| output.status.code()) {
                Some(0) => written += 1,
                Some(2) => refused += 1,
                _ => {}
            }
        }
        is_over.store(true, Relaxed);
    });
    assert_eq!(fs::read(&diary).unwrap(), text);
    assert_eq!(written + refused, 30);
    eprintln!("{written} runs have written, {refused} were refused");
}

#[test]
fn a_file_of_the_user_s_is_written_only_where_the_user_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("diary");
    let diary: Vec<u8> = b"Dear diary, today I was not overwritten.\n".repeat(2_000);
    fs::write(&path, &diary).unwrap();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    for rw in ["write", "randwrite", "rw", "randrw"] {
        for name in [&path, &link] {
            for size in [&["--rw", rw][..], &["--rw", rw, "--size=64k"]] {
                let text = refusal(bench(name, size));
                for word in ["is not a file that this benchmark has laid out", "--allow-overwrite"]
                {
                    assert!(text.contains(word), "{word:?} is not in {text}");
                }
            }
        }
    }
    assert_eq!(fs::read(&path).unwrap(), diary);
    // It may be read.
    bench(&link, &["--rw=randread"]).assert().success();
    assert_eq!(fs::read(&path).unwrap(), diary);
    bench(&path, &["--rw=write", "--allow-overwrite"]).assert().success();
    assert_ne!(fs::read(&path).unwrap(), diary);
    // And a job file may say so, in fio's manner.
    fs::write(&path, &diary).unwrap();
    let jobs = folder.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nrw=write\nallow_overwrite=1\n").unwrap();
    bench(&path, &[jobs.to_str().unwrap()]).assert().success();
}

#[test]
fn what_a_former_run_has_laid_out_is_known_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for args in [
        &["--rw=randwrite", "--size=1m", "--verify=pattern"][..],
        &["--rw=randwrite", "--number_ios=100"],
        &["--rw=randrw", "--numjobs=2"],
        &["--rw=write", "--bs=64k"],
        &["--rw=write", "--verify=pattern", "--randseed=9"],
        &["--rw=write", "--size=1m", "--repeat=2", "--bs=16k"],
    ] {
        bench(&path, args).assert().success();
    }
    // Until another program writes to it.
    let mut bytes = fs::read(&path).unwrap();
    bytes[..4096].fill(b'x');
    fs::write(&path, &bytes).unwrap();
    refusal(bench(&path, &["--rw=write"]));
}

#[test]
fn a_report_that_is_an_input_too_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    bench(&path, &["--rw=write", "--size=64k"]).assert().success();
    let before = fs::read(&path).unwrap();
    let (soft, hard) = (folder.path().join("soft"), folder.path().join("hard"));
    symlink(&path, &soft).unwrap();
    fs::hard_link(&path, &hard).unwrap();
    for report in [&path, &soft, &hard] {
        let text =
            refusal(bench(&path, &["--rw=read", "--force", "--json", report.to_str().unwrap()]));
        assert!(text.contains("it would replace"), "{text}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    let jobs = folder.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nrw=read\n").unwrap();
    let jobs = jobs.to_str().unwrap();
    refusal(bench(&path, &[jobs, "--json", jobs]));
    assert_eq!(fs::read(jobs).unwrap(), b"[a]\nrw=read\n");
    // Neither exists yet.
    let new = folder.path().join("new");
    refusal(bench(&new, &["--rw=read", "--size=64k", "--json", new.to_str().unwrap()]));
    assert!(!new.exists());
}

#[test]
fn a_link_to_nothing_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (folder.path().join("link"), folder.path().join("not there"));
    symlink(&target, &link).unwrap();
    let text = refusal(bench(&link, &["--rw=read", "--size=64k"]));
    assert!(text.contains("a link whose target does not exist"), "{text}");
    assert_eq!(fs::read_link(&link).unwrap(), target);
    assert!(!target.exists());
}

#[test]
fn what_cannot_be_is_told_once_and_beforehand() {
    let none = Path::new("/dev/nope");
    for args in [&["--rw=read"][..], &["--rw=write", "--size=64k"]] {
        let text = refusal(bench(none, args));
        assert!(text.contains("/dev/nope") && text.contains("lsblk"), "{text}");
        assert!(!text.contains("create it"), "{text}");
        assert_eq!(text.matches("/dev/nope").count(), 1, "{text}");
        assert!(text.matches("No such file").count() <= 1, "{text}");
        assert!(!none.exists());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let text = refusal(bench(&path, &["--rw=read", "--verify=pattern", "--size=64k"]));
    assert!(text.contains("rw=read writes nothing"), "{text}");
    assert!(!path.exists());
    for args in [
        &["--ioengine=null", "--bs=1g", "--iodepth=65536", "--numjobs=4096"][..],
        &["--ioengine=memory", "--size=4194304t"],
        &["--ioengine=memory", "--size=900t"],
        &["--ioengine=null", "--rw=write", "--verify=pattern", "--bs=1", "--size=900t"],
    ] {
        let mut command = Command::cargo_bin("coreshard").unwrap();
        command.args(["bench", "block", "--number_ios=1"]).args(args);
        let text = refusal(command);
        assert!(text.contains("MiB of memory") && text.contains("are available"), "{text}");
    }
}

#[test]
fn ctrl_c_ends_the_making_of_a_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("file");
    let child = Process::cargo_bin("coreshard")
        .unwrap()
        .args(["bench", "block", "--rw=read", "--size=20g", "--filename"])
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Ending(child);
    wait_until("the file is begun", NEVER, || {
        fs::metadata(&path).ok().filter(|metadata| metadata.len() > 0)
    });
    child.interrupt();
    let status = wait_until("it has ended", NEVER, || child.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    assert!(!path.exists(), "half a file is removed");
}

/// A loop device on a file of 16 MiB; gone with the value.
struct Loop {
    device: PathBuf,
    mounted: Option<PathBuf>,
    _folder: tempfile::TempDir,
}

fn run(program: &str, args: &[&Path]) -> Option<String> {
    let output = Process::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

impl Loop {
    /// Returns `None` if this machine or this user has no loop devices.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::write(&image, vec![0; 16 << 20]).unwrap();
        let device = run("losetup", &["-f".as_ref(), "--show".as_ref(), &image])?;
        Some(Self { device: device.into(), mounted: None, _folder: folder })
    }

    fn mount(&mut self) -> Option<PathBuf> {
        let at = self._folder.path().join("mnt");
        fs::create_dir_all(&at).unwrap();
        run("mount", &[&self.device, &at])?;
        self.mounted = Some(at.clone());
        Some(at)
    }

    fn unmount(&mut self) {
        if let Some(at) = self.mounted.take() {
            run("umount", &[&at]).expect("it was mounted here");
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.unmount();
        let _ = run("losetup", &["-d".as_ref(), &self.device]);
    }
}

#[test]
fn a_device_is_written_where_the_user_says_so_and_it_is_not_in_use() {
    let Some(mut disk) = Loop::new() else {
        return skip(Lack::Loop, "losetup gives none");
    };
    let device = disk.device.clone();
    // The same for a blank device: its content is not inspected.
    let text = refusal(bench(&device, &["--rw=write"]));
    assert!(text.contains("is a block device") && text.contains("--allow-overwrite"), "{text}");
    for args in [&["--rw=write"][..], &["--rw=randwrite", "--verify=pattern"], &["--rw=randrw"]] {
        bench(&device, args).args(["--size=8m", "--allow-overwrite"]).assert().success();
    }
    if run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), &device]).is_none() {
        return skip(Lack::Ext4, "mkfs.ext4 makes none");
    }
    let Some(at) = disk.mount() else {
        return skip(Lack::Loop, "none can be mounted");
    };
    fs::write(at.join("kept"), b"kept").unwrap();
    for args in [&["--rw=write"][..], &["--rw=write", "--allow-overwrite"]] {
        let text = refusal(bench(&device, args));
        assert!(text.contains("it is mounted"), "{text}");
    }
    // It may be read.
    bench(&device, &["--rw=randread", "--number_ios=10"]).assert().success();
    assert_eq!(fs::read(at.join("kept")).unwrap(), b"kept");
    disk.unmount();
    assert!(run("fsck.ext4", &["-n".as_ref(), "-f".as_ref(), &device]).is_some(), "it is whole");
    bench(&device, &["--rw=write", "--allow-overwrite", "--size=1m"]).assert().success();
}

/// A device in exclusive use, as by a mount in another namespace.
#[test]
fn a_device_that_is_taken_is_refused_by_the_kernel() {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(disk) = Loop::new() else {
        return skip(Lack::Loop, "losetup gives none");
    };
    let taken = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(&disk.device)
        .unwrap();
    let args = ["--rw=write", "--size=1m", "--allow-overwrite"];
    let text = refusal(bench(&disk.device, &args));
    assert!(text.contains("in another namespace"), "{text}");
    drop(taken);
    bench(&disk.device, &args).assert().success();
}

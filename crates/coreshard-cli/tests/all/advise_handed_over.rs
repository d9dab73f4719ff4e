//! The output of `coreshard advise --emit` is given to the program that reads it. tuned applies its profile to a
//! recorded tree and reverts it. udev matches its rules with devices of this machine and finds the files that they
//! write. A shell runs the commands for root on a recorded tree. These tests run in mount namespaces in which this
//! machine's own files are read-only. The compiler checks the lines of a program, and kernel parameters are read by the
//! kernel's rules.
#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coreshard_advise::emit;
use coreshard_topology::{Scope, Topology};
use testing::{Lack, skip};

#[allow(unreachable_pub, reason = "it is also a module of other test programs")]
use crate::recordings::Recording;

/// What both kinds of lines are about: a scope, a parameter of the kernel's command line, a queue, and a device.
fn recording(device: &str) -> Recording {
    let machine = Topology::from_synthetic("pack:1 numa:1 l3:2 core:16 pu:1").unwrap();
    let recording = Recording::of(&machine);
    recording.kernel("7.1.3", "cache");
    recording
        .file("sys/module/workqueue/parameters/power_efficient", "Y")
        .file("sys/devices/virtual/workqueue/writeback/affinity_scope", "system")
        .file(&format!("sys/block/{device}/queue/rq_affinity"), "0")
        .file(&format!("sys/block/{device}/queue/rotational"), "0");
    // The files of a mounted file system, for code that looks for them first.
    recording.file("sys/devices/system/cpu/possible", "0-31");
    recording
}

/// Returns the emitted settings, with commented ones uncommented as if the user had decided for them.
fn emitted(recording: &Recording, form: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_coreshard"))
        .args(["advise", "--no-check", "--emit", form, "--machine"])
        .arg(recording.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("# consider: "), "{text}");
    text.replace("# consider: ", "")
}

fn is_there(program: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    places.iter().map(|place| Path::new(place).join(program)).find(|path| path.exists())
}

/// Runs a script as root in a separate mount namespace that cannot write to this machine. `$1` is a folder for the
/// script's files.
fn in_a_namespace(script: &str, folder: &Path) -> Option<Output> {
    let covered = "set -e; for place in /run /etc/udev /etc/tuned /var/lib/tuned /boot; do \
                   if [ -d $place ]; then mount -t tmpfs none $place; fi; done; \
                   mount --bind /dev /dev; mount -o remount,ro,bind /dev; \
                   mount --bind \"$1\" \"$1\"; mount -o remount,ro,bind /; echo covered; ";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &format!("{covered}{script}"), "sh"])
        .arg(folder)
        .output();
    output.ok().filter(|output| output.stdout.starts_with(b"covered\n"))
}

/// The text of a form on a machine that has all settings, for whom a test is still to be found: a new form fails here.
#[test]
fn every_form_has_a_test_with_its_reader() {
    let help =
        Command::new(env!("CARGO_BIN_EXE_coreshard")).args(["advise", "--emit", "?"]).output();
    let said = String::from_utf8(help.unwrap().stderr).unwrap();
    let forms = said.split_once("[possible values: ").and_then(|(_, rest)| rest.split_once(']'));
    let (forms, _) = forms.unwrap_or_else(|| panic!("{said}"));
    let tests = [
        ("sysfs", "a_shell_sets_the_machine_and_undoes_it"),
        ("boot", "parameters_are_what_the_kernel_reads"),
        ("tuned", "tuned_applies_its_profile_and_takes_it_back"),
        ("udev", "udev_matches_its_rules_with_devices_and_finds_the_files"),
        ("builder", "the_compiler_takes_the_lines_of_a_program"),
    ];
    assert_eq!(forms.split(", ").collect::<Vec<_>>(), tests.map(|(form, _)| form));
    let source = include_str!("advise_handed_over.rs");
    for (form, test) in tests {
        assert!(source.contains(&format!("\nfn {test}()")), "{form}: {test}");
    }
}

/// The newest builds of the library first: one of them is the one that this test is linked with.
fn libraries() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_coreshard")).with_file_name("deps");
    let made = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().flatten().map(|it| it.path()).collect();
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcoreshard-") && name.ends_with(".rlib")
    });
    found.sort_by_key(|path| std::cmp::Reverse(made(path)));
    found
}

/// Checks lines that stand in a function which returns errors, as the documentation shows them.
fn compile(programs: &[String]) {
    let functions = programs.iter().enumerate().map(|(at, lines)| {
        format!("pub fn program_{at}() -> Result<(), Box<dyn std::error::Error>> {{\n{lines}\nqueue.drain()?;\nOk(())\n}}\n")
    });
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("emitted.rs");
    fs::write(&source, functions.collect::<String>()).unwrap();
    let mut said = Vec::new();
    for library in libraries() {
        let output = Command::new("rustc")
            .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-L"])
            .arg(format!("dependency={}", library.parent().unwrap().display()))
            .arg("--extern")
            .arg(format!("coreshard={}", library.display()))
            .args(["-D", "warnings", "--out-dir"])
            .args([folder.path(), &source])
            .output()
            .unwrap();
        if output.status.success() {
            return;
        }
        said.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    panic!("{}", said.first().map_or("the library was not found", String::as_str));
}

fn printed(arguments: &[&str]) -> String {
    let command = Command::new(env!("CARGO_BIN_EXE_coreshard")).args(arguments).output().unwrap();
    assert!(command.status.success(), "{}", String::from_utf8_lossy(&command.stderr));
    String::from_utf8(command.stdout).unwrap()
}

#[test]
fn the_compiler_takes_the_lines_of_a_program() {
    let mut programs =
        vec![printed(&["advise", "--emit", "builder", "--no-check", "--machine", "grace"])];
    for scope in Scope::ALL {
        for cores in [None, Some(16)] {
            programs.push(emit::builder(
                scope,
                cores,
                "a reason that is longer than a line, ".repeat(9).trim(),
            ));
        }
    }
    // `coreshard tune` also shows its choice as such lines.
    let tuned = printed(&["tune", "--machine", "pocket", "--seeds", "1", "--items", "20"]);
    let shown = tuned.lines().find_map(|line| line.strip_prefix("in a program: "));
    programs.push(format!("let queue = {};", shown.unwrap_or_else(|| panic!("{tuned}"))));
    compile(&programs);
}

/// The parameters of a command line as the kernel splits it: at spaces outside of quotes. A parameter of a module is
/// `module.name=value`; see "The kernel's command-line parameters" in its documentation.
fn parameters(line: &str) -> Vec<(String, String)> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    assert!(!is_quoted, "a quote is not closed: {line}");
    let words = words.into_iter().filter(|word| !word.is_empty());
    let split = |word: String| match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (word, String::new()),
    };
    words.map(split).collect()
}

#[test]
fn parameters_are_what_the_kernel_reads() {
    let recording = recording("vdz");
    let text = emitted(&recording, "boot");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let found: Vec<_> = lines.flat_map(parameters).collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"workqueue.power_efficient"), "{text}");
    let parameters = recording.path().join("sys/module");
    for (name, value) in &found {
        let is_name = |part: &str| part.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        assert!(!value.is_empty() && name.split('.').all(is_name), "{name}={value}: {text}");
        // A module's parameter is one that the machine has.
        if let Some((module, name)) = name.split_once('.') {
            assert!(parameters.join(module).join("parameters").join(name).exists(), "{text}");
        }
    }
}

#[test]
fn a_shell_sets_the_machine_and_undoes_it() {
    let recording = recording("vdz");
    let lines = emitted(&recording, "sysfs");
    let undone = lines.lines().filter_map(|line| line.strip_prefix("# undo: "));
    let undone = undone.collect::<Vec<_>>().join("\n");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set"), &lines).unwrap();
    fs::write(folder.path().join("undo"), &undone).unwrap();
    let places = [
        "module/workqueue/parameters/default_affinity_scope",
        "devices/virtual/workqueue/writeback/affinity_scope",
        "block/vdz/queue/rq_affinity",
    ];
    // Only the recorded tree can be written: a line with another path fails.
    let script = format!(
        "cp -r {sys} \"$1/sys\"; cd \"$1\"; mount --bind sys /sys; \
         show() {{ for file in {places}; do cat /sys/$file; done; }}; \
         sh -eu ./set >&2; show; sh -eu ./undo >&2; echo and back; show",
        sys = recording.path().join("sys").display(),
        places = places.join(" "),
    );
    let Some(output) = in_a_namespace(&script, folder.path()) else {
        skip(Lack::Root, "lines for root's shell: a mount namespace cannot be had");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let shown =
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(shown, "covered cache_shard default 1 and back cache system 0", "{lines}{said}");
}

#[test]
fn tuned_applies_its_profile_and_takes_it_back() {
    let Some(tuned) = is_there("tuned").filter(|_| Path::new("/etc/tuned").is_dir()) else {
        skip(Lack::Tuned, "a profile for tuned: /usr/sbin/tuned is not there (Debian: tuned)");
        return;
    };
    let recording = recording("vdz");
    let profile = emitted(&recording, "tuned");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tuned.conf"), &profile).unwrap();
    // tuned is given the recorded tree as /sys. It is asked to end when it has applied the profile, and takes it back then.
    let scope = "/sys/module/workqueue/parameters/default_affinity_scope";
    let script = format!(
        "cp -r {sys} \"$1/sys\"; cd \"$1\"; \
         mkdir -p /etc/tuned/coreshard; cp tuned.conf /etc/tuned/coreshard/; \
         echo 'daemon = 1' >/etc/tuned/tuned-main.conf; : >/etc/tuned/bootcmdline; \
         mkdir /run/tuned; mount --bind sys /sys; \
         show() {{ for file in {scope} /sys/devices/virtual/workqueue/writeback/affinity_scope \
           /sys/block/vdz/queue/rq_affinity; do cat $file; echo; done; cat /etc/tuned/bootcmdline; }}; \
         {tuned} --no-dbus --no-socket --profile coreshard --log=\"$1/log\" --pid=\"$1/pid\" >&2 & tuned=$!; \
         for turn in $(seq 300); do if grep -q 'static tuning.*applied' log 2>/dev/null; then break; fi; sleep 0.1; done; \
         show; kill -TERM $tuned; wait $tuned || true; echo and back; show; cat log >&2",
        sys = recording.path().join("sys").display(),
        tuned = tuned.display(),
    );
    let Some(output) = in_a_namespace(&script, folder.path()) else {
        skip(Lack::Root, "a profile for tuned: a mount namespace cannot be had");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let shown = String::from_utf8_lossy(&output.stdout);
    let (applied, back) =
        shown.split_once("and back\n").unwrap_or_else(|| panic!("{shown}\n{said}"));
    let words =
        |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let applied = words(applied);
    assert!(applied.starts_with("covered cache_shard default 1 "), "{applied}\n{profile}\n{said}");
    assert!(
        applied.contains("TUNED_BOOT_CMDLINE=\"workqueue.power_efficient=0\""),
        "{applied}\n{profile}\n{said}"
    );
    assert!(words(back).starts_with("cache system 0"), "{back}\n{said}");
    assert!(!said.contains("ERROR") && !said.contains("WARNING"), "{said}");
}

#[test]
fn udev_matches_its_rules_with_devices_and_finds_the_files() {
    let Some(udevadm) = is_there("udevadm") else {
        skip(Lack::Udev, "rules for udev: udevadm is not there (Debian: udev)");
        return;
    };
    // A device of this machine's, if there is one that the advice may be about.
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let made = ["loop", "ram", "zram", "dm-", "md", "nbd", "sr", "fd"];
    let device = names
        .filter(|name| !made.iter().any(|made| name.starts_with(made)))
        .find(|name| Path::new("/sys/block").join(name).join("queue/rq_affinity").exists());
    let recording = recording(device.as_deref().unwrap_or("vdz"));
    let rules = emitted(&recording, "udev");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("60-coreshard.rules"), &rules).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let test = |place: &str| {
        let script = format!(
            "mount --bind /sys /sys; mount -o remount,ro,bind /sys; mkdir -p /run/udev/rules.d; \
             cp \"$1/60-coreshard.rules\" /run/udev/rules.d/; \
             if {udevadm} verify --help >/dev/null 2>&1; then {udevadm} verify \"$1/60-coreshard.rules\"; fi; \
             {udevadm} test --action=add {place} 2>&1",
            udevadm = udevadm.display()
        );
        in_a_namespace(&script, folder.path())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let queue = "/sys/devices/virtual/workqueue/writeback";
    let Some(said) = test(queue) else {
        skip(Lack::Root, "rules for udev: a mount namespace cannot be had");
        return;
    };
    // It says what it writes, and then that it may not.
    let writes = |said: &str, file: &str, value: &str| {
        said.lines().any(|line| {
            line.contains("60-coreshard.rules") && line.contains(file) && line.contains(value)
        })
    };
    assert!(writes(&said, "writeback/affinity_scope", "writing 'default'"), "{rules}\n{said}");
    assert!(!said.contains("60-coreshard.rules:1 Invalid"), "{rules}\n{said}");
    if let Some(device) = device {
        let said = test(&format!("/sys/block/{device}")).unwrap();
        let file = format!("{device}/queue/rq_affinity");
        assert!(writes(&said, &file, "writing '1'"), "{rules}\n{said}");
    } else {
        skip(Lack::Udev, "rules for udev: this machine has no block device");
    }
}

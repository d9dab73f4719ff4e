//! `coreshard layout` on the kernel's types and on invalid input.

use std::path::Path;
use std::process;

use assert_cmd::Command;
use predicates::prelude::*;
use testing::{Lack, skip};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";

fn layout(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("coreshard").expect("the command is built");
    command.arg("layout").args(arguments).assert()
}

/// `list_head` is two pointers in every kernel; without BTF, `own_types.rs` of the crate below tests the same reader.
#[test]
fn the_kernels_types_are_shown_in_each_form() {
    if !Path::new(KERNEL).exists() {
        return skip(Lack::Btf, "the kernel tells no types");
    }
    layout(&["--btf", KERNEL, "list_head"]).success().stdout(
        predicate::str::contains("struct list_head: 16 bytes")
            .and(predicate::str::contains("prev")),
    );
    let json = layout(&["--btf", KERNEL, "list_head", "--json"]).success();
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(json[0]["fields"][1]["offset_bytes"], 8);
    layout(&["--btf", KERNEL, "list_head", "--format", "svg"]).success().stdout(
        predicate::str::starts_with("<svg").and(predicate::str::contains("prev at 8, 8 bytes")),
    );
    layout(&["--btf", KERNEL, "no_such_type"]).code(2).stderr(predicate::str::contains("no type"));
}

#[test]
fn what_is_no_program_is_told_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut");
    std::fs::write(&file, b"\x7fELF\x02\x01\x01").unwrap();
    layout(&[file.to_str().unwrap()]).code(2).stderr(predicate::str::contains("not an ELF file"));
    layout(&["--btf", file.to_str().unwrap()])
        .code(2)
        .stderr(predicate::str::contains("BTF at offset 0"));
    layout(&["/dev/zero"]).code(2).stderr(predicate::str::contains("found a device"));
    layout(&[]).code(2).stderr(predicate::str::contains("expected a BINARY or --btf FILE"));
}

/// Compiles a program in `folder`. Returns false if the compiler is missing.
fn is_compiled(folder: &Path, compiler: &str, source: &str, options: &[&str]) -> bool {
    let name = if compiler == "cc" { "program.c" } else { "program.cpp" };
    std::fs::write(folder.join(name), source).unwrap();
    let mut command = process::Command::new(compiler);
    let output = command.args(["-o", "program", name]).args(options).current_dir(folder).output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return false,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn a_file_with_split_debug_information_is_read_and_named_if_it_is_missing() {
    const SOURCE: &str =
        "struct device { char kind; long issued; } it;\nint main(void) { return it.kind; }\n";
    let folder = tempfile::tempdir().unwrap();
    if !is_compiled(folder.path(), "cc", SOURCE, &["-g", "-gsplit-dwarf"]) {
        return skip(Lack::CCompiler, "cc does not start");
    }
    let program = folder.path().join("program");
    let program = program.to_str().unwrap();
    layout(&[program, "device"])
        .success()
        .stdout(predicate::str::contains("struct device: 16 bytes"))
        .stderr("");
    let mut files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let split = files.find(|file| file.extension().is_some_and(|ending| ending == "dwo")).unwrap();
    std::fs::remove_file(&split).unwrap();
    let names_it = predicate::str::contains(format!("{} is missing", split.display()));
    let names_both = names_it.and(predicate::str::contains(format!("there is no {program}.dwp")));
    layout(&[program, "device"]).code(2).stderr(names_both);
}

#[test]
fn virtual_bases_and_pointers_to_member_functions_are_shown_with_their_place() {
    const SOURCE: &str = "struct Device { long issued; };\nstruct Queue : virtual Device { int depth; void (Queue::*run)(); };\n\
        Queue queue;\nint main() { return queue.depth; }\n";
    let folder = tempfile::tempdir().unwrap();
    if !is_compiled(folder.path(), "c++", SOURCE, &["-g"]) {
        return skip(Lack::CppCompiler, "c++ does not start");
    }
    let program = folder.path().join("program");
    let json = layout(&[program.to_str().unwrap(), "Queue", "--json"]).success();
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    let fields: Vec<_> = json[0]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| {
            (field["name"].as_str().unwrap(), &field["offset_bytes"], &field["size_bytes"])
        })
        .collect();
    assert_eq!(
        fields[2..],
        [("run", &16.into(), &16.into()), ("(virtual base Device)", &32.into(), &8.into())]
    );
    assert_eq!(json[0]["padding_bytes"], 0, "{json:#}");
}

//! The peers of other languages: this program contains their source code. They are built when they are
//! needed, if their toolchain and library are present.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::driver::Program;

const CELL_HPP: &str = include_str!("../foreign/cell.hpp");
const GO: &str = include_str!("../foreign/go.go");

struct Cpp {
    name: &'static str,
    source: &'static str,
    /// A header that exists if the library is installed.
    header: &'static str,
    options: &'static [&'static str],
    /// The pkg-config package with further options.
    pkg_config: Option<&'static str>,
    package: &'static str,
}

const CPP: [Cpp; 8] = [
    Cpp {
        name: "coreshard-cpp",
        source: include_str!("../foreign/coreshard_cpp.cpp"),
        header: "coreshard.hpp",
        options: &["-std=c++20"],
        pkg_config: Some("coreshard-cpp"),
        package: "none; bindings/cpp/install.sh installs it, and PKG_CONFIG_PATH must contain its folder",
    },
    Cpp {
        name: "coreshard-c",
        source: include_str!("../foreign/coreshard_c.cpp"),
        header: "coreshard.h",
        options: &[],
        pkg_config: Some("coreshard"),
        package: "none; bindings/c/install.sh installs it, and PKG_CONFIG_PATH must contain its folder",
    },
    Cpp {
        name: "libdispatch",
        source: include_str!("../foreign/libdispatch.cpp"),
        header: "dispatch/dispatch.h",
        // Its headers use clang's feature checks.
        options: &["-D__has_feature(name)=0", "-D__has_extension(name)=0", "-ldispatch"],
        pkg_config: None,
        package: "libdispatch-dev",
    },
    Cpp {
        name: "onetbb",
        source: include_str!("../foreign/onetbb.cpp"),
        header: "tbb/task_arena.h",
        options: &["-ltbb"],
        pkg_config: None,
        package: "libtbb-dev",
    },
    Cpp {
        name: "taskflow",
        source: include_str!("../foreign/taskflow.cpp"),
        header: "taskflow/taskflow.hpp",
        options: &["-std=c++20"],
        pkg_config: None,
        package: "none; github.com/taskflow/taskflow, and CPLUS_INCLUDE_PATH must contain its folder",
    },
    Cpp {
        name: "dispenso",
        source: include_str!("../foreign/dispenso.cpp"),
        header: "dispenso/thread_pool.h",
        options: &["-ldispenso"],
        pkg_config: None,
        package: "none; github.com/facebookincubator/dispenso, and CPLUS_INCLUDE_PATH, LIBRARY_PATH and LD_LIBRARY_PATH must contain its folders",
    },
    Cpp {
        name: "asio",
        source: include_str!("../foreign/asio.cpp"),
        header: "asio.hpp",
        options: &[],
        pkg_config: None,
        package: "libasio-dev",
    },
    Cpp {
        name: "eigen",
        source: include_str!("../foreign/eigen.cpp"),
        header: "unsupported/Eigen/CXX11/ThreadPool",
        options: &["-isystem", "/usr/include/eigen3"],
        pkg_config: None,
        package: "libeigen3-dev",
    },
];

/// Returns the program that runs a peer's cells: `own` for Rust peers, otherwise another one, built now
/// unless it exists. Built programs are kept beside `own`.
pub(crate) fn program(peer: &str, own: &Path) -> Program {
    let directory = own.parent().unwrap_or(Path::new(".")).join("foreign");
    let built = match CPP.iter().find(|cpp| cpp.name == peer) {
        Some(cpp) => build_cpp(cpp, &directory),
        None if peer == "go" => build_go(&directory),
        None => {
            let first_arguments = vec!["--cell".to_owned()];
            return Program::Ready { program: own.to_owned(), first_arguments };
        }
    };
    match built {
        Ok(program) => Program::Ready { program, first_arguments: Vec::new() },
        Err(Missing::Here(reason)) => Program::Absent(reason),
        Err(Missing::Broken(reason)) => Program::Broken(reason),
    }
}

enum Missing {
    /// The package that must be installed.
    Here(String),
    /// All packages are installed, but it does not build.
    Broken(String),
}

fn build_cpp(cpp: &Cpp, directory: &Path) -> Result<PathBuf, Missing> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if !succeeds(Command::new(&compiler).arg("--version")) {
        return Err(Missing::Here(format!("no C++ compiler {compiler} (Debian: g++)")));
    }
    let options = match cpp.pkg_config {
        None => Vec::new(),
        Some(package) => pkg_config(package).ok_or_else(|| {
            Missing::Here(format!("pkg-config has no {package} (Debian: {})", cpp.package))
        })?,
    };
    // Only preprocesses its standard input: succeeds if the header is found.
    let mut probe = Command::new(&compiler);
    probe.args(["-std=c++17", "-DEIGEN_USE_THREADS", "-DASIO_STANDALONE"]).args(cpp.options);
    probe.args(&options);
    probe.args(["-E", "-x", "c++", "-", "-o", "/dev/null"]);
    if !succeeds_with_input(&mut probe, &format!("#include <{}>\n", cpp.header)) {
        return Err(Missing::Here(format!("{} not found (Debian: {})", cpp.header, cpp.package)));
    }
    build(directory, cpp.name, "cpp", cpp.source, |source, output| {
        let mut command = Command::new(&compiler);
        command.args(["-std=c++17", "-O3", "-march=native", "-g1", "-pthread", "-o"]).arg(output);
        command.arg(source).args(cpp.options).args(&options);
        command
    })
}

/// Returns the options for compiling and linking with a package, and for finding it at run time.
fn pkg_config(package: &str) -> Option<Vec<String>> {
    let output = Command::new("pkg-config").args(["--cflags", "--libs", package]).output().ok()?;
    let options = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let options = options.split_whitespace().map(str::to_owned);
    let searched = |option: &String| Some(format!("-Wl,-rpath,{}", option.strip_prefix("-L")?));
    let options: Vec<String> = options.collect();
    let found_again: Vec<String> = options.iter().filter_map(searched).collect();
    Some(options.into_iter().chain(found_again).collect())
}

fn build_go(directory: &Path) -> Result<PathBuf, Missing> {
    const NEEDED: &str = "Go 1.25 or newer is needed (Debian: golang-go)";
    let version = Command::new("go").args(["env", "GOVERSION"]).output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let minor = version.as_deref().ok().and_then(go_minor);
    if minor.is_none_or(|minor| minor < 25) {
        return Err(Missing::Here(NEEDED.to_owned()));
    }
    build(directory, "go", "go", GO, |source, output| {
        let mut command = Command::new("go");
        command.args(["build", "-o"]).arg(output).arg(source);
        command
    })
}

/// Returns the 26 of `go1.26.8`. A later major version counts as newer than all.
fn go_minor(version: &str) -> Option<u32> {
    let mut parts = version.trim().strip_prefix("go")?.split(['.', '-', ' ']);
    let major: u32 = parts.next()?.parse().ok()?;
    if major > 1 {
        return Some(u32::MAX);
    }
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    digits(parts.next()?).parse().ok()
}

/// Writes the source into the directory and builds it, unless the program of the same source exists
/// there already.
fn build(
    directory: &Path,
    name: &str,
    extension: &str,
    source: &str,
    command: impl FnOnce(&Path, &Path) -> Command,
) -> Result<PathBuf, Missing> {
    let broken = |error: std::io::Error| Missing::Broken(error.to_string());
    let mut hasher = DefaultHasher::new();
    (CELL_HPP, source).hash(&mut hasher);
    let program = directory.join(format!("{name}-{:016x}", hasher.finish()));
    if program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(directory).map_err(broken)?;
    let source_path = directory.join(format!("{name}.{extension}"));
    fs::write(directory.join("cell.hpp"), CELL_HPP).map_err(broken)?;
    fs::write(&source_path, source).map_err(broken)?;
    // Built under another name and then renamed, so that an aborted build does not count as a program.
    let aside = directory.join(format!("{name}-{}", std::process::id()));
    let output = command(&source_path, &aside).stdin(Stdio::null()).output().map_err(broken)?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let first = errors.lines().find(|line| line.contains("error")).or(errors.lines().next());
        return Err(Missing::Broken(format!(
            "does not build: {}",
            first.unwrap_or("no reason given")
        )));
    }
    fs::rename(&aside, &program).map_err(broken)?;
    Ok(program)
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn succeeds_with_input(command: &mut Command, input: &str) -> bool {
    let quiet = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // If the child does not read it, its status shows that.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_understood() {
        assert_eq!(go_minor("go1.26.8\n"), Some(26));
        assert_eq!(go_minor("go1.25rc1"), Some(25));
        assert_eq!(go_minor("go2.0"), Some(u32::MAX));
        assert_eq!(go_minor(""), None);
        assert_eq!(go_minor("devel"), None);
    }

    #[test]
    fn a_program_that_does_not_build_is_broken_and_says_why() {
        let directory =
            std::env::temp_dir().join(format!("coreshard-peers-{}", std::process::id()));
        let outcome = build(&directory, "no", "c", "no C", |_, _| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo 'no.c:1: error: no C' >&2; exit 1"]);
            command
        });
        fs::remove_dir_all(&directory).unwrap();
        let Err(Missing::Broken(reason)) = outcome else { panic!("it cannot be built") };
        assert!(reason.contains("error: no C"), "{reason}");
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_its_package() {
        let cpp = Cpp {
            name: "none",
            source: "",
            header: "no/such/header.h",
            options: &[],
            pkg_config: None,
            package: "libnone-dev",
        };
        let Err(Missing::Here(reason)) = build_cpp(&cpp, Path::new("/no/such/directory")) else {
            panic!("the header does not exist");
        };
        // Without a compiler, the compiler is reported first.
        assert!(reason.contains("libnone-dev") || reason.contains("g++"), "{reason}");
    }
}

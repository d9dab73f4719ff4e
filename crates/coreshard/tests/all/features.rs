//! No feature changes a type: it adds names. Under whatever features this is compiled, the names in the root are the host's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use coreshard::Host;

/// Compiles only if both are one type.
macro_rules! same {
    ($($name:ident$(<$($argument:tt),+>)?),+ $(,)?) => {
        $(const _: fn(coreshard::$name$(<$($argument),+>)?) -> coreshard_workqueue::$name<$($($argument,)+)? Host> =
            |value| value;)+
    };
}

same! {
    Workqueue, Builder<'static>, Change, Work, EmbeddedWorks, Periodic, JoinHandle<u8>, CancelledItem<u8>, JoinSet<u8>,
    WorkScope<'static, 'static>, ScopedJoinHandle<'static, u8>, Runtime, RuntimeBuilder, Current, Team,
    TeamBuilder<'static>, TeamScope<'static>, CancellationToken, WaitForCancellation, Sleep, Timeout<u8>,
    QueueAsync<'static, u8>, Reservation, ReserveAsync, Blocking, ConsumeBudget,
}

/// The functions of the root.
#[allow(dead_code, reason = "it is compiled, not run")]
fn functions_of_the_root_are_the_hosts() -> Result<(), coreshard::RuntimeError> {
    let _: &coreshard_workqueue::Runtime<Host> = coreshard::runtime()?;
    let _: coreshard_workqueue::RuntimeBuilder<Host> = coreshard::runtime_builder()?;
    let _: coreshard_workqueue::Builder<'_, Host> = coreshard::workqueue()?;
    let _: coreshard_workqueue::TeamBuilder<'_, Host> = coreshard::team("team")?;
    let _: Option<coreshard_workqueue::Current<Host>> = coreshard::current();
    drop::<coreshard_workqueue::ConsumeBudget<Host>>(coreshard::consume_budget());
    let timeout = coreshard::timeout(std::time::Duration::ZERO, std::future::ready(()));
    drop::<coreshard_workqueue::Timeout<_, Host>>(timeout);
    Ok(())
}

/// Types that are used without a word about the platform.
#[test]
fn the_platform_is_inferred() {
    // Of what is made without a word about it.
    assert!(coreshard::Team::here().is_none());
    assert!(coreshard::JoinSet::<u8>::new().is_empty());
    let _works = coreshard::EmbeddedWorks::leak(1);
    let queue = coreshard::workqueue().unwrap().name("inferred").build().unwrap();
    let work = coreshard::Work::new(|_work| ());
    assert!(work.queue(&queue).unwrap());
    work.flush().unwrap();
    let mut set = coreshard::JoinSet::new();
    set.spawn(&queue, async { 1 }).unwrap();
    set.abort_all();
    // Nothing here says the platform.
    assert!(!coreshard::Work::new(|_work| ()).is_pending());
    let token = coreshard::CancellationToken::new();
    assert!(!token.child_token().is_cancelled());
    let handle: coreshard::JoinHandle<u32> = queue.submit(|| 2).unwrap();
    assert_eq!(handle.join().unwrap(), 2);
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A feature that replaces something also has an attribute for its absence.
#[test]
fn no_feature_replaces_anything() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in [
        "coreshard",
        "coreshard-block",
        "coreshard-rt",
        "coreshard-topology",
        "coreshard-workqueue",
    ] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 100, "the sources were read: {}", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // Bugs that are planted for tests are in no public name.
        let text = text.replace("not(feature = \"canaries\")", "");
        let text: String = text.split_whitespace().collect();
        assert!(!text.contains("not(feature="), "{}: a feature replaces something", file.display());
        assert!(
            !text.contains("cfg!(feature="),
            "{}: a feature changes what a function does",
            file.display()
        );
    }
}

/// `use coreshard::*` would hide a crate of that name.
#[test]
fn no_module_of_the_root_is_named_as_a_crate_beside_it() {
    let root = include_str!("../../src/lib.rs");
    let modules: BTreeSet<_> = root
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod "))
        .map(|line| line.trim_end_matches([';', '{', '}', ' ']))
        .collect();
    assert!(modules.contains("integration") && modules.contains("guide"), "{modules:?}");
    let manifest = include_str!("../../Cargo.toml");
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").expect("it has some");
    let crates = dependencies
        .lines()
        .filter_map(|line| line.split(['=', '.']).next())
        .map(|name| name.trim().replace('-', "_"));
    // Those of a user whose traits are implemented behind a feature.
    let crates: BTreeSet<String> =
        crates.chain(["futures", "hyper", "tokio", "tower"].map(str::to_owned)).collect();
    let ours = "testing";
    for module in modules.into_iter().filter(|module| *module != ours) {
        assert!(!crates.contains(module), "coreshard::{module} hides the crate {module}");
    }
}

/// Links from one crate's pages to another's lead to docs.rs, of this very version.
#[test]
fn each_library_says_where_its_documentation_is() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["", "-block", "-platform", "-rt", "-sim", "-topology", "-workqueue"] {
        let name = format!("coreshard{name}");
        let root = std::fs::read_to_string(crates.join(&name).join("src/lib.rs")).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let line = format!("#![doc(html_root_url = \"https://docs.rs/{name}/{version}\")]");
        assert!(root.lines().any(|known| known == line), "{name} lacks the line {line}");
        assert!(root.contains("missing_debug_implementations"), "{name}: types without Debug");
    }
}

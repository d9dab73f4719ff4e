//! A directory walk that adds up sizes by extension: an item for each directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use jobs::Which;

#[derive(Parser)]
struct Arguments {
    executor: Which,
    #[arg(long, default_value_t = 30_000)]
    files: usize,
    #[arg(long, default_value_t = 64)]
    mean_bytes: usize,
    /// How often the tree is walked, one after the other.
    #[arg(long, default_value_t = 5)]
    times: u32,
    #[arg(long, default_value_t = 60.0)]
    limit_s: f64,
}

/// Files and bytes, by extension.
type Sizes = BTreeMap<String, (u64, u64)>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    harness::run(Duration::from_secs_f64(arguments.limit_s), Duration::from_millis(1), || {
        let root = jobs::tree(arguments.files, arguments.mean_bytes).expect("the tree can be made");
        let sizes = Mutex::new(Sizes::new());
        let hash = || harness::hash(format!("{sizes:?}").as_bytes());
        match arguments.executor {
            Which::Coreshard => {
                let builder = coreshard::workqueue().expect("the machine can be read");
                let queue = builder.name("walk").build().expect("a queue");
                harness::timed(|| {
                    for _ in 0..arguments.times {
                        // On a worker, like rayon's scope.
                        let walked = queue.install(|| queue.scope(|scope| on_coreshard(scope, root.clone(), &sizes)));
                        walked.expect("the queue is open");
                    }
                    hash()
                })
            }
            Which::Rayon => harness::timed(|| {
                for _ in 0..arguments.times {
                    rayon::scope(|scope| on_rayon(scope, root.clone(), &sizes));
                }
                hash()
            }),
        }
    })
}

fn on_coreshard<'scope>(
    scope: &'scope coreshard::WorkScope<'scope, '_>,
    directory: PathBuf,
    sizes: &'scope Mutex<Sizes>,
) {
    for directory in here(&directory, sizes) {
        let item = move || on_coreshard(scope, directory, sizes);
        scope.queue(item).expect("the queue is open");
    }
}

fn on_rayon<'scope>(scope: &rayon::Scope<'scope>, directory: PathBuf, sizes: &'scope Mutex<Sizes>) {
    for directory in here(&directory, sizes) {
        scope.spawn(move |scope| on_rayon(scope, directory, sizes));
    }
}

/// Adds up the files of one directory. Returns its subdirectories.
fn here(directory: &PathBuf, sizes: &Mutex<Sizes>) -> Vec<PathBuf> {
    let (files, directories) = jobs::entries(directory).expect("it can be read");
    let mut own = Sizes::new();
    for file in files {
        let path = file.path();
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let entry = own.entry(extension).or_default();
        entry.0 += 1;
        entry.1 += file.metadata().expect("it can be read").len();
    }
    let mut sizes = sizes.lock().expect("nobody panics");
    for (extension, (files, bytes)) in own {
        let entry = sizes.entry(extension).or_default();
        entry.0 += files;
        entry.1 += bytes;
    }
    directories
}

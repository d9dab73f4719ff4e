//! A recursive search like grep -rn: an item for each directory and for each file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Parser;
use jobs::Which;
use regex::bytes::Regex;

#[derive(Parser)]
struct Arguments {
    executor: Which,
    /// The regular expression to search for.
    #[arg(long, default_value = "steal (wake|park) .*[13579]7$")]
    pattern: String,
    #[arg(long, default_value_t = 6000)]
    files: usize,
    #[arg(long, default_value_t = 16 * 1024)]
    mean_bytes: usize,
    #[arg(long, default_value_t = 60.0)]
    limit_s: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    harness::run(Duration::from_secs_f64(arguments.limit_s), Duration::from_millis(1), || {
        let root = jobs::tree(arguments.files, arguments.mean_bytes).expect("the tree can be made");
        let search = Search {
            pattern: Regex::new(&format!("(?m){}", arguments.pattern)).expect("an expression"),
            root: root.clone(),
            found: AtomicU64::new(0),
        };
        match arguments.executor {
            Which::Coreshard => {
                let builder = coreshard::workqueue().expect("the machine can be read");
                let queue = builder.name("grep").build().expect("a queue");
                harness::timed(|| {
                    // On a worker, like rayon's scope.
                    let searched = queue.install(|| queue.scope(|scope| search.on_coreshard(scope, root)));
                    searched.expect("the queue is open");
                    search.found.load(Relaxed)
                })
            }
            Which::Rayon => harness::timed(|| {
                rayon::scope(|scope| search.on_rayon(scope, root));
                search.found.load(Relaxed)
            }),
        }
    })
}

struct Search {
    pattern: Regex,
    root: PathBuf,
    /// The sum of the hashes of all lines found, each with its file and number.
    found: AtomicU64,
}

impl Search {
    fn on_coreshard<'scope>(
        &'scope self,
        scope: &'scope coreshard::WorkScope<'scope, '_>,
        directory: PathBuf,
    ) {
        let (files, directories) = jobs::entries(&directory).expect("it can be read");
        for directory in directories {
            let item = move || self.on_coreshard(scope, directory);
            scope.queue(item).expect("the queue is open");
        }
        for file in files {
            scope.queue(move || self.file(&file.path())).expect("the queue is open");
        }
    }

    fn on_rayon<'scope>(&'scope self, scope: &rayon::Scope<'scope>, directory: PathBuf) {
        let (files, directories) = jobs::entries(&directory).expect("it can be read");
        for directory in directories {
            scope.spawn(move |scope| self.on_rayon(scope, directory));
        }
        for file in files {
            scope.spawn(move |_| self.file(&file.path()));
        }
    }

    fn file(&self, path: &Path) {
        let bytes = std::fs::read(path).expect("it can be read");
        let (mut number, mut counted, mut sum) = (1, 0, 0_u64);
        let name = path.strip_prefix(&self.root).expect("it is in the tree").to_string_lossy();
        for found in self.pattern.find_iter(&bytes) {
            number += bytes[counted..found.start()].iter().filter(|byte| **byte == b'\n').count();
            counted = found.start();
            let line =
                bytes[..counted].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let text = String::from_utf8_lossy(&bytes[line..found.end()]);
            sum = sum.wrapping_add(harness::hash(format!("{name}:{number}:{text}").as_bytes()));
        }
        self.found.fetch_add(sum, Relaxed);
    }
}

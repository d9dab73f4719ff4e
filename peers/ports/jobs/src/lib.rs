//! The input of the jobs: a tree of text files, the same on each machine.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Which executor a job runs on.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Which {
    Coreshard,
    Rayon,
}

const WORDS: [&str; 24] = [
    "queue", "worker", "pool", "item", "shard", "cache", "limit", "order", "thread", "steal",
    "park", "wake", "node", "idle", "future", "scope", "join", "timer", "monitor", "latch", "lock",
    "flush", "drain", "panic",
];
const ENDINGS: [&str; 6] = ["rs", "md", "txt", "toml", "c", "h"];

/// Makes the tree below the directory for temporary files, unless it exists already: directories of ten files and,
/// down to four levels, four directories; files of 0 to `2 * mean_bytes` bytes, in lines of words.
///
/// # Errors
/// Errors of the file system.
pub fn tree(files: usize, mean_bytes: usize) -> io::Result<PathBuf> {
    let root = std::env::temp_dir().join(format!("coreshard-ports-{files}-{mean_bytes}"));
    let complete = root.with_extension("complete");
    if complete.exists() {
        return Ok(root);
    }
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut directories, mut made, mut next) = (vec![root.clone()], 0, 0);
    while made < files {
        let directory: PathBuf = directories[next].clone();
        next += 1;
        fs::create_dir_all(&directory)?;
        for number in 0..10.min(files - made) {
            let ending = ENDINGS[random.below(ENDINGS.len())];
            let bytes = random.below(2 * mean_bytes + 1);
            let text = text(&mut random, bytes);
            fs::write(directory.join(format!("{number}.{ending}")), text)?;
            made += 1;
        }
        directories.extend((0..4).map(|number| directory.join(WORDS[number])));
    }
    fs::write(&complete, "")?;
    Ok(root)
}

fn text(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    while text.len() < bytes {
        for _ in 0..1 + random.below(12) {
            text.push_str(WORDS[random.below(WORDS.len())]);
            text.push(' ');
        }
        writeln!(text, "{}", random.below(100_000)).expect("memory takes it");
    }
    text.truncate(bytes);
    text
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// Returns a directory's files and subdirectories.
///
/// # Errors
/// Errors of the file system.
pub fn entries(directory: &Path) -> io::Result<(Vec<fs::DirEntry>, Vec<PathBuf>)> {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            directories.push(entry.path());
        } else if kind.is_file() {
            files.push(entry);
        }
    }
    Ok((files, directories))
}

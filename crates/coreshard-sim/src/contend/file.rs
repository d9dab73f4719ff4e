//! Reads a description: TOML.

use std::path::Path;

use coreshard_topology::CpuSet;
use coreshard_topology::input::{self, JOBS_BYTES, plain, quoted};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::description::{
    Contention, Copies, Object, Operation, Outside, Pinning, Retry, Step, WORDS_OF_LINE,
};
use super::error::ContentionError;
use crate::caches::Placement;
use crate::machine::MAX_CPUS;

const KEYS: [&str; 8] = [
    "title",
    "lines",
    "per_thread",
    "steps",
    "outside_ns",
    "outside_share",
    "threads",
    "placement",
];
const STEP_KEYS: [&str; 5] = ["retry", "reads", "writes", "inside_ns", "every"];

const MOST_STEPS: usize = 32;
const MOST_WORDS: usize = 256;
const MOST_LETTERS: usize = 40;
/// A tenth of a second. It keeps a run of some thousand rounds below the simulator's time limit.
const LONGEST_NS: f64 = 1e8;
/// A simulated thread does at least four times as many rounds.
const MOST_EVERY: f64 = 1e3;
/// A thread is never outside for all of its time.
const LARGEST_SHARE: f64 = 0.999;

type Table<'a> = DeTable<'a>;
type Value<'a> = Spanned<DeValue<'a>>;
type Result<T> = std::result::Result<T, ContentionError>;

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    objects: Vec<Object>,
}

impl Contention {
    /// Reads a description from a file.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid; the text names the line, the value and the accepted ones.
    pub fn from_file(path: &Path) -> Result<Self> {
        let name = input::path(path).to_string();
        let text = input::text(path, JOBS_BYTES)
            .map_err(|error| ContentionError::new(&name, None, error.to_string()))?;
        Self::from_toml(&name, &text)
    }

    /// Parses a description; `name` is for messages.
    ///
    /// # Errors
    /// If the text is invalid.
    pub fn from_toml(name: &str, text: &str) -> Result<Self> {
        Reader { name, text, objects: Vec::new() }.read()
    }
}

impl Reader<'_> {
    fn wrong(&self, byte: usize, problem: String) -> ContentionError {
        let before = self.text.get(..byte).unwrap_or(self.text);
        ContentionError::new(self.name, Some(before.matches('\n').count() + 1), problem)
    }

    /// Returns the error for a value that is not `allowed`.
    fn unlike(&self, key: &str, value: &Value<'_>, allowed: &str) -> ContentionError {
        let given = plain(self.text.get(value.span()).unwrap_or_default());
        self.wrong(value.span().start, format!("{key} is {given}: expected {allowed}"))
    }

    fn number(&self, key: &str, value: &Value<'_>, least: f64, most: f64) -> Result<f64> {
        let number: Option<f64> = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.unlike(key, value, &format!("a number from {least} to {most}")))
    }

    /// Reads a whole number from 1 to `most`.
    fn whole(&self, key: &str, value: &Value<'_>, most: f64) -> Result<usize> {
        let number = self.number(key, value, 1.0, most);
        let is_whole = value.get_ref().as_integer().is_some();
        number
            .ok()
            .filter(|_| is_whole)
            .map(|number| number as usize)
            .ok_or_else(|| self.unlike(key, value, &format!("a whole number from 1 to {most}")))
    }

    fn words<'v>(&self, key: &str, value: &'v Value<'_>) -> Result<Vec<(&'v str, usize)>> {
        let expected = "a list of words in quotes";
        let list = value.get_ref().as_array().ok_or_else(|| self.unlike(key, value, expected))?;
        list.iter().map(|item| Ok((self.word(key, item)?, item.span().start))).collect()
    }

    fn word<'v>(&self, key: &str, value: &'v Value<'_>) -> Result<&'v str> {
        let is_plain = |letter: char| letter.is_alphanumeric() || "_-.:".contains(letter);
        value
            .get_ref()
            .as_str()
            .filter(|word| (1..=MOST_LETTERS).contains(&word.chars().count()))
            .filter(|word| word.chars().all(is_plain))
            .ok_or_else(|| {
                let allowed = format!(
                    "a word in quotes, of at most {MOST_LETTERS} letters, digits and _ - . :"
                );
                self.unlike(key, value, &allowed)
            })
    }

    fn place(&self, word: &str) -> Option<(usize, usize)> {
        self.objects.iter().enumerate().find_map(|(number, object)| {
            let at = object.words.iter().position(|known| known == word)?;
            Some((number, at))
        })
    }

    /// Returns the place of a word. An unknown one gets a line of its own.
    fn place_or_new(&mut self, word: &str, at: usize) -> Result<(usize, usize)> {
        if let Some(place) = self.place(word) {
            return Ok(place);
        }
        self.add(vec![word.to_owned()], Copies::One, at)?;
        Ok((self.objects.len() - 1, 0))
    }

    fn add(&mut self, words: Vec<String>, copies: Copies, at: usize) -> Result<()> {
        let count: usize = self.objects.iter().map(|object| object.words.len()).sum();
        if count + words.len() > MOST_WORDS {
            let problem = format!("there are too many words: expected at most {MOST_WORDS}");
            return Err(self.wrong(at, problem));
        }
        self.objects.push(Object { words, copies, is_padded: false });
        Ok(())
    }

    fn lines(&mut self, value: &Value<'_>, per_thread: &[(&str, usize)]) -> Result<()> {
        let expected = "a list of lines, each a list of words: [[\"lock\", \"head\"]]";
        let lines =
            value.get_ref().as_array().ok_or_else(|| self.unlike("lines", value, expected))?;
        for line in lines.iter() {
            line.get_ref().as_array().ok_or_else(|| self.unlike("a line", line, expected))?;
            let words = self.words("a line", line)?;
            if !(1..=WORDS_OF_LINE).contains(&words.len()) {
                let allowed = format!("1 to {WORDS_OF_LINE} words of 8 bytes");
                return Err(self.unlike("a line", line, &allowed));
            }
            for (number, (word, at)) in words.iter().enumerate() {
                let is_twice = words[..number].iter().any(|(other, _)| other == word);
                if is_twice || self.place(word).is_some() {
                    let problem = format!(
                        "the word {} is on two lines: expected each word once",
                        quoted(word)
                    );
                    return Err(self.wrong(*at, problem));
                }
            }
            let is_own = |word: &str| per_thread.iter().any(|(own, _)| *own == word);
            let own = words.iter().filter(|(word, _)| is_own(word)).count();
            if own != 0 && own != words.len() {
                let allowed = "words that are all in per_thread, or none of them";
                return Err(self.unlike("a line", line, allowed));
            }
            let copies = if own > 0 { Copies::PerThread } else { Copies::One };
            let words = words.into_iter().map(|(word, _)| word.to_owned()).collect();
            self.add(words, copies, line.span().start)?;
        }
        Ok(())
    }

    fn step(&mut self, value: &Value<'_>) -> Result<Step> {
        let at = value.span().start;
        let names: Vec<_> = Operation::ALL.iter().map(|operation| operation.name()).collect();
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.unlike("a step", value, "a table such as { add = \"hits\" }"));
        };
        let mut found = None;
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            let operation = Operation::ALL.iter().find(|known| known.name() == name);
            match operation {
                Some(operation) if found.is_none() => found = Some((*operation, value)),
                Some(_) => {
                    let problem =
                        format!("a step has two operations, the second one {name}: expected one");
                    return Err(self.wrong(key.span().start, problem));
                }
                None if STEP_KEYS.contains(&name) => {}
                None => {
                    let problem = format!(
                        "unknown key {} of a step: expected an operation ({}) or {}",
                        quoted(name),
                        names.join(", "),
                        STEP_KEYS.join(", ")
                    );
                    return Err(self.wrong(key.span().start, problem));
                }
            }
        }
        let Some((operation, on)) = found else {
            let problem = format!("a step has no operation: expected one of {}", names.join(", "));
            return Err(self.wrong(at, problem));
        };
        let word = self.word(operation.name(), on)?;
        let word = self.place_or_new(word, on.span().start)?;
        let of_a_lock = ["reads", "writes", "inside_ns"];
        if let Some(key) = table.keys().find(|key| of_a_lock.contains(&key.get_ref().as_ref()))
            && !operation.is_lock()
        {
            let problem = format!(
                "{} has no holder, so it takes no {}: expected a lock",
                operation.name(),
                key.get_ref()
            );
            return Err(self.wrong(key.span().start, problem));
        }
        let mut touched = |key: &str| -> Result<Vec<(usize, usize)>> {
            let Some(value) = table.get(key) else { return Ok(Vec::new()) };
            let words = self.words(key, value)?;
            words.into_iter().map(|(word, at)| self.place_or_new(word, at)).collect()
        };
        let (reads, writes) = (touched("reads")?, touched("writes")?);
        let inside_ns = match table.get("inside_ns") {
            Some(value) => self.number("inside_ns", value, 0.0, LONGEST_NS)?,
            None => 0.0,
        };
        let every = match table.get("every") {
            Some(value) => self.whole("every", value, MOST_EVERY)? as u32,
            None => 1,
        };
        let retry = self.retry(operation, table)?;
        Ok(Step { operation, word, retry, reads, writes, inside_ns, every })
    }

    fn retry(&self, operation: Operation, table: &Table<'_>) -> Result<Retry> {
        const WAYS: [(&str, Retry); 3] =
            [("at-once", Retry::AtOnce), ("pause", Retry::Pause), ("back-off", Retry::BackOff)];
        let Some(value) = table.get("retry") else {
            let pauses = operation != Operation::Cas;
            return Ok(if pauses { Retry::Pause } else { Retry::AtOnce });
        };
        if !operation.retries() {
            let problem = format!("{} takes no retry: expected cas or spin-lock", operation.name());
            return Err(self.wrong(value.span().start, problem));
        }
        let word = value.get_ref().as_str().unwrap_or_default();
        let way = WAYS.iter().find(|(name, _)| *name == word);
        let allowed = "\"at-once\", \"pause\" or \"back-off\"";
        way.map(|(_, way)| *way).ok_or_else(|| self.unlike("retry", value, allowed))
    }

    fn outside(&self, root: &Table<'_>) -> Result<Outside> {
        match (root.get("outside_ns"), root.get("outside_share")) {
            (Some(ns), None) => Ok(Outside::Ns(self.number("outside_ns", ns, 0.0, LONGEST_NS)?)),
            (None, Some(share)) => {
                let number =
                    |value: &Value<'_>| self.number("outside_share", value, 0.0, LARGEST_SHARE);
                let Some(range) = share.get_ref().as_array() else {
                    let share = number(share)?;
                    return Ok(Outside::Share(share, share));
                };
                let [least, most] = &range[..] else {
                    let allowed = "a share, or the least and the greatest: [0.5, 0.9]";
                    return Err(self.unlike("outside_share", share, allowed));
                };
                let (least, most) = (number(least)?, number(most)?);
                if least > most {
                    let allowed = "the least share first";
                    return Err(self.unlike("outside_share", share, allowed));
                }
                Ok(Outside::Share(least, most))
            }
            (Some(_), Some(share)) => {
                let problem = "outside_ns and outside_share are both given: expected one of them";
                Err(self.wrong(share.span().start, problem.to_owned()))
            }
            (None, None) => Err(ContentionError::new(
                self.name,
                None,
                "the time outside of the steps is missing: expected outside_ns (0 if threads do \
                 nothing else) or outside_share, the share of a lone thread's time, as [0.5, 0.9]"
                    .to_owned(),
            )),
        }
    }

    fn pinning(&self, value: &Value<'_>) -> Result<Pinning> {
        let word = value.get_ref().as_str().unwrap_or_default();
        match word {
            "unpinned" => Ok(Pinning::Unpinned),
            "spread" => Ok(Pinning::Pinned(Placement::Spread)),
            "compact" => Ok(Pinning::Pinned(Placement::Compact)),
            list => match list.parse::<CpuSet>() {
                Ok(cpus) if !cpus.is_empty() => {
                    Ok(Pinning::Pinned(Placement::List(cpus.iter().collect())))
                }
                _ => {
                    let allowed =
                        "\"unpinned\", \"spread\", \"compact\" or CPUs such as \"0-7,64\"";
                    Err(self.unlike("placement", value, allowed))
                }
            },
        }
    }

    fn threads(&self, value: &Value<'_>) -> Result<Vec<usize>> {
        let expected = "a list of numbers of threads, as [1, 2, 4, 8]";
        let list = value
            .get_ref()
            .as_array()
            .filter(|list| (1..=MAX_CPUS).contains(&list.len()))
            .ok_or_else(|| self.unlike("threads", value, expected))?;
        let mut counts = Vec::new();
        for item in list.iter() {
            counts.push(self.whole("threads", item, MAX_CPUS as f64)?);
        }
        counts.sort_unstable();
        counts.dedup();
        Ok(counts)
    }

    fn read(mut self) -> Result<Contention> {
        if self.text.len() as u64 > JOBS_BYTES {
            let problem = format!("its text is too long: expected at most {JOBS_BYTES} bytes");
            return Err(ContentionError::new(self.name, None, problem));
        }
        let root = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().unwrap_or_default().start;
            self.wrong(at, plain(error.message()))
        })?;
        let root = root.get_ref();
        if let Some(key) = root.keys().find(|key| !KEYS.contains(&key.get_ref().as_ref())) {
            let problem = format!(
                "unknown key {}: expected one of {}",
                quoted(key.get_ref()),
                KEYS.join(", ")
            );
            return Err(self.wrong(key.span().start, problem));
        }
        let title = match root.get("title") {
            Some(value) => {
                let title = value.get_ref().as_str();
                plain(title.ok_or_else(|| self.unlike("title", value, "a text in quotes"))?)
            }
            None => String::new(),
        };
        let per_thread = match root.get("per_thread") {
            Some(value) => self.words("per_thread", value)?,
            None => Vec::new(),
        };
        if let Some(lines) = root.get("lines") {
            self.lines(lines, &per_thread)?;
        }
        for (word, at) in &per_thread {
            if self.place(word).is_none() {
                self.add(vec![(*word).to_owned()], Copies::PerThread, *at)?;
            }
        }
        let steps = self.steps(root)?;
        let outside = self.outside(root)?;
        let threads = root.get("threads").map(|value| self.threads(value)).transpose()?;
        let pinning = match root.get("placement") {
            Some(value) => self.pinning(value)?,
            None => Pinning::Unpinned,
        };
        Ok(Contention { title, objects: self.objects, steps, outside, threads, pinning })
    }

    fn steps(&mut self, root: &Table<'_>) -> Result<Vec<Step>> {
        let example = "steps = [{ add = \"hits\" }]";
        let Some(value) = root.get("steps") else {
            let problem = format!("it has no steps: expected some, as {example}");
            return Err(ContentionError::new(self.name, None, problem));
        };
        let list = value
            .get_ref()
            .as_array()
            .filter(|list| (1..=MOST_STEPS).contains(&list.len()))
            .ok_or_else(|| {
                let allowed = format!("a list of 1 to {MOST_STEPS} tables: {example}");
                self.unlike("steps", value, &allowed)
            })?;
        let steps = list.iter().map(|value| self.step(value)).collect::<Result<Vec<_>>>()?;
        self.check_kinds(&steps, list)?;
        Ok(steps)
    }

    /// A word that two kinds of operations use as a lock would be one in neither.
    fn check_kinds(&self, steps: &[Step], list: &toml::de::DeArray<'_>) -> Result<()> {
        let kind = |operation: Operation| match operation {
            Operation::WriteLock => Operation::ReadLock,
            Operation::Store | Operation::Add | Operation::Cas => Operation::Load,
            other => other,
        };
        let is_lock = |word: (usize, usize)| {
            steps.iter().any(|step| step.operation.is_lock() && step.word == word)
        };
        for (step, value) in steps.iter().zip(list.iter()) {
            let name = |word: (usize, usize)| &self.objects[word.0].words[word.1];
            let other = steps.iter().find(|other| {
                other.word == step.word && kind(other.operation) != kind(step.operation)
            });
            if let Some(other) = other {
                let problem = format!(
                    "the word {} is used by {} and by {}: expected one kind of lock, or none",
                    quoted(name(step.word)),
                    step.operation.name(),
                    other.operation.name()
                );
                return Err(self.wrong(value.span().start, problem));
            }
            if let Some(word) = step.reads.iter().chain(&step.writes).find(|word| is_lock(**word)) {
                let problem = format!(
                    "the lock {} is read or written by a holder: expected other words",
                    quoted(name(*word))
                );
                return Err(self.wrong(value.span().start, problem));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"
title = "a free list"
lines = [["lock", "head"], ["hits", "misses"]]
per_thread = ["hits", "misses"]
outside_ns = 300
threads = [8, 1, 8]
placement = "compact"
steps = [
  { spin-lock = "lock", retry = "back-off", writes = ["head"], reads = ["limit"], inside_ns = 40 },
  { add = "hits", every = 4 },
]
"#;

    fn read(text: &str) -> Result<Contention> {
        Contention::from_toml("it.toml", text)
    }

    #[test]
    fn a_description_is_read_as_it_is_written() {
        let read = read(RIGHT).unwrap();
        assert_eq!((read.title.as_str(), &read.threads), ("a free list", &Some(vec![1, 8])));
        let names: Vec<_> = read.objects.iter().map(Object::name).collect();
        assert_eq!(names, ["lock + head", "hits + misses (per thread)", "limit"]);
        assert_eq!(read.outside, Outside::Ns(300.0));
        assert_eq!(read.pinning, Pinning::Pinned(Placement::Compact));
        let lock = &read.steps[0];
        assert_eq!((lock.operation, lock.retry), (Operation::SpinLock, Retry::BackOff));
        assert_eq!((lock.word, &lock.writes, &lock.reads), ((0, 0), &vec![(0, 1)], &vec![(2, 0)]));
        assert_eq!((read.steps[1].word, read.steps[1].every), ((1, 0), 4));
    }

    #[test]
    fn the_share_outside_becomes_a_time() {
        let text = "outside_share = [0.5, 0.9]\nsteps = [{ add = \"hits\" }]";
        let (least, most) = read(text).unwrap().outside_ns(100.0);
        assert!((least - 100.0).abs() < 1e-6 && (most - 900.0).abs() < 1e-6, "{least} {most}");
    }

    /// Each error names the line, the value and what is accepted.
    #[test]
    fn a_wrong_value_names_its_line_and_what_is_accepted() {
        for (from, to, line, words) in [
            (
                "outside_ns = 300",
                "outside_ns = -1",
                5,
                "outside_ns is -1: expected a number from 0",
            ),
            (
                "outside_ns = 300",
                "outside_sn = 3",
                5,
                "unknown key \"outside_sn\": expected one of title",
            ),
            ("outside_ns = 300\n", "", 0, "expected outside_ns (0 if"),
            ("outside_ns = 300", "outside_share = [0.9, 0.5]", 5, "expected the least share first"),
            ("outside_ns = 300", "outside_share = 1", 5, "expected a number from 0 to 0.999"),
            ("[8, 1, 8]", "[0]", 6, "threads is 0: expected a whole number from 1 to 1024"),
            ("[8, 1, 8]", "8", 6, "expected a list of numbers"),
            ("\"compact\"", "\"near\"", 7, "placement is \"near\": expected \"unpinned\""),
            (
                "spin-lock = \"lock\"",
                "spin = \"lock\"",
                9,
                "unknown key \"spin\" of a step: expected an operation (load,",
            ),
            ("\"back-off\"", "\"later\"", 9, "retry is \"later\": expected \"at-once\""),
            ("add = \"hits\"", "retry = \"pause\"", 10, "a step has no operation"),
            ("add = \"hits\"", "add = \"hits\", load = \"hits\"", 10, "two operations"),
            ("every = 4", "inside_ns = 4", 10, "add has no holder, so it takes no inside_ns"),
            ("every = 4", "every = 0.5", 10, "every is 0.5: expected a whole number from 1"),
            ("every = 4", "retry = \"pause\"", 10, "add takes no retry: expected cas or spin-lock"),
            (
                "add = \"hits\"",
                "add = \"lock\"",
                9,
                "the word \"lock\" is used by spin-lock and by add",
            ),
            (
                "writes = [\"head\"]",
                "writes = [\"lock\"]",
                9,
                "the lock \"lock\" is read or written",
            ),
            ("[\"lock\", \"head\"]", "[\"lock\", \"hits\"]", 3, "all in per_thread, or none"),
            (
                "[\"lock\", \"head\"]",
                "[\"lock\", \"lock\"]",
                3,
                "the word \"lock\" is on two lines",
            ),
            ("[\"lock\", \"head\"]", "[]", 3, "a line is []: expected 1 to 8 words"),
            ("\"limit\"", "\"a b\"", 9, "reads is \"a b\": expected a word in quotes"),
        ] {
            let text = RIGHT.replacen(from, to, 1);
            assert_ne!(text, RIGHT, "{from}");
            let error = read(&text).unwrap_err();
            let told = error.to_string();
            assert!(told.contains(words), "{to}: {told}");
            assert_eq!(error.line().unwrap_or(0), line, "{to}: {told}");
            assert!(told.starts_with("it.toml"), "{told}");
        }
    }

    #[test]
    fn a_file_that_is_no_toml_is_rejected_with_its_line() {
        let error = read("outside_ns = 1\nsteps = [").unwrap_err();
        assert!(error.to_string().starts_with("it.toml, line 2: "), "{error}");
        assert!(read("outside_ns = 1").unwrap_err().to_string().contains("it has no steps"));
    }
}

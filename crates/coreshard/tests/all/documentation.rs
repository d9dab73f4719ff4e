//! Requirements of the documentation: tasks are found by users' words, features are described, and no word has two
//! meanings.

use std::collections::BTreeMap;

/// A page of the cookbook: its name, its search aliases in the documentation, and its text.
struct Recipe {
    name: &'static str,
    aliases: &'static str,
    text: String,
}

const GUIDE: &str = include_str!("../../src/guide.rs");

fn recipes() -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for part in GUIDE.split("#[doc = include_str!(\"").skip(1) {
        let Some((file, rest)) = part.split_once("\")]") else { panic!("{part}") };
        let Some(name) = file.strip_prefix("guide/cookbook/") else { continue };
        let aliases = rest.split_once("#[doc(alias(").and_then(|(_, rest)| rest.split_once("))]"));
        let aliases = aliases.unwrap_or_else(|| panic!("{name} has no aliases")).0;
        let path = format!("{}/src/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let name = name.strip_suffix(".md").expect("it is Markdown");
        assert!(rest.contains(&format!("pub mod {name} {{}}")), "{name} is not a module");
        recipes.push(Recipe { name, aliases, text });
    }
    recipes
}

impl Recipe {
    /// Whether the search finds the page by this word: its name, or an alias, has it.
    fn is_found_by(&self, word: &str) -> bool {
        let plain = |text: &str| text.to_lowercase().replace([' ', '-', '_'], "");
        plain(self.name).contains(&plain(word))
            || self.aliases.split('"').any(|alias| plain(alias).contains(&plain(word)))
    }
}

/// Fifteen tasks, each with words that users may search for.
const TASKS: [(&str, &[&str]); 15] = [
    ("bounded_concurrency", &["bounded concurrency", "semaphore", "concurrency limit"]),
    ("borrowed_data", &["borrowed data", "scoped threads", "parallel loop"]),
    ("panics", &["panic", "catch_unwind"]),
    ("periodic_work", &["periodic work", "interval", "timer", "cron"]),
    ("cancelling", &["cancel", "cancellation", "abort"]),
    ("time_outs", &["timeout", "time-out", "deadline"]),
    ("shutdown_on_sigterm", &["shutdown", "SIGTERM", "signal", "graceful shutdown"]),
    ("numa_node", &["NUMA", "NUMA node"]),
    ("beside_tokio", &["tokio", "beside tokio"]),
    ("hyper_and_axum", &["hyper", "axum", "HTTP"]),
    ("in_a_library", &["library", "choose the runtime"]),
    ("tracing_and_metrics", &["tracing", "metrics", "observability"]),
    ("back_pressure", &["back-pressure", "backpressure", "memory", "bounded channel"]),
    ("nested_parallelism", &["nested parallelism", "nested", "recursion"]),
    ("deterministic_tests", &["deterministic tests", "testing", "reproducible"]),
];

#[test]
fn each_task_is_found_by_the_words_of_who_looks_for_it() {
    let recipes = recipes();
    for (name, words) in TASKS {
        let recipe = recipes.iter().find(|recipe| recipe.name == name);
        let recipe = recipe.unwrap_or_else(|| panic!("the cookbook has no page {name}"));
        let lost: Vec<_> = words.iter().filter(|word| !recipe.is_found_by(word)).collect();
        assert!(lost.is_empty(), "{name} is not found by {lost:?}");
        assert!(!recipe.is_found_by("a word of no page"));
        assert!(recipe.text.contains("\n```\n"), "{name} shows no program");
        assert!(
            GUIDE.contains(&format!("(cookbook::{name})")),
            "the cookbook's table lacks {name}"
        );
    }
    assert_eq!(recipes.len(), TASKS.len(), "a page that no task leads to");
}

/// These programs are run with all others: none is omitted or separate.
#[test]
fn every_program_of_the_guide_is_run() {
    let guides = ["from_rayon", "from_tokio", "from_the_kernel"].map(|name| {
        let path = format!("{}/src/guide/{name}.md", env!("CARGO_MANIFEST_DIR"));
        (name, std::fs::read_to_string(path).unwrap())
    });
    let recipes = recipes();
    let texts = recipes.iter().map(|recipe| (recipe.name, &recipe.text));
    for (name, text) in texts.chain(guides.iter().map(|(name, text)| (*name, text))) {
        let fences: Vec<_> = text.lines().filter(|line| line.starts_with("```")).collect();
        assert!(fences.len() >= 2 && fences.len() % 2 == 0, "{name}: {fences:?}");
        assert!(fences.iter().all(|fence| *fence == "```"), "{name}: {fences:?}");
    }
}

#[test]
fn each_feature_is_told() {
    let manifests = [
        (include_str!("../../Cargo.toml"), include_str!("../../src/lib.rs")),
        (
            include_str!("../../../coreshard-topology/Cargo.toml"),
            include_str!("../../../coreshard-topology/src/lib.rs"),
        ),
    ];
    for (manifest, root) in manifests {
        let (_, features) = manifest.split_once("\n[features]\n").expect("it has features");
        let features = features.split("\n[").next().unwrap_or_default();
        let names = features.lines().filter_map(|line| line.split_once(" = ["));
        let names: Vec<_> = names.map(|(name, _)| name).filter(|name| *name != "default").collect();
        assert!(names.len() >= 2, "{features}");
        for name in names {
            assert!(
                root.contains(&format!("//! | `{name}` |")),
                "src/lib.rs does not describe {name}"
            );
        }
    }
}

#[test]
fn no_word_of_a_crate_has_two_meanings() {
    let glossary = include_str!("../../../../docs/GLOSSARY.md");
    let mut words = 0;
    for section in glossary.split("\n## ").skip(1) {
        let mut rows: BTreeMap<&str, &str> = BTreeMap::new();
        let lines =
            section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| term"));
        for line in lines {
            let terms = line.split(" | ").next().unwrap_or_default().trim_start_matches("| ");
            let terms = terms.split(", ").map(|term| term.split(" (").next().unwrap_or(term));
            for term in terms {
                words += 1;
                let other = rows.insert(term, line);
                assert!(
                    other.is_none(),
                    "{term} has two meanings:\n{}\n{line}",
                    other.unwrap_or_default()
                );
            }
        }
    }
    assert!(words > 50, "the glossary was read: {words}");
}

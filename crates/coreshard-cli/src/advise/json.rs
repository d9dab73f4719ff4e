//! The advice for programs.

use coreshard_advise::measure::Measured;
use coreshard_advise::{Facts, Finding, Verdict};
use serde::Serialize;

use super::advice::Advice;

#[derive(Serialize)]
struct AdviceDocument<'a> {
    machine: MachineCounts<'a>,
    /// The highest of all findings'.
    verdict: Verdict,
    findings: &'a [Finding],
    facts: &'a Facts,
    measured: Option<&'a Measured>,
    /// Rules that found nothing to look at.
    silent_rules: Vec<&'static str>,
    lacking: &'a [String],
}

#[derive(Serialize)]
struct MachineCounts<'a> {
    name: &'a str,
    model: Option<&'a str>,
    cpus: usize,
    cores: usize,
    llcs: usize,
    nodes: usize,
    packages: usize,
}

pub(super) fn render(advice: &Advice) -> anyhow::Result<String> {
    let topology = &advice.facts.topology;
    let highest = advice.findings.iter().map(|finding| finding.verdict).max();
    let document = AdviceDocument {
        machine: MachineCounts {
            name: topology.name(),
            model: topology.model(),
            cpus: topology.cpus().len(),
            cores: topology.cores(),
            llcs: topology.llcs(),
            nodes: topology.nodes(),
            packages: topology.packages(),
        },
        verdict: highest.unwrap_or(Verdict::Leave),
        findings: &advice.findings,
        facts: &advice.facts,
        measured: advice.measured.as_ref(),
        silent_rules: advice.silent_rules().collect(),
        lacking: &advice.lacking,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

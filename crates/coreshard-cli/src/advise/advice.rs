//! All that is known of a machine, and what follows.

use coreshard_advise::measure::Measured;
use coreshard_advise::{Facts, Finding, RULES};

/// All that is told.
pub(super) struct Advice {
    pub(super) facts: Facts,
    pub(super) measured: Option<Measured>,
    pub(super) findings: Vec<Finding>,
    /// Why something was not measured or not simulated; a sentence each.
    pub(super) lacking: Vec<String>,
}

impl Advice {
    /// The rules that found nothing to look at.
    pub(super) fn silent_rules(&self) -> impl Iterator<Item = &'static str> {
        let spoke = |id: &str| self.findings.iter().any(|finding| finding.rule.id == id);
        RULES.iter().map(|rule| rule.id).filter(move |id| !spoke(id))
    }
}

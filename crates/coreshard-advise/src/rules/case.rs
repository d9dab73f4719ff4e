//! What a rule looks at, and the forms of what it says.

use super::finding::{Finding, Rule, Setting, Verdict};
use crate::facts::Facts;
use crate::measure::Measured;

/// A rule with what it is held against.
pub(super) struct Case<'a> {
    pub(super) rule: &'static Rule,
    pub(super) facts: &'a Facts,
    pub(super) measured: Option<&'a Measured>,
}

impl Case<'_> {
    pub(super) fn leave(
        &self,
        subject: impl Into<String>,
        statement: impl Into<String>,
    ) -> Finding {
        Finding {
            rule: self.rule,
            verdict: Verdict::Leave,
            subject: subject.into(),
            statement: statement.into(),
            settings: Vec::new(),
            expected: None,
            risk: String::new(),
            simulated: None,
        }
    }

    pub(super) fn consider(
        &self,
        subject: impl Into<String>,
        statement: impl Into<String>,
        risk: impl Into<String>,
    ) -> Finding {
        let finding = self.leave(subject, statement);
        Finding { verdict: Verdict::Consider, risk: risk.into(), ..finding }
    }

    pub(super) fn change(
        &self,
        subject: impl Into<String>,
        statement: impl Into<String>,
        risk: impl Into<String>,
        setting: Setting,
    ) -> Finding {
        let finding = self.leave(subject, statement);
        Finding { verdict: Verdict::Change, risk: risk.into(), settings: vec![setting], ..finding }
    }

    /// The rule looked, and is content.
    pub(super) fn content(&self, subject: &str, statement: impl Into<String>) -> Vec<Finding> {
        vec![self.leave(subject, statement)]
    }

    /// The findings; if there are none, that the rule looked and is content.
    pub(super) fn or_content<S: Into<String>>(
        &self,
        findings: Vec<Finding>,
        subject: &str,
        statement: impl FnOnce() -> S,
    ) -> Vec<Finding> {
        if findings.is_empty() { self.content(subject, statement()) } else { findings }
    }
}

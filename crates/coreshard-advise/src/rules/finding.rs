//! Rules and their findings.

use serde::Serialize;

use crate::facts::Facts;
use crate::measure::Measured;

/// The recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Keep the setting: it is right, or a change would not help.
    Leave,
    /// Depends on the use of the machine: inspect or measure first.
    Consider,
    /// Change the setting: it costs performance on any such machine.
    Change,
}

/// A rule's name, reason and source.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// The ID in results, stable across versions.
    pub id: &'static str,
    /// The reason for the rule.
    pub reason: &'static str,
    /// The source of the reason.
    pub source: &'static str,
    #[serde(skip)]
    pub(super) judge: Judge,
}

pub(super) type Judge = fn(&Case<'_>) -> Vec<Finding>;

/// The verdict of a rule on one subject.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The recommendation.
    pub verdict: Verdict,
    /// The setting, queue or device.
    pub subject: String,
    /// The observation and its consequence, in a sentence or two.
    pub statement: String,
    /// The settings to change; empty if there are none, or none that a file holds.
    pub settings: Vec<Setting>,
    /// The gain, if it was measured.
    pub expected: Option<Expected>,
    /// The risk of the change; empty if there is no change.
    pub risk: String,
    /// The result of a simulation of this topology, if one was made.
    pub simulated: Option<Simulated>,
}

/// A setting to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Setting {
    /// The absolute path of the file.
    pub path: String,
    /// The current value, which undoes the change; `None` if unknown.
    pub now: Option<String>,
    /// The value to write.
    pub to: String,
    /// The equivalent boot parameter, if there is one.
    pub boot: Option<String>,
    /// Whether the setting can be changed only at boot.
    pub is_boot_only: bool,
}

/// A range of gains: 1.0 means none, 2.0 twice as much, 0.9 a loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Expected {
    /// The measured quantity.
    pub of: &'static str,
    /// The smallest gain.
    pub least: f64,
    /// The largest gain.
    pub most: f64,
    /// The source of the figures.
    pub seen: &'static str,
}

/// Throughput after a change relative to before, on a simulated machine with kernel costs: medians and ranges over
/// several seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Simulated {
    /// The comparison, such as `cache_shard over cache`.
    pub what: String,
    /// Number of simulated seeds.
    pub seeds: usize,
    /// Items queued by each CPU.
    pub items: u64,
    /// Every CPU queues an item and waits for it.
    pub even: f64,
    /// Minimum and maximum.
    pub even_range: [f64; 2],
    /// One CPU queues bursts.
    pub lopsided: f64,
    /// Minimum and maximum.
    pub lopsided_range: [f64; 2],
    /// The measured load: items as long, from as many CPUs.
    pub measured: Option<f64>,
    /// Minimum and maximum.
    pub measured_range: Option<[f64; 2]>,
}

/// Returns the median and range of one load's ratios over seeds.
fn middle_and_ends(mut ratios: Vec<f64>) -> (f64, [f64; 2]) {
    ratios.sort_by(f64::total_cmp);
    let at = |place: usize| ratios.get(place).copied().unwrap_or(1.0);
    let last = ratios.len().saturating_sub(1);
    (f64::midpoint(at(last / 2), at(last.div_ceil(2))), [at(0), at(last)])
}

impl Simulated {
    /// Smaller gains are treated as none.
    const WORTH_IT: f64 = 1.05;

    /// Creates the result from the ratios of each load, one per seed.
    ///
    /// ```
    /// use coreshard_advise::Simulated;
    ///
    /// let what = "cache_shard over cache".to_owned();
    /// let found = Simulated::over_seeds(what, 200, vec![1.3, 1.9, 1.4], vec![0.9, 1.0, 1.1], None);
    /// assert_eq!((found.seeds, found.even, found.even_range), (3, 1.4, [1.3, 1.9]));
    /// ```
    #[must_use]
    pub fn over_seeds(
        what: String,
        items: u64,
        even: Vec<f64>,
        lopsided: Vec<f64>,
        measured: Option<Vec<f64>>,
    ) -> Self {
        let seeds = even.len();
        let (even, even_range) = middle_and_ends(even);
        let (lopsided, lopsided_range) = middle_and_ends(lopsided);
        let (measured, measured_range) = measured.map(middle_and_ends).unzip();
        Self {
            what,
            seeds,
            items,
            even,
            even_range,
            lopsided,
            lopsided_range,
            measured,
            measured_range,
        }
    }

    /// Returns true if a load gains by the change: clearly at the median, and without a loss for any seed. Seeds can
    /// differ by factors, as a pool's workers stay awake with some seeds and sleep with others.
    fn gains(&self) -> bool {
        let loads = [
            (Some(self.even), Some(self.even_range)),
            (Some(self.lopsided), Some(self.lopsided_range)),
            (self.measured, self.measured_range),
        ];
        let gains =
            |(median, [least, _]): (f64, [f64; 2])| median >= Self::WORTH_IT && least >= 1.0;
        loads.into_iter().filter_map(|(median, range)| median.zip(range)).any(gains)
    }
}

impl Finding {
    /// Adds the result of a simulation. If no load gains by the change, the verdict becomes [`Verdict::Leave`], without
    /// settings.
    pub fn check_against(&mut self, simulated: Simulated) {
        if !simulated.gains() && self.verdict == Verdict::Change {
            self.verdict = Verdict::Leave;
            self.settings.clear();
            self.risk.clear();
            self.statement
                .push_str(" A simulation of this topology shows no gain under any load, or not with every seed: keep the setting.");
        }
        self.simulated = Some(simulated);
    }

    pub(super) fn with(mut self, setting: Setting) -> Self {
        self.settings.push(setting);
        self
    }
}

impl Setting {
    pub(super) fn new(path: impl Into<String>, now: Option<String>, to: impl Into<String>) -> Self {
        Self { path: path.into(), now, to: to.into(), boot: None, is_boot_only: false }
    }

    pub(super) fn at_boot(mut self, parameter: impl Into<String>) -> Self {
        self.boot = Some(parameter.into());
        self
    }

    pub(super) fn at_boot_alone(self, parameter: impl Into<String>) -> Self {
        Self { is_boot_only: true, ..self.at_boot(parameter) }
    }
}

/// A rule applied to facts.
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

    /// Returns the finding that the rule passed.
    pub(super) fn content(&self, subject: &str, statement: impl Into<String>) -> Vec<Finding> {
        vec![self.leave(subject, statement)]
    }

    /// Returns the findings or, if there are none, that the rule passed.
    pub(super) fn or_content<S: Into<String>>(
        &self,
        findings: Vec<Finding>,
        subject: &str,
        statement: impl FnOnce() -> S,
    ) -> Vec<Finding> {
        if findings.is_empty() { self.content(subject, statement()) } else { findings }
    }
}

//! Reports of a run besides its result: the lines and fields that cost time, and the threads of each CPU over
//! time.

mod fields;
mod function;
mod lines;
pub(crate) mod own_code;
mod summary;
mod timeline;

use coreshard_platform::Fields;
use coreshard_topology::CpuId;

use crate::machine::Machine;
use crate::memory::Place;
use fields::FieldNames;
pub(crate) use fields::bare_name;
pub(crate) use function::Site;
use lines::LineCounts;
pub(crate) use lines::Recorded;
pub use summary::{LineReport, LineRow, LineSummary};
pub(crate) use timeline::Span;
pub use timeline::Timeline;

/// Records the events of a run.
pub(crate) struct Recorder {
    names: FieldNames,
    lines: Option<LineCounts>,
    spans: Option<Vec<Span>>,
}

impl Recorder {
    pub(crate) fn new(lines: bool, timeline: bool, cpus: usize) -> Self {
        Self {
            names: FieldNames::default(),
            lines: lines.then(|| LineCounts::new(cpus)),
            spans: timeline.then(Vec::new),
        }
    }

    pub(crate) fn record(&mut self, recorded: &Recorded<'_>) {
        if let Some(lines) = &mut self.lines {
            lines.record(recorded);
        }
    }

    /// Starts or ends a measurement, by a thread.
    pub(crate) fn measure(&mut self, thread: usize, measured: bool) {
        if let Some(lines) = &mut self.lines {
            lines.measure(thread, measured);
        }
    }

    pub(crate) fn span(&mut self, span: Span) {
        if let Some(spans) = &mut self.spans
            && span.start < span.end
        {
            spans.push(span);
        }
    }

    pub(crate) fn describe<T: Fields>(&mut self, start: Place) {
        self.names.add(start, size_of::<T>(), T::NAME, T::FIELDS);
    }

    /// Records that memory was freed.
    pub(crate) fn release(&mut self, start: Place, bytes: usize) {
        if let Some(lines) = &mut self.lines {
            lines.keep_names(start, bytes, &self.names);
        }
        self.names.forget(start, bytes);
    }

    pub(crate) fn field_at(&self, place: Place) -> Option<String> {
        self.names.field_at(place)
    }

    pub(crate) fn finish(
        self,
        machine: &Machine,
        threads: Vec<String>,
        cpus: Vec<CpuId>,
        node_of: impl FnMut(Place) -> Option<u32>,
    ) -> (Option<LineReport>, Option<Timeline>) {
        let lines = self.lines.map(|lines| lines.report(machine, &self.names, node_of));
        let timeline = self.spans.map(|spans| Timeline::new(spans, threads, cpus));
        (lines, timeline)
    }
}

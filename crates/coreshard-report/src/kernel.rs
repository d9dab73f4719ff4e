//! Results of `bench kernel`: a text table and a page.

use coreshard_results::KernelResults;
use maud::html;

use crate::format;
use crate::html::frame;
use crate::plain;
use crate::rt::{dots, per_sec};

/// Formats the settings and variants of a kernel program, one per line.
///
/// ```
/// use coreshard_results::{KernelMeasurement, KernelResults};
///
/// let measurement = KernelMeasurement { setting: "cache".into(), variant: "kernel".into(), ..KernelMeasurement::default() };
/// let results = KernelResults { results: vec![measurement], ..KernelResults::default() };
/// assert!(coreshard_report::kernel::text(&results, 80).contains("cache"));
/// ```
pub fn text(results: &KernelResults, width: usize) -> String {
    format!(
        "{}, {}: the kernel's {}, {}, {} operations each, {}\n\n{}\n{}",
        results.machine,
        results.platform,
        results.program,
        format::counted(results.threads, "thread"),
        format::count(results.operations_per_thread as f64),
        format::counted(results.seeds.len(), "seed"),
        plain::table(&results.results, width),
        plain::notes(&results.notes),
    )
}

/// Returns a page with the table and a chart of the spread over seeds.
///
/// ```
/// let page = coreshard_report::kernel::page(&coreshard_results::KernelResults::default());
/// assert!(page.contains("The kernel's algorithms"));
/// ```
pub fn page(results: &KernelResults) -> String {
    let mut settings: Vec<&str> =
        results.results.iter().map(|measurement| &*measurement.setting).collect();
    settings.dedup();
    let pictures = html! {
        @for setting in settings {
            @let measurements = results.results.iter().filter(|measurement| measurement.setting == setting);
            @let rows: Vec<_> = measurements.map(|measurement| (&*measurement.variant, &measurement.each_seed[..])).collect();
            figure {
                figcaption { (setting) ": operations per second, a dot for each seed" }
                (dots(&rows, "Operations per second", per_sec))
            }
        }
    };
    let title = format!("The kernel's algorithms: {}", results.program);
    let table = text(results, usize::MAX);
    frame::plain_page("coreshard bench kernel", &title, &table, &pictures, results)
}

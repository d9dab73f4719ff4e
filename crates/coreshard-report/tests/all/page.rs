//! The HTML page and the SVG drawing: complete, self-contained, well-formed, and honest about what is
//! missing.

use coreshard_report::html;
use coreshard_results::{QueueMeasurement, QueueResults};
use scraper::{ElementRef, Html, Selector};

fn parse(page: &str) -> Html {
    let document = Html::parse_document(page);
    assert!(document.errors.is_empty(), "{:?}", document.errors);
    document
}

fn select<'a>(document: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    document.select(&Selector::parse(selector).unwrap()).collect()
}

fn text(element: ElementRef<'_>) -> String {
    element.text().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn headline(results: &QueueResults) -> String {
    text(select(&parse(&html::queue_page(results)), "h1")[0])
}

fn one_measurement(items_per_sec: f64) -> QueueResults {
    QueueResults {
        results: vec![QueueMeasurement {
            scope: "cpu".into(),
            wake: "coalesced".into(),
            intake: "locked".into(),
            items_per_sec,
            items_per_sec_min: items_per_sec * 0.9,
            items_per_sec_max: items_per_sec * 1.1,
            ..QueueMeasurement::default()
        }],
        ..QueueResults::default()
    }
}

#[test]
fn every_measurement_is_in_the_table_and_in_the_charts() {
    for results in [crate::sample::many_cpus(), crate::sample::two_cpus()] {
        let page = html::queue_page(&results);
        let document = parse(&page);
        let rows: Vec<String> = select(&document, "tbody tr").into_iter().map(text).collect();
        assert_eq!(rows.len(), results.results.len());
        for (row, measurement) in rows.iter().zip(&results.results) {
            let name =
                format!("{} {} · {}", measurement.scope, measurement.wake, measurement.intake);
            assert!(row.starts_with(&name), "{row} is not {name}");
        }
        let marks_of = |id: &str| {
            let selector = format!("svg[aria-labelledby^='{id}-'] .mark");
            select(&document, &selector).len()
        };
        assert_eq!(marks_of("throughput"), results.results.len());
        assert_eq!(marks_of("call"), results.results.len());
        assert_eq!(marks_of("end-to-end"), results.results.len());
        let with_lock = results
            .results
            .iter()
            .filter(|measurement| measurement.lock_hold_ns_per_item.is_some());
        assert_eq!(marks_of("lock-hold"), with_lock.count());
        assert_eq!(marks_of("gains"), 6 + 3 + 2);
        assert_eq!(select(&document, "tr.best").len(), 1);
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let document = parse(&html::queue_page(&crate::sample::many_cpus()));
    for element in select(&document, "*") {
        let name = element.value().name();
        assert!(
            !["link", "iframe", "object", "embed", "img", "base", "use"].contains(&name),
            "{name}"
        );
        for (attribute, value) in element.value().attrs() {
            assert!(!["src", "href", "xlink:href", "srcset", "action"].contains(&attribute));
            assert!(!attribute.starts_with("on"), "{attribute} runs a script");
            assert!(!value.contains("://") && !value.contains("url("), "{attribute}={value}");
        }
    }
    for style in select(&document, "style") {
        let style = style.text().collect::<String>();
        for outside in ["url(", "@import", "@font-face", "//"] {
            assert!(!style.contains(outside), "{outside} in a style sheet");
        }
    }
    let scripts = select(&document, "script");
    assert_eq!(scripts.len(), 1);
    assert_eq!(scripts[0].attr("type"), Some("application/json"), "data, which no browser runs");
}

#[test]
fn charts_have_a_name_and_a_description() {
    let document = parse(&html::queue_page(&crate::sample::many_cpus()));
    let charts = select(&document, "svg.chart");
    assert_eq!(charts.len(), 5);
    for chart in charts {
        assert_eq!(chart.attr("role"), Some("img"));
        for id in chart.attr("aria-labelledby").unwrap().split(' ') {
            let named = select(&document, &format!("[id='{id}']"));
            assert_eq!(named.len(), 1, "{id}");
            assert!(!text(named[0]).is_empty(), "{id}");
        }
    }
}

#[test]
fn the_results_are_embedded_as_they_were() {
    let mut results = crate::sample::many_cpus();
    results.notes.push("</script><b>&amp; <!-- ".into());
    let document = parse(&html::queue_page(&results));
    let json = select(&document, "script#results")[0].text().collect::<String>();
    assert_eq!(serde_json::from_str::<QueueResults>(&json).unwrap(), results);
}

#[test]
fn a_variant_looks_the_same_whichever_others_were_measured() {
    let class_of_last_bar = |results: &QueueResults| {
        let document = parse(&html::queue_page(results));
        let bars = select(&document, "svg[aria-labelledby^='throughput-'] .mark");
        bars.last().unwrap().attr("class").unwrap().to_owned()
    };
    let all = crate::sample::many_cpus();
    let mut some = all.clone();
    some.results
        .retain(|measurement| measurement.wake == "coalesced" && measurement.intake == "lock-free");
    assert_eq!(class_of_last_bar(&all), class_of_last_bar(&some));
}

#[test]
fn texts_are_escaped_wherever_they_stand() {
    const HOSTILE: &str = "<b id=x>\"'&amp;</style></script></title>\u{0}\u{1b}";
    let shown = "<b id=x>\"'&amp;</style></script></title>\u{fffd}\u{fffd}";
    let mut results = crate::sample::two_cpus();
    results.machine = HOSTILE.into();
    results.platform = HOSTILE.into();
    results.cpu_model = Some(HOSTILE.into());
    results.kernel = Some(HOSTILE.into());
    results.notes = vec![HOSTILE.into()];
    for measurement in &mut results.results {
        for text in [&mut measurement.scope, &mut measurement.wake, &mut measurement.intake] {
            text.push_str(HOSTILE);
        }
        measurement.same_pods_as = Some(HOSTILE.into());
    }
    let document = parse(&html::queue_page(&results));
    assert!(select(&document, "#x").is_empty());
    let plain = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let places =
        ["title", "h1", "dd", "th", "svg text", "svg title", "svg desc", ".legend li", "li"];
    for place in places {
        let found = select(&document, place).into_iter().any(|found| text(found).contains(&plain));
        assert!(found, "not in {place}");
    }
}

#[test]
fn the_headline_names_the_best_the_worst_and_the_ratio() {
    let mut results = crate::sample::many_cpus();
    let line = headline(&results);
    assert!(
        line.starts_with("smt · coalesced · lock-free ran 4.04 M items per second, 6.89 × the")
    );
    assert!(line.contains("586 k of cache · under-lock · locked"), "{line}");
    assert!(line.contains("runs of 7 other combinations reach the range of the best"), "{line}");
    for measurement in &mut results.results {
        measurement.items_per_sec_max = 1e9;
    }
    let line = headline(&results);
    assert!(line.starts_with("No combination stands out"), "{line}");
}

#[test]
fn a_headline_compares_nothing_with_a_measurement_that_ran_nothing() {
    let mut results = one_measurement(1000.0);
    results.results.push(QueueMeasurement { scope: "smt".into(), ..QueueMeasurement::default() });
    let line = headline(&results);
    assert!(
        line.contains("ran 1.00 k items per second; smt ·") && line.contains("ran none"),
        "{line}"
    );
    assert!(!line.contains("inf"), "{line}");
}

#[test]
fn nothing_measured_is_said_and_not_drawn() {
    let document = parse(&html::queue_page(&QueueResults::default()));
    assert_eq!(text(select(&document, "h1")[0]), "Nothing was measured.");
    assert!(select(&document, "svg").is_empty() && select(&document, "table").is_empty());
}

#[test]
fn a_single_measurement_is_drawn_without_a_contest() {
    let results = one_measurement(1234.0);
    let document = parse(&html::queue_page(&results));
    assert_eq!(
        text(select(&document, "h1")[0]),
        "cpu · coalesced · locked ran 1.23 k items per second."
    );
    assert_eq!(select(&document, "svg[aria-labelledby^='throughput-'] .mark").len(), 1);
    assert!(select(&document, "svg[aria-labelledby^='gains-']").is_empty(), "nothing to compare");
    assert!(select(&document, "svg[aria-labelledby^='lock-hold-']").is_empty(), "not measured");
}

#[test]
fn figures_that_are_missing_are_dashes_and_never_numbers() {
    let mut results = crate::sample::two_cpus();
    results.results[0].items_per_sec = f64::NAN;
    results.results[0].items_per_sec_min = f64::INFINITY;
    results.results[1].items_per_sec_min = f64::NAN;
    results.results[2].lock_hold_ns_per_item = Some(f64::NAN);
    results.results[3].p50_ns = 0;
    let page = html::queue_page(&results);
    let document = parse(&page);
    assert!(!page.contains("NaN") && !page.contains("inf%") && !page.contains("inf "), "{page}");
    let row = text(select(&document, "tbody tr")[0]);
    assert!(row.starts_with("cpu under-lock · locked–"), "{row}");
    let bars = select(&document, "svg[aria-labelledby^='throughput-'] .mark").len();
    assert_eq!(bars, results.results.len() - 1);
    for element in select(&document, "svg *") {
        for attribute in ["x", "x1", "x2", "cx", "width"] {
            let Some(value) = element.value().attr(attribute) else { continue };
            let number: f64 = value.trim_end_matches('%').parse().unwrap();
            assert!((0.0..=1000.0).contains(&number), "{attribute}={value}");
        }
    }
    let all_absent = one_measurement(f64::NAN);
    assert_eq!(headline(&all_absent), "Nothing was measured.");
}

#[test]
fn a_virtual_topology_carries_its_label() {
    let mut results = crate::sample::two_cpus();
    assert!(select(&parse(&html::queue_page(&results)), ".warning").is_empty());
    results.virtual_topology = true;
    let document = parse(&html::queue_page(&results));
    assert!(text(select(&document, ".warning")[0]).starts_with("Virtual topology."));
    let notes: Vec<String> = select(&document, ".method li").into_iter().map(text).collect();
    assert_eq!(notes, results.notes);
}

#[test]
fn the_same_results_make_the_same_bytes() {
    let results = crate::sample::many_cpus();
    assert_eq!(html::queue_page(&results), html::queue_page(&results));
}

#[test]
fn a_variant_has_the_colour_of_its_place_whichever_others_were_measured() {
    let mut results = one_measurement(1e6);
    results.wakes = ["oldest", "older", "old", "coalesced", "newest"].map(String::from).into();
    let page = html::queue_page(&results);
    let document = parse(&page);
    let marks = select(&document, "svg[aria-labelledby^='throughput-'] .mark");
    assert_eq!(marks.len(), 1);
    assert!(marks[0].value().classes().any(|class| class == "hue3"), "{:?}", marks[0].value());
}

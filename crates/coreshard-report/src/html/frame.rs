//! The frame of all pages: a self-contained file with embedded results.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

/// An element in the head of each page, used to recognize pages.
pub const MARK: &str = "<meta name=\"generator\" content=\"coreshard\">";

/// Returns a page with the results as JSON in the element `results`.
pub(crate) fn page(
    title: &str,
    styles: &[&str],
    body: &Markup,
    results: &(impl Serialize + ?Sized),
) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                (PreEscaped(MARK))
                title { (title) }
                style { @for style in styles { (PreEscaped(style)) } }
            }
            body {
                main { (body) }
                script type="application/json" #results { (PreEscaped(embedded(results))) }
            }
        }
    };
    page.into_string()
}

/// Returns a simple page: title, text table and pictures.
pub(crate) fn plain_page(
    command: &str,
    title: &str,
    table: &str,
    pictures: &Markup,
    results: &(impl Serialize + ?Sized),
) -> String {
    const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;\
padding:0 1rem;color-scheme:light dark}pre{overflow-x:auto}svg{width:100%;height:auto}\
svg text{font-size:11px;fill:currentColor}rect,circle{fill:#3b78c2}\
line{stroke:currentColor;opacity:.4}figure{margin:1.5rem 0}figcaption{font-size:.9rem}";
    let body = html! {
        h1 { (title) }
        pre { (table) }
        (pictures)
    };
    page(command, &[STYLE], &body, results)
}

/// Returns the results as JSON that can be embedded in a `script` element.
fn embedded(results: &(impl Serialize + ?Sized)) -> String {
    let json = serde_json::to_string(results).expect("plain data with string keys is always JSON");
    json.replace('<', "\\u003c")
}

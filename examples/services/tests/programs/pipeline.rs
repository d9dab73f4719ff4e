use std::fmt::Write;

use crate::child::{run, said};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pipeline");

fn lines(count: usize) -> String {
    let mut lines = String::new();
    for number in 0..count {
        // Of different lengths, so that they are done in another order.
        let _ = writeln!(lines, "Line  {number} {}", "WORD\t".repeat(number * 7919 % 301));
    }
    lines
}

fn expected(input: &str) -> Vec<String> {
    let tidied = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    input.lines().map(tidied).collect()
}

#[test]
fn lines_come_out_in_order() {
    // The FNV-1a of "foobar", as its authors give it.
    assert_eq!(said(&run::<&str>(PROGRAM, &[], " FooBar ")), "85944171f73967e8  foobar\n");
    assert_eq!(said(&run::<&str>(PROGRAM, &[], "")), "");
    let input = lines(500);
    for arguments in [&["--capacity", "1", "--window", "1"][..], &["--capacity", "2"], &[]] {
        let output = run(PROGRAM, arguments, &input);
        let texts = said(&output).lines().map(|line| line.split_once("  ").unwrap().1);
        assert!(texts.eq(expected(&input)), "{arguments:?}");
    }
}

#[test]
fn as_they_are_done_none_is_lost() {
    let input = lines(3_000);
    let output = run(PROGRAM, &["--unordered", "--capacity", "3"], &input);
    let mut texts: Vec<_> =
        said(&output).lines().map(|line| line.split_once("  ").unwrap().1.to_owned()).collect();
    let mut expected = expected(&input);
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected);
}

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn line(words: &str) -> Result<Args, clap::Error> {
    let words = ["run", "--out", "somewhere"].into_iter().chain(words.split(' '));
    Line::try_parse_from(words).map(|line| line.args)
}

#[test]
fn a_short_run_leaves_the_real_ones_out_and_says_why() {
    let why = |words: &str| line(words).expect("a line").without();
    assert_eq!(why("--all"), None);
    assert_eq!(why("quota --guests"), None);
    assert_eq!(why("--all --no-guests"), Some("--no-guests"));
    assert!(why("--all --quick").is_some_and(|why| why.starts_with("--quick")));
    assert!(why("--all --target iscsi://10.0.0.1/iqn.2001-04.org.example:a/1 --destroy-data").is_some());
}

#[test]
fn real_ones_are_not_asked_for_where_they_are_left_out() {
    for words in ["quota --guests --quick", "quota --guests --no-guests"] {
        assert!(line(words).is_err(), "{words}");
    }
}

#[test]
fn what_is_left_out_can_be_handed_over_and_read_again() {
    let cases: Vec<_> = REAL.iter().map(|real| real.left_out("no guest")).collect();
    let text: String = cases.iter().map(Case::to_string).collect();
    assert_eq!(lab::figures::parse(&text).expect("cases"), cases);
    assert_eq!(heading("raw").and_then(|case| case.row).as_deref(), Some("G18"));
    assert_eq!(heading("discovery"), None);
}

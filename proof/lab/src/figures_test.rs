use super::*;

const RAW: &str = "\
case\traw\tG18\tA raw disk against a file
story\t8 KiB, random
figure\tcommands a second\t1/s\tfile=60 90 120\traw=50 100 110\tper=raw\tpublished=1\tgoal=same\twhy=an emulated guest
note\tThe file system is clean.

case\tpeers\t-\tThe array and others
figure\tlatency\tms\tarray=1\ttgt=2\tLIO on dm-vdo=4 5
";

#[test]
fn a_file_has_cases_with_figures_of_any_number_of_columns() {
    let cases = parse(RAW).expect("cases");
    let [raw, peers] = cases.as_slice() else { panic!("two cases") };
    assert_eq!((raw.row.as_deref(), peers.row.as_deref()), (Some("G18"), None));
    assert_eq!((raw.story.len(), raw.notes.len()), (1, 1));
    assert_eq!(raw.figures[0].columns[1].values, [50.0, 100.0, 110.0]);
    assert_eq!(peers.columns(), ["array", "tgt", "LIO on dm-vdo"]);
    assert_eq!(peers.comparisons(), [("array", "tgt"), ("array", "LIO on dm-vdo")]);
}

#[test]
fn what_is_written_is_read_again() {
    let cases = parse(RAW).expect("cases");
    let text: String = cases.iter().map(Case::to_string).collect();
    assert_eq!(parse(&text).expect("the same cases"), cases);
    let mut failed = Case::new("vms", None, "machines");
    failed.failed = Some("no\tmachine\ncan be made".to_owned());
    let read = parse(&failed.to_string()).expect("a case");
    assert_eq!(read[0].failed.as_deref(), Some("no machine can be made"));
}

#[test]
fn ratios_are_made_within_a_round_where_both_have_the_same_rounds() {
    let cases = parse(RAW).expect("cases");
    let within = cases[0].figures[0].ratio(("file", "raw")).expect("a ratio");
    assert_eq!((within.low, within.median, within.high), (0.9, 120.0 / 110.0, 1.2));
    let medians = cases[1].figures[0].ratio(("array", "LIO on dm-vdo")).expect("a ratio");
    assert_eq!((medians.low, medians.high), (1.0 / 4.5, 1.0 / 4.5));
    assert_eq!(cases[1].figures[0].ratio(("file", "raw")), None);
}

#[test]
fn a_malformed_line_is_refused_with_its_number_and_the_reason() {
    let head = "case\tc\t-\ttitle\n";
    for (line, why) in [
        ("speed\t1", "line 2: \"speed\" is unknown"),
        ("case\tc\t-\tagain", "line 2: a second case c"),
        ("case\tother\t-", "line 2: a case has a name, a row and a title"),
        ("story", "line 2: \"story\" takes one text"),
        ("note\ta\tb", "line 2: \"note\" takes one text"),
        ("figure\tf", "line 2: a figure says what it is, its unit, and its columns"),
        ("figure\tf\ts", "line 2: a figure without a column"),
        ("figure\t\ts\ta=1", "line 2: a figure without a name or a unit"),
        ("figure\tf\ts\ta=1\nfigure\tf\ts\ta=1", "line 3: a second figure \"f\""),
        ("figure\tf\ts\ta", "line 2: \"a\" has no ="),
        ("figure\tf\ts\t=1", "line 2: a column without a name"),
        ("figure\tf\ts\ta=", "line 2: column \"a\" is empty"),
        ("figure\tf\ts\ta=1 x", "line 2: a: \"x\" is no number"),
        ("figure\tf\ts\ta=inf", "line 2: a: \"inf\" is no number"),
        ("figure\tf\ts\ta=1\ta=2", "line 2: \"a\" is there twice"),
        ("figure\tf\ts\ta=1\tpublished=", "line 2: published: \"\" is no number"),
        ("figure\tf\ts\ta=1\tpublished=1\tgoal=best", "line 2: no goal \"best\""),
        ("figure\tf\ts\ta=1\tgoal=more", "line 2: a goal without a published figure"),
        ("figure\tf\ts\ta=1\tpublished=1\tgoal=same", "line 2: goal=same without per"),
        ("figure\tf\ts\ta=1\tb=1\tper=a", "line 2: per=a is not a column after the first"),
        ("story\tonly", "case c: no figures, and no reason"),
    ] {
        let error = parse(&format!("{head}{line}\n")).expect_err(line);
        assert_eq!(format!("{error:#}"), why);
    }
    let error = parse("figure\tf\ts\ta=1").expect_err("no case");
    assert_eq!(format!("{error:#}"), "line 1: \"figure\" before any case");
}

fn report(rounds: usize, file: &str, raw: &str, goal: &str) -> FigureReport {
    let many = |value: &str| vec![value; rounds].join(" ");
    let (file, raw) = (many(file), many(raw));
    let text =
        format!("case\tc\t-\tt\nfigure\tf\t1/s\tfile={file}\traw={raw}\tper=raw\tpublished=1\tgoal={goal}");
    parse(&text).expect("a case")[0].figures[0].report(Some("tgt"))
}

#[test]
fn what_was_published_as_a_ratio_is_reported_as_one() {
    let report = report(10, "104", "100", "near");
    assert_eq!((report.name.as_str(), report.unit.as_str()), ("f, file ÷ raw", "×"));
    assert_eq!((report.published, report.reached, report.peer), (Some(1.0), Some(true), None));
    assert_eq!(report.measured.expect("a ratio").median, 1.04);
}

#[test]
fn the_same_is_claimed_only_of_what_the_rounds_show() {
    assert_eq!(report(10, "101", "100", "same").reached, Some(true));
    assert_eq!(report(10, "120", "100", "same").reached, Some(false));
    // Chance alone does this with so few.
    let few = report(3, "120", "100", "same");
    assert_eq!(few.reached, None);
    assert!(few.remark.starts_with("Too few rounds"), "{}", few.remark);
    assert_eq!(report(3, "0", "100", "same").reached, None);
}

#[test]
fn a_figure_by_itself_stands_beside_the_peer() {
    let cases = parse(RAW).expect("cases");
    let report = cases[1].figures[0].report(Some("tgt"));
    assert_eq!(report.measured.map(|it| it.median), Some(1.0));
    assert_eq!(report.peer.map(|it| it.median), Some(2.0));
    assert_eq!(cases[1].figures[0].report(None).peer, None);
}

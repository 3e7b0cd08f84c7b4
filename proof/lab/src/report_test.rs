use super::*;
use crate::figures;
use crate::run::StepReport;
use std::collections::BTreeMap;

fn results() -> Results {
    let middle = |median| Middle { median, low: median * 0.9, high: median * 1.1 };
    let step = |target, median| StepReport {
        step: "with <offload>".to_owned(),
        target,
        values: BTreeMap::from([("iops".to_owned(), middle(median))]),
        line: vec![median, median * 1.2, median],
        failed: (target == "tgt").then(|| "no \"answer\"".to_owned()),
        left_out: None,
    };
    let figure = |published, measured, reached| FigureReport {
        name: "on ÷ off".to_owned(),
        unit: "×".to_owned(),
        published: Some(published),
        measured,
        peer: Some(middle(1.0)),
        reached,
        why: "because".to_owned(),
        remark: String::new(),
    };
    let report = Report {
        name: "w".to_owned(),
        row: "G4".to_owned(),
        title: "title".to_owned(),
        story: "story & more".to_owned(),
        scale: "scale".to_owned(),
        repeats: 3,
        chart: "iops".to_owned(),
        steps: vec![step("ashlar", 1234.5), step("tgt", 600.0)],
        figures: vec![
            figure(2.0, Some(middle(2.5)), Some(true)),
            figure(3.0, Some(middle(2.5)), Some(false)),
            figure(3.0, None, None),
        ],
    };
    let (machine, peer) = ("two cores".to_owned(), Some("tgt"));
    Results { machine, peer, quick: false, workloads: vec![report], real: Vec::new() }
}

const REAL: &str = "\
case\traw\tG18\tA raw disk & a file
story\tin turn, <direct>
figure\tcommands a second\t1/s\tfile=50 60 66\traw=50 60 60\tper=raw\tpublished=1\tgoal=near
case\tpostgres\t-\tPostgreSQL
figure\tlatency\tms\tarray=3\ttgt=4\tother=6
note\tNothing was lost.
";

fn with_real(text: &str) -> Results {
    let mut results = results();
    results.workloads[0].row = "G20".to_owned();
    results.real = figures::parse(text).expect("cases");
    results
}

#[test]
fn the_table_says_published_measured_peer_and_ratio() {
    let table = table(&results());
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines[2], "| G4 | on ÷ off | 2.00× | 2.50 (2.25–2.75)× | 1.00 (0.900–1.10)× | 2.50 | yes |");
    assert!(lines[3].ends_with("| no |"));
    assert!(lines[4].contains("| – |") && lines[4].ends_with("| not run |"));
}

#[test]
fn the_page_stands_alone_and_explains_only_what_is_not_reached() {
    let page = html(&results()).expect("a page");
    assert_eq!(page.matches("because").count(), 2);
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("story &amp; more") && page.contains("with &lt;offload&gt;"));
    assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("<link"));
}

#[test]
fn files_for_programs_have_every_figure_and_value() {
    let results = results();
    let figures = figures_csv(&results);
    assert_eq!(figures.lines().count(), 4);
    assert!(figures.lines().all(|line| line.split(',').count() == 12), "{figures}");
    let values = values_csv(&results);
    assert!(values.contains("\"G4\",\"w\",\"with <offload>\",\"ashlar\",\"iops\",1234.5,"), "{values}");
    let json = serde_json::to_value(&results).expect("JSON");
    assert_eq!(json["workloads"][0]["figures"][0]["published"], 2.0);
    assert_eq!(field("a \"b\""), "\"a \"\"b\"\"\"");
}

#[test]
fn a_real_row_stands_between_the_modelled_ones() {
    let mut results = with_real(REAL);
    results.workloads.push(Report { row: "G6, G7".to_owned(), ..results.workloads[0].clone() });
    let table = table(&results);
    let rows: Vec<_> = table.lines().skip(2).map(|line| line.split(' ').nth(1).unwrap_or_default()).collect();
    assert_eq!(rows, ["G6,", "G6,", "G6,", "G18", "G20", "G20", "G20"]);
    let line = "| G18 | commands a second, file ÷ raw | 1.00× | 1.00 (1.00–1.10)× | – | – | yes |";
    assert!(table.contains(line), "{table}");
}

#[test]
fn real_ones_have_a_part_of_the_page_and_tables_with_all_columns() {
    let results = with_real(REAL);
    let page = html(&results).expect("a page");
    assert!(page.contains("Real ones beside the models") && page.contains("G18 · A raw disk &amp; a file"));
    assert!(page.contains("in turn, &lt;direct&gt;") && page.contains("Nothing was lost."));
    assert!(page.contains("<th>array ÷ other</th>") && page.contains("<td>6.00 ms</td>"));
    assert!(page.contains("<a href=\"#real-raw\">G18</a>") && page.contains("<section id=\"real-raw\">"));
    let text = cases(&results.real);
    assert!(text.contains(
        "| figure | array | tgt | other | array ÷ tgt | array ÷ other |\n|---|---|---|---|---|---|"
    ));
    assert!(text.contains("| latency | 3.00 ms | 4.00 ms | 6.00 ms | 0.750 | 0.500 |"), "{text}");
    assert!(!html(&self::results()).expect("a page").contains("Real ones"));
}

#[test]
fn files_for_programs_have_what_real_ones_did() {
    let results = with_real(REAL);
    let figures = figures_csv(&results);
    assert!(
        figures.contains("\"G18\",\"raw\",\"commands a second, file ÷ raw\",\"×\",1,1,1,1.1,,,,true"),
        "{figures}"
    );
    assert!(figures.contains("\"\",\"postgres\",\"latency\",\"ms\",,3,3,3,4,4,4,"), "{figures}");
    let values = values_csv(&results);
    assert!(values.contains("\"\",\"postgres\",\"\",\"other\",\"latency\",6,6,6"), "{values}");
    let json = serde_json::to_value(&results).expect("JSON");
    assert_eq!(json["real"][0]["figures"][0]["columns"][1]["middle"]["median"], 60.0);
}

#[test]
fn what_was_left_out_is_in_the_table_and_says_why() {
    let results = with_real("case\traw\tG18\tA raw disk\nleft-out\tno guest can be made\n");
    assert!(table(&results).contains("| G18 | A raw disk | – | – | – | – | not run |"));
    assert!(html(&results).expect("a page").contains("Left out: no guest can be made"));
    assert!(cases(&results.real).ends_with("\n### G18 · A raw disk\n\nLeft out: no guest can be made\n"));
}

#[test]
fn what_the_rounds_leave_open_is_said_to_be_open() {
    let results = with_real(&REAL.replace("goal=near", "goal=same"));
    assert!(table(&results).contains("| 1.00 (1.00–1.10)× | – | – | can't say |"));
    let page = html(&results).expect("a page");
    assert!(page.contains("Too few rounds") && cases(&results.real).contains("file ÷ raw: Too few rounds"));
}

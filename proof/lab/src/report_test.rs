use super::*;
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
    };
    let figure = |published, measured, reached| FigureReport {
        name: "on ÷ off".to_owned(),
        unit: "×".to_owned(),
        published: Some(published),
        measured,
        peer: Some(middle(1.0)),
        reached,
        why: "because".to_owned(),
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
    Results { machine: "two cores".to_owned(), peer: Some("tgt"), quick: false, workloads: vec![report] }
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

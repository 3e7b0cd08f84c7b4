//! Results of real programs beside those of the models: each case has a table with all programs that were measured
//! alternately.

use super::{cells, or_dash, spread, with_unit};
use crate::figures::{Case, Column, Figure};
use crate::run::FigureReport;
use minijinja::{Value, context};

/// The cases as Markdown; empty without any.
pub fn cases(cases: &[Case]) -> String {
    if cases.is_empty() {
        return String::new();
    }
    let texts = cases.iter().map(|it| format!("\n{}", case(it)));
    format!("\n## Real ones beside the models\n{}", texts.collect::<String>())
}

/// A case as Markdown.
pub fn case(case: &Case) -> String {
    let mut table = Vec::new();
    if !case.figures.is_empty() {
        let heads = heads(case);
        table.push(format!("| figure | {} |", heads.join(" | ")));
        table.push(format!("|---{}|", "|---".repeat(heads.len())));
    }
    let rows = case.figures.iter().map(|it| format!("| {} | {} |", it.what, fields(case, it).join(" | ")));
    table.extend(rows);
    let heading = format!("### {}", heading(case));
    let parts = [heading, case.story.join("\n"), table.join("\n"), remarks(case).join("\n")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n") + "\n"
}

fn heading(case: &Case) -> String {
    match &case.row {
        Some(row) => format!("{row} · {}", case.title),
        None => case.title.clone(),
    }
}

/// Column heads after the figures' names.
fn heads(case: &Case) -> Vec<String> {
    let ratios = case.comparisons().into_iter().map(|(first, other)| format!("{first} ÷ {other}"));
    case.columns().into_iter().map(str::to_owned).chain(ratios).collect()
}

/// Cells of a figure.
fn fields(case: &Case, figure: &Figure) -> Vec<String> {
    let values = case.columns().into_iter().map(|name| {
        let column = figure.columns.iter().find(|column: &&Column| column.name == name);
        or_dash(column.map(|column| with_unit(&spread(column.middle), &figure.unit)))
    });
    let ratios = case.comparisons().into_iter().map(|pair| or_dash(figure.ratio(pair).map(spread)));
    values.chain(ratios).collect()
}

/// Remarks below a case's table.
fn remarks(case: &Case) -> Vec<String> {
    let remarks = figures(case, None).into_iter().filter(|figure| !figure.remark.is_empty());
    let mut all: Vec<_> = remarks.map(|figure| format!("{}: {}", figure.name, figure.remark)).collect();
    all.extend(case.notes.iter().cloned());
    all.extend(case.left_out.iter().map(|why| format!("Left out: {why}")));
    all.extend(case.failed.iter().map(|why| format!("Failed: {why}")));
    all
}

/// Figures of a case for the overall table; the case itself if it has none.
pub(super) fn figures(case: &Case, peer: Option<&str>) -> Vec<FigureReport> {
    if case.figures.is_empty() {
        return vec![FigureReport {
            name: case.title.clone(),
            unit: String::new(),
            published: None,
            measured: None,
            peer: None,
            reached: None,
            why: case.left_out.iter().chain(&case.failed).cloned().collect::<Vec<_>>().join(" "),
            remark: String::new(),
        }];
    }
    case.figures.iter().map(|figure| figure.report(peer)).collect()
}

/// Name of its section on the page.
pub(super) fn section(case: &Case) -> String {
    format!("real-{}", case.name)
}

/// Value for the template.
pub(super) fn value(case: &Case, peer: Option<&str>) -> Value {
    let rows: Vec<_> =
        case.figures.iter().map(|it| context! { what => &it.what, fields => fields(case, it) }).collect();
    // Published figures, as for workloads.
    let published: Vec<_> = match case.row {
        Some(_) => figures(case, peer).iter().map(|figure| cells(figure).value()).collect(),
        None => Vec::new(),
    };
    context! {
        section => section(case),
        heading => heading(case),
        story => &case.story,
        heads => heads(case),
        rows,
        published,
        notes => &case.notes,
        left_out => &case.left_out,
        failed => &case.failed,
    }
}

//! Results of the workloads for readers and programs: a table, JSON, CSV, and one self-contained HTML file.

mod chart;
mod real;

pub use real::{case, cases};

use crate::figures::{Case, Column};
use crate::run::{FigureReport, Report, StepReport};
use crate::stats::Middle;
use anyhow::{Context, Result};
use minijinja::{Environment, Value, context};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Results of a run of the lab.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Description of the machine.
    pub machine: String,
    /// Name of the peer, if there was one.
    pub peer: Option<&'static str>,
    /// Whether it was a short run, which measures nothing.
    pub quick: bool,
    /// The workloads.
    pub workloads: Vec<Report>,
    /// Results of real programs.
    pub real: Vec<Case>,
}

/// A figure and its workload.
struct Line {
    row: String,
    workload: String,
    /// Section of the page with details.
    section: String,
    figure: FigureReport,
}

impl Results {
    /// Figures of all workloads and real programs; one for each that was not run.
    pub fn figures(&self) -> impl Iterator<Item = FigureReport> {
        self.lines().into_iter().map(|line| line.figure)
    }

    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for Report { row, name, figures, .. } in &self.workloads {
            lines.extend(figures.iter().map(|figure| Line {
                row: row.clone(),
                workload: name.clone(),
                section: name.clone(),
                figure: figure.clone(),
            }));
        }
        for case in &self.real {
            lines.extend(real::figures(case, self.peer).into_iter().map(|figure| Line {
                row: case.row.clone().unwrap_or_default(),
                workload: case.name.clone(),
                section: real::section(case),
                figure,
            }));
        }
        lines
    }

    /// Figures of published workloads, in the order of their rows.
    fn published(&self) -> Vec<Line> {
        let mut lines = self.lines();
        lines.retain(|line| !line.row.is_empty());
        lines.sort_by_key(|line| place(&line.row));
        lines
    }
}

/// The first number in a row's name; rows without one come last.
fn place(row: &str) -> u64 {
    let digits = row.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX)
}

/// Writes `results.json`, `figures.csv`, `values.csv`, `figures.md` and `report.html` into a folder.
pub fn write(results: &Results, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("can't make {}", out.display()))?;
    let files = [
        ("results.json", serde_json::to_string_pretty(results)?),
        ("figures.csv", figures_csv(results)),
        ("values.csv", values_csv(results)),
        ("figures.md", format!("{}{}", table(results), cases(&results.real))),
        ("report.html", html(results)?),
    ];
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// The table of published and measured figures, as Markdown.
pub fn table(results: &Results) -> String {
    let mut text = "| row | figure | published | measured | tgt | × tgt | reached |\n".to_owned();
    text += "|---|---|---|---|---|---|---|\n";
    for Line { row, figure, .. } in results.published() {
        let Cells { name, published, measured, peer, ratio, reached, .. } = cells(&figure);
        // Writing to a string can't fail.
        let _ =
            writeln!(text, "| {row} | {name} | {published} | {measured} | {peer} | {ratio} | {reached} |");
    }
    text
}

/// Cells of a table line.
struct Cells<'a> {
    name: &'a str,
    published: String,
    measured: String,
    peer: String,
    ratio: String,
    reached: &'static str,
    why: &'a str,
    remark: &'a str,
}

impl Cells<'_> {
    /// Value for the template.
    fn value(self) -> Value {
        let Self { name, published, measured, peer, ratio, reached, why, remark } = self;
        context! { name, published, measured, peer, ratio, reached, why, remark }
    }
}

fn cells(figure: &FigureReport) -> Cells<'_> {
    let unit = figure.unit.as_str();
    let ratio = figure.measured.zip(figure.peer).map(|(ours, peer)| ours.median / peer.median);
    Cells {
        name: &figure.name,
        published: or_dash(figure.published.map(|value| with_unit(&number(value), unit))),
        measured: or_dash(figure.measured.map(|middle| with_unit(&spread(middle), unit))),
        peer: or_dash(figure.peer.map(|middle| with_unit(&spread(middle), unit))),
        ratio: or_dash(ratio.filter(|ratio| ratio.is_finite()).map(number)),
        reached: match (figure.reached, figure.measured) {
            (_, None) => "not run",
            (Some(true), _) => "yes",
            (Some(false), _) => "no",
            // The goal was checked, and a remark has the result.
            (None, _) if !figure.remark.is_empty() => "can't say",
            (None, _) => "",
        },
        why: if figure.reached == Some(false) || figure.measured.is_none() { &figure.why } else { "" },
        remark: &figure.remark,
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn with_unit(text: &str, unit: &str) -> String {
    match unit {
        "×" => format!("{text}×"),
        unit => format!("{text} {unit}"),
    }
}

/// The median, followed by minimum and maximum.
fn spread(middle: Middle) -> String {
    match middle.low == middle.high {
        true => number(middle.median),
        false => format!("{} ({}–{})", number(middle.median), number(middle.low), number(middle.high)),
    }
}

/// A number with three significant digits, and all digits before the point.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A field of a CSV file (RFC 4180).
fn field(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn figures_csv(results: &Results) -> String {
    let mut text =
        "row,workload,figure,unit,published,measured,low,high,peer,peer low,peer high,reached\r\n".to_owned();
    let value = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for Line { row, workload, figure, .. } in results.lines() {
        let words = [&row, &workload, &figure.name, &figure.unit].map(|text| field(text));
        let (ours, peer) = (figure.measured, figure.peer);
        let numbers = [
            value(figure.published),
            value(ours.map(|it| it.median)),
            value(ours.map(|it| it.low)),
            value(ours.map(|it| it.high)),
            value(peer.map(|it| it.median)),
            value(peer.map(|it| it.low)),
            value(peer.map(|it| it.high)),
            figure.reached.map(|reached| reached.to_string()).unwrap_or_default(),
        ];
        text += &format!("{},{}\r\n", words.join(","), numbers.join(","));
    }
    text
}

fn values_csv(results: &Results) -> String {
    let mut text = "row,workload,step,target,value,median,low,high\r\n".to_owned();
    for report in &results.workloads {
        for step in &report.steps {
            for (name, middle) in &step.values {
                let words =
                    [report.row.as_str(), &report.name, &step.step, step.target, name].map(field).join(",");
                text += &format!("{words},{},{},{}\r\n", middle.median, middle.low, middle.high);
            }
        }
    }
    for case in &results.real {
        for figure in &case.figures {
            for Column { name, middle, .. } in &figure.columns {
                let row = case.row.as_deref().unwrap_or_default();
                let words = [row, &case.name, "", name, &figure.what].map(field).join(",");
                text += &format!("{words},{},{},{}\r\n", middle.median, middle.low, middle.high);
            }
        }
    }
    text
}

fn html(results: &Results) -> Result<String> {
    let mut environment = Environment::new();
    environment.add_template("report.html", include_str!("report/report.html"))?;
    let mut workloads = Vec::new();
    for report in &results.workloads {
        let said = |why: fn(&StepReport) -> Option<&String>| {
            let line = |step: &StepReport| Some(format!("{} on {}: {}", step.step, step.target, why(step)?));
            report.steps.iter().filter_map(line).collect::<Vec<_>>()
        };
        let (failed, left_out) = (said(|step| step.failed.as_ref()), said(|step| step.left_out.as_ref()));
        workloads.push(context! {
            name => &report.name,
            row => &report.row,
            title => &report.title,
            story => &report.story,
            scale => &report.scale,
            repeats => report.repeats,
            chart => &report.chart,
            cells => report.figures.iter().map(|figure| cells(figure).value()).collect::<Vec<_>>(),
            failed,
            left_out,
            bars => chart::bars(report)?,
            lines => chart::lines(report)?,
        });
    }
    let template = environment.get_template("report.html")?;
    let (machine, quick, peer) = (&results.machine, results.quick, results.peer);
    let line =
        |line: &Line| context! { row => &line.row, section => &line.section, ..cells(&line.figure).value() };
    let all: Vec<_> = results.published().iter().map(line).collect();
    let real: Vec<_> = results.real.iter().map(|case| real::value(case, peer)).collect();
    Ok(template.render(context! { workloads, all, real, machine, quick, peer })?)
}

#[cfg(test)]
#[path = "report_test.rs"]
mod tests;

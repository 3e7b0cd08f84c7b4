//! Figures of real programs, measured outside the lab and imported into its report from a text file that a shell script
//! can write. `docs/lab.md` describes the format.

use crate::run::FigureReport;
use crate::stats::{self, Middle, Verdict, middle};
use crate::workload::Goal;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// A measured case, or the reason why it was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Case {
    /// Name of the case.
    pub name: String,
    /// Row in the table of published workloads, if any.
    pub row: Option<String>,
    /// Short title.
    pub title: String,
    /// Method of the measurement.
    pub story: Vec<String>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Further remarks.
    pub notes: Vec<String>,
    /// Reason for not running it.
    pub left_out: Option<String>,
    /// Reason for the missing result.
    pub failed: Option<String>,
}

/// A figure of all programs that were measured alternately.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the figure.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// Columns; the first one is the reference.
    pub columns: Vec<Column>,
    /// Ratios of the first column to each other one, in order, within a round.
    pub ratios: Vec<Option<Middle>>,
    /// The column that the first is divided by to get the published figure.
    pub per: Option<String>,
    /// The published figure.
    pub published: Option<f64>,
    /// Goal of the figure.
    pub goal: Aim,
    /// Possible reason for missing the goal.
    pub why: String,
}

/// Results of one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Name of the program.
    pub name: String,
    /// Value of each round.
    pub values: Vec<f64>,
    /// Median and range.
    pub middle: Middle,
}

/// Goal relative to a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// The rounds show no significant difference.
    Same,
    /// A goal as in a workload.
    #[serde(untagged)]
    Of(Goal),
}

impl Default for Aim {
    fn default() -> Self {
        Self::Of(Goal::None)
    }
}

impl Aim {
    const ALL: [(&'static str, Self); 4] = [
        ("more", Aim::Of(Goal::More)),
        ("less", Aim::Of(Goal::Less)),
        ("near", Aim::Of(Goal::Near)),
        ("same", Aim::Same),
    ];

    fn find(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, aim)| *aim)
    }
}

/// The cases in a file.
pub fn read(path: &Path) -> Result<Vec<Case>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

/// The cases in a text. Every case must have figures, or a reason.
pub fn parse(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        take(&mut cases, line).with_context(|| format!("line {}", index + 1))?;
    }
    for case in &cases {
        let complete = !case.figures.is_empty() || case.left_out.is_some() || case.failed.is_some();
        ensure!(complete, "case {}: no figures, and no reason", case.name);
    }
    Ok(cases)
}

fn take(cases: &mut Vec<Case>, line: &str) -> Result<()> {
    let words: Vec<_> = line.split('\t').collect();
    if let ["case", name, row, title] = words.as_slice() {
        ensure!(!name.is_empty() && !title.is_empty(), "a case without a name or a title");
        ensure!(cases.iter().all(|case| case.name != *name), "a second case {name}");
        cases.push(Case::new(name, Some(*row).filter(|row| *row != NO_ROW), title));
        return Ok(());
    }
    let kind = words.first().copied().unwrap_or_default();
    ensure!(kind != "case", "a case has a name, a row and a title");
    let case = cases.last_mut().with_context(|| format!("{kind:?} before any case"))?;
    match words.as_slice() {
        ["story", text] => case.story.push((*text).to_owned()),
        ["note", text] => case.notes.push((*text).to_owned()),
        ["left-out", why] => case.left_out = Some((*why).to_owned()),
        ["failed", why] => case.failed = Some((*why).to_owned()),
        ["figure", what, unit, pairs @ ..] => {
            ensure!(case.figures.iter().all(|figure| figure.what != *what), "a second figure {what:?}");
            case.figures.push(Figure::parse(what, unit, pairs)?);
        }
        ["story" | "note" | "left-out" | "failed", ..] => bail!("{kind:?} takes one text"),
        ["figure", ..] => bail!("a figure says what it is, its unit, and its columns"),
        _ => bail!("{kind:?} is unknown"),
    }
    Ok(())
}

/// Row of a case outside the table of published workloads.
const NO_ROW: &str = "-";

impl Case {
    /// A case without content.
    pub fn new(name: &str, row: Option<&str>, title: &str) -> Self {
        let (name, row, title) = (name.to_owned(), row.map(str::to_owned), title.to_owned());
        Self { name, row, title, ..Self::default() }
    }

    /// Names of all columns, in the order of the figures.
    pub fn columns(&self) -> Vec<&str> {
        distinct(self.figures.iter().flat_map(|figure| figure.columns.iter().map(|it| it.name.as_str())))
    }

    /// Pairs of compared columns.
    pub fn comparisons(&self) -> Vec<(&str, &str)> {
        distinct(self.figures.iter().flat_map(Figure::comparisons))
    }
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

impl Figure {
    /// A figure without a goal: columns by name, with a value for each round.
    pub fn plain(what: &str, unit: &str, columns: &[(&str, &[f64])]) -> Result<Self> {
        ensure!(!what.is_empty() && !unit.is_empty(), "a figure without a name or a unit");
        ensure!(!columns.is_empty(), "a figure without a column");
        let column = |(name, values): &(&str, &[f64])| {
            ensure!(!name.is_empty(), "a column without a name");
            ensure!(values.iter().all(|value| value.is_finite()), "column {name:?}: not a number");
            let middle =
                middle(values.iter().copied()).with_context(|| format!("column {name:?} is empty"))?;
            Ok(Column { name: (*name).to_owned(), values: values.to_vec(), middle })
        };
        let columns = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        let ratios = match columns.split_first() {
            Some((first, others)) => others.iter().map(|other| ratio(first, other)).collect(),
            None => Vec::new(),
        };
        let (what, unit) = (what.to_owned(), unit.to_owned());
        let (per, published, goal, why) = (None, None, Aim::default(), String::new());
        Ok(Self { what, unit, columns, ratios, per, published, goal, why })
    }

    fn parse(what: &str, unit: &str, pairs: &[&str]) -> Result<Self> {
        let mut columns: Vec<(&str, Vec<f64>)> = Vec::new();
        let (mut per, mut published, mut goal, mut why) = (None, None, None, None);
        for pair in pairs {
            let (name, value) = pair.split_once('=').with_context(|| format!("{pair:?} has no ="))?;
            let again = match name {
                "per" => per.replace(value.to_owned()).is_some(),
                "published" => published.replace(number(name, value)?).is_some(),
                "goal" => {
                    let aim = Aim::find(value).with_context(|| format!("no goal {value:?}"))?;
                    goal.replace(aim).is_some()
                }
                "why" => why.replace(value.to_owned()).is_some(),
                _ => {
                    let values = value.split_whitespace().map(|value| number(name, value));
                    let again = columns.iter().any(|(other, _)| *other == name);
                    columns.push((name, values.collect::<Result<_>>()?));
                    again
                }
            };
            ensure!(!again, "{name:?} is there twice");
        }
        let columns: Vec<_> = columns.iter().map(|(name, values)| (*name, values.as_slice())).collect();
        let mut figure = Self::plain(what, unit, &columns)?;
        if let Some(per) = &per {
            let other = figure.columns.iter().skip(1).any(|column| column.name == *per);
            ensure!(other, "per={per} is not a column after the first");
        }
        let (goal, why) = (goal.unwrap_or_default(), why.unwrap_or_default());
        ensure!(goal == Aim::default() || published.is_some(), "a goal without a published figure");
        ensure!(goal != Aim::Same || per.is_some(), "goal=same without per");
        (figure.per, figure.published, figure.goal, figure.why) = (per, published, goal, why);
        Ok(figure)
    }

    /// Pairs of columns of [`Figure::ratios`].
    pub fn comparisons(&self) -> impl Iterator<Item = (&str, &str)> {
        let first = self.columns.first();
        let others = self.columns.iter().skip(1);
        first
            .into_iter()
            .flat_map(move |first| others.clone().map(|it| (first.name.as_str(), it.name.as_str())))
    }

    /// Ratio of two columns, if this figure compares them.
    pub fn ratio(&self, pair: (&str, &str)) -> Option<Middle> {
        self.ratios.iter().zip(self.comparisons()).find(|(_, other)| *other == pair).and_then(|(it, _)| *it)
    }

    /// The figure for the table of published and measured figures: the first column beside the peer, or their ratio if
    /// that was published.
    pub fn report(&self, peer: Option<&str>) -> FigureReport {
        let column = |name: &str| self.columns.iter().find(|column| column.name == name);
        let first = self.columns.first();
        let (published, unit) = (self.published, self.unit.clone());
        let Some((first, per)) = first.zip(self.per.as_deref()) else {
            let measured = first.map(|first| first.middle);
            let peer = peer.and_then(column).map(|column| column.middle);
            let (name, why) = (self.what.clone(), self.why.clone());
            let reached = measured.and_then(|measured| self.reached(measured.median));
            let remark = String::new();
            return FigureReport { name, unit, published, measured, peer, reached, why, remark };
        };
        let measured = self.ratio((first.name.as_str(), per));
        let (reached, remark) = match self.goal {
            Aim::Same => self.sameness(first, column(per)),
            _ => (measured.and_then(|measured| self.reached(measured.median)), String::new()),
        };
        FigureReport {
            name: format!("{}, {} ÷ {per}", self.what, first.name),
            unit: "×".to_owned(),
            published,
            measured,
            peer: None,
            reached,
            why: self.why.clone(),
            remark,
        }
    }

    fn reached(&self, measured: f64) -> Option<bool> {
        match self.goal {
            Aim::Of(goal) => goal.reached(measured, self.published),
            Aim::Same => None,
        }
    }

    /// Whether the rounds show that two columns are equal or differ, with a text.
    fn sameness(&self, first: &Column, other: Option<&Column>) -> (Option<bool>, String) {
        let Some(pairs) = other.and_then(|other| rounds(first, other)) else {
            return (None, "The rounds are not pairs, so that nothing can be said.".to_owned());
        };
        let Some(found) = stats::compare(&pairs) else {
            return (None, "A round has no ratio, so that nothing can be said.".to_owned());
        };
        let (reached, words) = match found.verdict {
            Verdict::Same => (Some(true), "Equal"),
            Verdict::More | Verdict::Less => (Some(false), "They differ"),
            Verdict::Unclear => (None, "Too few rounds, or too far apart, to say whether they are equal"),
        };
        (
            reached,
            format!(
                "{words}: {:.2}×, 95 of 100 resamplings within {:.2}–{:.2}×.",
                found.ratio, found.low, found.high
            ),
        )
    }
}

fn number(name: &str, value: &str) -> Result<f64> {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
    number.with_context(|| format!("{name}: {value:?} is no number"))
}

/// Values of two columns in pairs, if both have the same number.
fn rounds(first: &Column, other: &Column) -> Option<Vec<(f64, f64)>> {
    let alike = first.values.len() == other.values.len();
    alike.then(|| first.values.iter().copied().zip(other.values.iter().copied()).collect())
}

/// Ratio of two columns, by rounds, or of the medians if they have different rounds.
fn ratio(first: &Column, other: &Column) -> Option<Middle> {
    let pairs = rounds(first, other).unwrap_or_else(|| vec![(first.middle.median, other.middle.median)]);
    middle(pairs.iter().map(|(first, other)| first / other).filter(|ratio| ratio.is_finite()))
}

/// The format read by [`parse`].
impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A tab or line break in a text, such as an error message, would end the field.
        let plain = |text: &str| text.split(['\t', '\n', '\r']).collect::<Vec<_>>().join(" ");
        writeln!(to, "case\t{}\t{}\t{}", self.name, self.row.as_deref().unwrap_or(NO_ROW), self.title)?;
        let texts = [("story", &self.story), ("note", &self.notes)];
        for (kind, text) in texts.iter().flat_map(|(kind, all)| all.iter().map(move |text| (kind, text))) {
            writeln!(to, "{kind}\t{}", plain(text))?;
        }
        for (kind, why) in [("left-out", &self.left_out), ("failed", &self.failed)] {
            if let Some(why) = why {
                writeln!(to, "{kind}\t{}", plain(why))?;
            }
        }
        self.figures.iter().try_for_each(|figure| write!(to, "{figure}"))
    }
}

/// One line of a case.
impl fmt::Display for Figure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "figure\t{}\t{}", self.what, self.unit)?;
        for Column { name, values, .. } in &self.columns {
            let values: Vec<_> = values.iter().map(f64::to_string).collect();
            write!(to, "\t{name}={}", values.join(" "))?;
        }
        if let Some(per) = &self.per {
            write!(to, "\tper={per}")?;
        }
        if let Some(published) = self.published {
            write!(to, "\tpublished={published}")?;
        }
        if let Some((word, _)) = Aim::ALL.iter().find(|(_, aim)| *aim == self.goal) {
            write!(to, "\tgoal={word}")?;
        }
        if !self.why.is_empty() {
            write!(to, "\twhy={}", self.why)?;
        }
        writeln!(to)
    }
}

#[cfg(test)]
#[path = "figures_test.rs"]
mod tests;

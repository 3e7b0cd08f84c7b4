//! Labels of objects, and the condition of a list on them.

use crate::problem::Problem;
use array::{LabelSelector, LabelsChange};
use axum::http::StatusCode;
use std::collections::BTreeMap;

/// Reads the query parameter `label`.
pub fn selector(text: Option<&str>) -> Result<LabelSelector, Problem> {
    let conditions = text.map(split).transpose()?.unwrap_or_default();
    let condition = |text: String| match text.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (text, None),
    };
    Ok(LabelSelector(conditions.into_iter().map(condition).collect()))
}

/// The conditions, without backslashes that quote.
fn split(text: &str) -> Result<Vec<String>, Problem> {
    let mut conditions = vec![String::new()];
    let (mut characters, mut dangles) = (text.chars(), false);
    while let Some(character) = characters.next() {
        let last = conditions.last_mut().expect("it begins with one");
        match character {
            ',' => conditions.push(String::new()),
            '\\' => match characters.next() {
                Some(quoted) => last.push(quoted),
                None => dangles = true,
            },
            other => last.push(other),
        }
    }
    if dangles || conditions.iter().any(|it| it.is_empty() || it.starts_with('=')) {
        let detail =
            format!("{text:?} is not a condition on labels: write key or key=value, separated by commas");
        return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail));
    }
    Ok(conditions)
}

/// Sets these labels.
pub fn setting(labels: BTreeMap<String, String>) -> LabelsChange {
    LabelsChange::setting(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use array::Labels;

    #[test]
    fn conditions_are_keys_and_values_that_all_hold() {
        let labels =
            Labels::default().with(&setting([("a".into(), "1,2\\".into()), ("b".into(), "".into())].into()));
        let labels = labels.expect("they are labels");
        let selects = |text: &str| selector(Some(text)).expect("a condition").selects(&labels);
        for (text, expected) in [
            ("a", true),
            ("a,b", true),
            ("b=", true),
            ("c", false),
            ("a,c", false),
            ("a=1", false),
            (r"a=1\,2\\", true),
            (r"a=1\,2\\,b=", true),
        ] {
            assert_eq!(selects(text), expected, "{text}");
        }
        assert!(selector(None).expect("no condition").selects(&labels));
        for wrong in ["", ",", "a,", "=x", r"a\", r"a=1\"] {
            assert!(selector(Some(wrong)).is_err(), "{wrong}");
        }
    }
}

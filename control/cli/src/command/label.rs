//! Options for labels: at creation, in changes, and as conditions of lists.

use clap::Args;
use std::collections::HashMap;

/// A key and its value.
fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "write a key and a value, such as tier=gold".into())
}

/// Labels of something new.
#[derive(Clone, Args)]
pub struct NewLabels {
    /// Label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
}

/// Changes to labels.
#[derive(Clone, Args)]
pub struct LabelChanges {
    /// Set a label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Remove a label; repeatable
    #[arg(long = "remove-label", value_name = "KEY")]
    remove: Vec<String>,
}

/// A condition of a list.
#[derive(Clone, Args)]
pub struct LabelFilter {
    /// Only those with this label; repeatable
    #[arg(short = 'l', long = "label", value_name = "KEY[=VALUE]")]
    labels: Vec<String>,
}

impl NewLabels {
    pub fn read(self) -> HashMap<String, String> {
        self.labels.into_iter().collect()
    }
}

impl LabelChanges {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    pub fn read(self) -> HashMap<String, Option<String>> {
        let removed = self.remove.into_iter().map(|key| (key, None));
        removed.chain(self.set.into_iter().map(|(key, value)| (key, Some(value)))).collect()
    }
}

impl LabelFilter {
    /// As the query of the API has it.
    pub fn read(self) -> Option<String> {
        let quoted = |text: String| text.replace('\\', r"\\").replace(',', r"\,");
        let conditions: Vec<_> = self.labels.into_iter().map(quoted).collect();
        (!conditions.is_empty()).then(|| conditions.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_values_are_no_separators() {
        let filter = |labels: &[&str]| {
            LabelFilter { labels: labels.iter().map(|it| (*it).to_owned()).collect() }.read()
        };
        assert_eq!(filter(&[]), None);
        assert_eq!(filter(&["a", r"b=1,2\"]).as_deref(), Some(r"a,b=1\,2\\"));
    }
}

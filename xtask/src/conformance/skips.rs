//! The skips that have a stated reason: `xtask/conformance-skips.txt`.

use super::report::{Outcome, Verdict};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Test → reason. A line is `Family.Test: reason`; `#` begins a comment.
pub fn read(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (test, reason) = line.split_once(": ").with_context(|| format!("no reason in `{line}`"))?;
            Ok((test.to_owned(), reason.to_owned()))
        })
        .collect()
}

/// Turns a skip without a reason into a failure, and so a reason that is no longer needed.
pub fn judge(outcomes: &mut [Outcome], expected: &BTreeMap<String, String>) {
    for outcome in outcomes {
        let reason = expected.get(&outcome.name);
        let fault = match (outcome.verdict, reason) {
            (Verdict::Skipped, None) => "skipped without a stated reason",
            (Verdict::Passed, Some(_)) => "passes now: take it out of conformance-skips.txt",
            _ => continue,
        };
        outcome.verdict = Verdict::Failed;
        outcome.detail.insert(0, fault.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_needs_a_reason_and_a_reason_needs_a_skip() {
        let outcome = |name: &str, verdict| Outcome { name: name.into(), verdict, detail: Vec::new() };
        let mut outcomes = [
            outcome("A.known", Verdict::Skipped),
            outcome("A.unknown", Verdict::Skipped),
            outcome("A.stale", Verdict::Passed),
            outcome("A.fine", Verdict::Passed),
        ];
        let reasons = [("A.known".into(), "why".into()), ("A.stale".into(), "why".into())];
        judge(&mut outcomes, &BTreeMap::from(reasons));
        let verdicts: Vec<_> = outcomes.iter().map(|it| it.verdict).collect();
        assert_eq!(verdicts, [Verdict::Skipped, Verdict::Failed, Verdict::Failed, Verdict::Passed]);
    }
}

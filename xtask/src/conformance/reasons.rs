//! Expected skips and failures with their reasons: `xtask/conformance-reasons.txt`.

use super::report::{Outcome, Verdict};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// A stated reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What it is a reason for: a skip, or a failure that is the test's own fault.
    verdict: Verdict,
}

/// Test → reason. A line is `skip Family.Test: reason` or `fault Family.Test: reason`; `#` begins a comment.
pub fn read(path: &Path) -> Result<BTreeMap<String, Reason>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| parse(line).with_context(|| format!("`{line}`"))).collect()
}

fn parse(line: &str) -> Result<(String, Reason)> {
    let (head, _) = line.split_once(": ").context("no reason")?;
    let (verdict, test) = match head.split_once(' ') {
        Some(("skip", test)) => (Verdict::Skipped, test),
        Some(("fault", test)) => (Verdict::Faulty, test),
        _ => bail!("neither a skip nor a fault"),
    };
    Ok((test.to_owned(), Reason { verdict }))
}

/// Turns a skip without a reason into a failure, and an obsolete reason as well. A fault may occur only in some versions
/// of the program, or sometimes, so a test with a known fault may pass.
pub fn judge(outcomes: &mut [Outcome], expected: &BTreeMap<String, Reason>) {
    for outcome in outcomes {
        let reason = expected.get(&outcome.name).map(|reason| reason.verdict);
        let complaint = match (outcome.verdict, reason) {
            (Verdict::Skipped, Some(Verdict::Skipped)) => continue,
            (Verdict::Failed, Some(Verdict::Faulty)) => {
                outcome.verdict = Verdict::Faulty;
                continue;
            }
            (Verdict::Skipped, _) => "skipped without a stated reason",
            (Verdict::Passed, Some(Verdict::Skipped)) => "passes now: remove it from conformance-reasons.txt",
            _ => continue,
        };
        outcome.verdict = Verdict::Failed;
        outcome.detail.insert(0, complaint.to_owned());
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
            outcome("A.broken", Verdict::Failed),
            outcome("A.wrong", Verdict::Failed),
            outcome("A.sometimes", Verdict::Passed),
        ];
        let lines =
            ["skip A.known: why", "skip A.stale: why", "fault A.broken: why", "fault A.sometimes: why"];
        let reasons = lines.map(|line| parse(line).unwrap());
        judge(&mut outcomes, &BTreeMap::from(reasons));
        let verdicts: Vec<_> = outcomes.iter().map(|it| it.verdict).collect();
        let [passed, failed, skipped, faulty] = Verdict::ALL;
        assert_eq!(verdicts, [skipped, failed, failed, passed, faulty, failed, passed]);
    }

    #[test]
    fn a_line_needs_a_kind_and_a_reason() {
        assert!(parse("A.test: why").is_err());
        assert!(parse("skip A.test").is_err());
    }
}

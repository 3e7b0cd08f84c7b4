//! Reading what libiscsi's test program prints: CUnit's verbose report with its own remarks in between.

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ran and every assertion held.
    Passed,
    /// An assertion did not hold, or the test never ended.
    Failed,
    /// It found that the target lacks something and did not run in full; the program itself says passed then.
    Skipped,
    /// An assertion did not hold, and that is known to be the test's own fault.
    Faulty,
}

impl Verdict {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Verdict; 4] = [Verdict::Passed, Verdict::Failed, Verdict::Skipped, Verdict::Faulty];
}

/// One test.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `Family.Test`
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Remarks, reasons for a skip, assertions that did not hold.
    pub detail: Vec<String>,
}

impl Outcome {
    /// True when the test did not run since one before it had ended the program's session.
    pub fn has_lost_its_session(&self) -> bool {
        self.verdict == Verdict::Skipped
            && self.detail.iter().any(|line| line.contains("Not an iSCSI device"))
    }
}

/// How many ended so.
pub fn count(outcomes: &[Outcome], verdict: Verdict) -> usize {
    outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
}

/// Two runs of the same tests: what failed in one has failed, and what ran in one has not been skipped.
pub fn merge(first: Vec<Outcome>, second: Vec<Outcome>) -> Vec<Outcome> {
    let weight = |outcome: &Outcome| match outcome.verdict {
        Verdict::Failed | Verdict::Faulty => 2,
        Verdict::Passed => 1,
        Verdict::Skipped => 0,
    };
    let mut merged = first;
    for outcome in second {
        match merged.iter_mut().find(|other| other.name == outcome.name) {
            Some(other) if weight(other) < weight(&outcome) => *other = outcome,
            Some(_) => {}
            None => merged.push(outcome),
        }
    }
    merged
}

/// The outcomes in a report of one family.
pub fn read(family: &str, report: &str) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut open = false;
    for line in report.lines() {
        if let Some((name, rest)) = line.strip_prefix("  Test: ").and_then(|test| test.split_once(" ...")) {
            let name = format!("{family}.{name}");
            // Until its end is seen, a test has failed: the program may have died in it.
            outcomes.push(Outcome { name, verdict: Verdict::Failed, detail: Vec::new() });
            open = true;
            take(&mut outcomes, rest, &mut open);
        } else if line.starts_with("Run Summary") {
            break;
        } else {
            take(&mut outcomes, line, &mut open);
        }
    }
    outcomes
}

fn take(outcomes: &mut [Outcome], line: &str, open: &mut bool) {
    let Some(test) = outcomes.last_mut() else { return };
    // What the program says while it cleans up after a test follows the verdict on the same line.
    if let (true, Some(_)) = (*open, line.strip_prefix("passed")) {
        let skipped = test.detail.iter().any(|line| line.contains("[SKIPPED] "));
        test.verdict = if skipped { Verdict::Skipped } else { Verdict::Passed };
        *open = false;
    } else if line.starts_with("FAILED") {
        *open = false;
    } else if !line.trim().is_empty() {
        test.detail.push(line.trim().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
found matching LU device identifier for all (2) paths


     CUnit - A unit testing framework for C - Version 2.1-3

Suite: MultipathIO
  Test: Simple ...passed
  Test: Atomic ...    [SKIPPED] COMPAREANDWRITE is not implemented.
    [SKIPPED] COMPAREANDWRITE is not implemented.
passed
  Test: Clean ...passed    [FAILED] PRIN command: failed with sense.
  Test: Async ...FAILED
    1. test_async.c:45  - CU_ASSERT_EQUAL(a,b)
  Test: Slow ...    [INFO] waiting
";

    #[test]
    fn skips_are_not_passes_and_an_unfinished_test_has_failed() {
        let outcomes = read("Family", REPORT);
        let verdicts: Vec<_> = outcomes.iter().map(|it| (it.name.as_str(), it.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("Family.Simple", Verdict::Passed),
                ("Family.Atomic", Verdict::Skipped),
                ("Family.Clean", Verdict::Passed),
                ("Family.Async", Verdict::Failed),
                ("Family.Slow", Verdict::Failed),
            ]
        );
        assert_eq!(outcomes[3].detail, ["1. test_async.c:45  - CU_ASSERT_EQUAL(a,b)"]);
    }

    #[test]
    fn of_two_runs_the_failure_counts_and_then_the_pass() {
        let one = read("F", "  Test: A ...passed\n  Test: B ...[SKIPPED] no\npassed\n  Test: C ...FAILED\n");
        let other = read("F", "  Test: A ...FAILED\n  Test: B ...passed\n  Test: C ...passed\n");
        let verdicts: Vec<_> = merge(one, other).iter().map(|it| it.verdict).collect();
        assert_eq!(verdicts, [Verdict::Failed, Verdict::Passed, Verdict::Failed]);
    }

    #[test]
    fn a_report_without_a_test_has_no_outcome() {
        assert!(read("Family", "Login Failed.\n").is_empty());
    }
}

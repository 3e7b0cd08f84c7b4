use super::*;

fn workload() -> Workload {
    Workload::find("depth-per-device").expect("a workload")
}

fn runs(first: [f64; 3], second: [f64; 3]) -> Runs {
    let run =
        |value: &f64| Ok(Measured { values: Values::from([("iops".to_owned(), *value)]), line: Vec::new() });
    vec![first.iter().map(run).collect(), second.iter().map(run).collect()]
}

#[test]
fn ratios_are_made_within_a_repeat() {
    // The second repeat ran on a machine with half the speed.
    let runs = runs([100.0, 50.0, 100.0], [200.0, 100.0, 210.0]);
    let workload = workload();
    let ratio = workload.figure.iter().find(|figure| figure.per.is_some()).expect("a ratio");
    let middle = measured(&workload, ratio, &runs).expect("a middle");
    assert_eq!((middle.low, middle.median, middle.high), (2.0, 2.0, 2.1));
}

#[test]
fn what_is_divided_by_two_steps_is_divided_by_their_sum() {
    let workload = Workload::find("olap").expect("a workload");
    let both = workload.figure.iter().find(|figure| figure.plus.is_some()).expect("a figure of both");
    let iops = |step: &str| match step {
        "both" => 300.0,
        step if Some(step) == both.per.as_deref() => 200.0,
        step if Some(step) == both.plus.as_deref() => 100.0,
        _ => 7.0,
    };
    let run = |value| Ok(Measured { values: Values::from([("iops".to_owned(), value)]), line: Vec::new() });
    let runs = workload.step.iter().map(|step| vec![run(iops(&step.name))]).collect();
    assert_eq!(measured(&workload, both, &runs).expect("a middle").median, 1.0);
}

#[test]
fn a_step_that_was_left_out_has_not_failed() {
    let mut runs = runs([100.0; 3], [200.0; 3]);
    runs[1] = vec![Err(Nothing::LeftOut("not asked for".to_owned()))];
    let report = report(&workload(), 1, &["target"], vec![runs]);
    let step = &report.steps[1];
    assert_eq!((step.left_out.as_deref(), step.failed.as_deref()), (Some("not asked for"), None));
    assert!(step.values.is_empty());
}

#[test]
fn a_repeat_that_failed_is_left_out_and_named() {
    let mut runs = runs([100.0; 3], [200.0; 3]);
    runs[1][0] = Err(Nothing::Failed("no answer".to_owned()));
    let workload = workload();
    let report = report(&workload, 3, &["ashlar"], vec![runs]);
    assert_eq!(report.steps[1].failed.as_deref(), Some("no answer"));
    assert_eq!(report.steps[1].values["iops"].median, 200.0);
    assert!(report.figures.iter().all(|figure| figure.measured.is_some() && figure.peer.is_none()));
}

use super::*;

#[test]
fn every_workload_can_be_parsed() {
    for name in names() {
        let workload = Workload::find(name).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(!workload.scale.is_empty() && !workload.figure.is_empty(), "{name}");
    }
}

#[test]
fn every_workload_file_is_embedded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut own: Vec<_> = names().map(str::to_owned).collect();
    files.sort();
    own.sort();
    assert_eq!(own, files);
}

const SMALL: &str = r#"
row = "G0"
title = "t"
story = "s"
scale = "1"
seconds = 1
disks = [4]
settings = { paths = 3, outstanding = 5 }
[[host]]
name = "a"
[[host]]
name = "b"
count = 2
watched = false
settings = { paths = 4 }
[[world]]
kind = "fill"
[[step]]
name = "x"
settings = { outstanding = 9 }
[[figure]]
name = "f"
value = "iops"
step = "x"
unit = "1/s"
"#;

#[test]
fn more_specific_settings_win() {
    let workload = Workload::parse("small", SMALL).unwrap();
    assert_eq!(workload.host_count(), 3);
    assert_eq!(workload.watched(), [true, false, false]);
    let step = &workload.step[0];
    let settings = workload.settings(step, &workload.host[1]);
    assert_eq!((settings.paths, settings.outstanding, settings.hba_depth), (4, 9, 64));
    assert_eq!(workload.paths(step), 4);
    assert!(workload.hosts(step, 1).unwrap()[0].has_end());
}

#[test]
fn invalid_workloads_are_refused_when_they_are_parsed() {
    for (from, to, what) in [
        ("step = \"x\"", "step = \"y\"", "not there"),
        ("kind = \"fill\"", "kind = \"fill\"\nmib = 5", "beyond the end"),
        ("kind = \"fill\"", "kind = \"fill\"\nhost = \"c\"", "unknown host"),
        ("kind = \"fill\"", "kind = \"mix\"", "without accesses"),
        ("kind = \"fill\"", "kind = \"fill\"\ncuont = 5", "unknown field"),
        ("disks = [4]", "disks = []", "without disks"),
    ] {
        let error = format!("{:#}", Workload::parse("small", &SMALL.replace(from, to)).unwrap_err());
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_figure_reaches_its_goal_or_not_or_has_none() {
    assert_eq!(Goal::More.reached(2.1, Some(2.0)), Some(true));
    assert_eq!(Goal::Less.reached(2.1, Some(2.0)), Some(false));
    assert_eq!(Goal::None.reached(2.1, Some(2.0)), None);
    assert_eq!(Goal::More.reached(2.1, None), None);
}

use super::*;

#[test]
fn the_report_of_a_file_names_every_policy_with_its_ratios() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let block: Vec<u8> = (0..4096u32).map(|n| (n % 11) as u8).collect();
    let parts: [&[u8]; 4] = [&block, &block, &[0; 8192], b"end"];
    std::fs::write(&path, parts.concat()).unwrap();
    let mut estimator = Estimator::new(&COMPARED_POLICIES, 1 << 20);
    feed(&mut estimator, 1, &mut File::open(&path).unwrap()).unwrap();
    let json = to_json(&[&path], &estimator);
    assert_eq!((json["bytes"].as_u64(), json["zeros"].as_u64()), (Some(5 * 4096), Some(8192)));
    let policies = json["policies"].as_array().unwrap();
    assert_eq!(policies.len(), COMPARED_POLICIES.len());
    assert_eq!((&policies[0]["dedup"], &policies[0]["compression"]), (&json!(true), &json!("adaptive")));
    assert_eq!(policies[0]["unique"], 8192);
    let ratios = &policies[0]["ratios"];
    assert_eq!(ratios["dedup"], 1.5);
    let product = ratios["dedup"].as_f64().unwrap() * ratios["compression"].as_f64().unwrap();
    assert!((ratios["data"].as_f64().unwrap() / product - 1.0).abs() < 1e-9, "{ratios}");
    assert!(policies[0]["ratios"]["total"].as_f64().unwrap() > 30.0);
    let mut out = Vec::new();
    print(&mut out, &estimator).unwrap();
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 2 + COMPARED_POLICIES.len());
}

#[test]
fn nothing_has_no_ratio() {
    let estimator = Estimator::new(&COMPARED_POLICIES, 1 << 20);
    let json = to_json(&[], &estimator);
    assert!(json["policies"][0]["ratios"]["total"].is_null());
}

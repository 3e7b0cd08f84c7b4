use serde_json::Value;
use std::collections::BTreeSet;

/// Operations that carry out no verb: they authenticate, or pass on what the process has.
const WITHOUT_VERB: &[&str] = &[
    "complete_sign_in",
    "healthz",
    "list_sign_ins",
    "log_in",
    "log_out",
    "metrics",
    "readyz",
    "show_openapi",
    "show_session",
    "start_sign_in",
    "subscribe",
];

/// Verbs that an operation of another verb carries out, by what it is asked for.
const WITHIN_ANOTHER: &[(&str, &str)] = &[
    ("CloneVolume", "create_volume with a source"),
    ("CreateSnapshotSet", "create_snapshots with sources"),
    ("ChangeOwnPassword", "change_user with the current password"),
    ("ShowOwnUser", "show_session, and show_user of the caller's own name"),
];

fn operations() -> Vec<Value> {
    let description: Value = serde_json::from_str(&crate::openapi()).expect("JSON");
    let paths = description["paths"].as_object().expect("paths").values();
    let methods = paths.flat_map(|item| item.as_object().expect("methods").values().cloned());
    methods.filter(|it| it["operationId"].is_string()).collect()
}

#[test]
fn every_operation_has_the_identity_and_role_of_a_declared_verb() {
    let mut without = BTreeSet::new();
    for operation in operations() {
        let id = operation["operationId"].as_str().expect("an identity").to_owned();
        let Some(name) = operation["x-verb"]["name"].as_str() else {
            without.insert(id);
            continue;
        };
        let verb = array::VERBS.iter().copied().flatten().find(|verb| verb.name == name);
        let verb = verb.unwrap_or_else(|| panic!("{id}: the verb {name} is in no list of VERBS"));
        assert_eq!(operation["x-verb"]["role"], verb.role.name(), "{id}");
    }
    let listed: BTreeSet<String> = WITHOUT_VERB.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(without, listed, "operations without a verb: declare one, or list them");
}

#[test]
fn every_verb_is_offered_by_an_operation() {
    let offered: BTreeSet<String> =
        operations().iter().filter_map(|it| it["x-verb"]["name"].as_str().map(str::to_owned)).collect();
    for verb in array::VERBS.iter().copied().flatten() {
        let within = WITHIN_ANOTHER.iter().any(|(name, _)| *name == verb.name);
        assert_ne!(offered.contains(verb.name), within, "{}: an operation, or a line in the list", verb.name);
    }
}

#[test]
fn operations_have_different_identities() {
    let all = operations();
    let ids: BTreeSet<&str> = all.iter().filter_map(|it| it["operationId"].as_str()).collect();
    assert_eq!(ids.len(), all.len());
}

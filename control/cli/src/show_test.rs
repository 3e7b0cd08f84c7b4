use super::*;
use client::table::SCHEMAS;

#[test]
fn lists_have_the_columns_and_units_of_the_description() {
    let value = json!({ "total": 1, "items": [{
        "name": "db1", "size": 10u64 << 30, "block_size": 512, "mapped": 1 << 20, "naa": "naa.6", "group": null,
        "connections": [{ "volume": "db1", "host": "esx1", "host_group": null, "lun": 3, "read_only": false }],
    }]});
    let shown = Shown::of(value, "Volumes").table();
    for part in ["NAME", "db1", "10.0 GiB", "1.0 MiB", "esx1 (LUN 3)"] {
        assert!(shown.contains(part), "{part} in:\n{shown}");
    }
    assert_eq!(shown.lines().count(), 2);
}

#[test]
fn times_are_those_of_this_machine_and_lists_say_how_many_there_are() {
    let time = |text: &str| Shown::of(json!({ "created": text }), "Volume").table();
    let zoned = "2026-10-01T08:00:00Z".parse::<Timestamp>().expect("a time").to_zoned(TimeZone::system());
    assert!(time("2026-10-01T08:00:00Z").contains(&zoned.strftime("%Y-%m-%d %H:%M:%S").to_string()));
    assert!(time("soon").contains("soon"));
    let list = |total: u64| Shown::of(json!({ "items": [{ "name": "a" }], "total": total }), "Volumes");
    assert_eq!(
        (list(1).count().as_deref(), list(40).count().as_deref()),
        (Some("1 in total"), Some("1 of 40"))
    );
    assert_eq!(Shown::of(json!({ "name": "a" }), "Volume").count(), None);
}

#[test]
fn a_wide_list_has_every_field_with_its_unit() {
    let value = json!({ "total": 1, "items": [{ "name": "db1", "size": 10u64 << 30, "read_only": true,
        "limits": { "iops": 500, "iops_burst": null, "bandwidth": null, "bandwidth_burst": null } }]});
    let shown = Shown::of(value, "Volumes").wide();
    for part in ["READ ONLY", "yes", "10.0 GiB", "LIMITS", "IOPS 500", "SCSI-2 RESERVATIONS"] {
        assert!(shown.contains(part), "{part} in:\n{shown}");
    }
    assert_eq!(shown.lines().count(), 2);
}

#[test]
fn details_show_fields_of_fields_and_leave_out_what_these_lack() {
    let limits = json!({ "iops": 500, "iops_burst": null, "bandwidth": 1 << 20, "bandwidth_burst": null });
    let value = json!({ "name": "db1", "size": 2048, "group": null, "limits": limits, "read_only": false });
    let shown = Shown::of(value, "Volume").table();
    let line = |label: &str| shown.lines().find(|line| line.starts_with(label)).map(str::to_owned);
    let words = |label: &str| line(label).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(words("Size").as_deref(), Some("Size 2.0 KiB"));
    assert_eq!(words("Group").as_deref(), Some("Group -"));
    assert_eq!(words("Limits IOPS").as_deref(), Some("Limits IOPS 500"));
    assert_eq!(words("Limits bandwidth").as_deref(), Some("Limits bandwidth 1.0 MiB/s"));
    assert_eq!(words("Limits IOPS burst"), None);
    assert_eq!(words("Read only").as_deref(), Some("Read only no"));
}

#[test]
fn a_controller_shows_what_its_takeover_took() {
    let takeover = json!({ "time": "2026-10-01T08:00:00Z", "from": 1, "cause": "lost", "total_ms": 4603,
        "silence_ms": 3500, "agreement_ms": 90, "store_ms": 300, "recovery_ms": 700, "start_ms": 13 });
    let controller = |number: u16, takeover: &Value| {
        json!({ "number": number, "name": "node", "version": "1", "state": "home", "drained": false, "since": null, "api": null,
            "portals": ["192.0.2.1:3260"], "nvme_portals": [], "sessions": 3, "performance": { "iops": 1234.5, "bytes_per_second": 4096.0, "latency_us": null }, "takeover": takeover })
    };
    let all = json!({ "total": 2, "items": [controller(1, &Value::Null), controller(2, &takeover)] });
    let shown = Shown::of(all, "Controllers").table();
    let lines: Vec<_> = shown.lines().map(str::trim_end).collect();
    assert!(lines[2].ends_with("from 1 in 4603 ms") && !lines[1].contains("from"), "{shown}");
    let shown = Shown::of(controller(2, &takeover), "Controller").table();
    assert!(shown.lines().any(|line| line.contains("recovery") && line.ends_with("700 ms")), "{shown}");
}

#[test]
fn columns_are_fields_of_the_description() {
    for (name, schema) in SCHEMAS.iter().filter(|(_, schema)| schema.property("items").is_some()) {
        let Some(item) = item_of(schema) else { continue };
        for column in COLUMNS.iter().filter(|(list, _)| list == name).flat_map(|(_, columns)| *columns) {
            let (_, text) = parse(column);
            for path in text.split('{').skip(1).filter_map(|part| part.split_once('}')) {
                let path = path.0.split('|').next().unwrap_or_default();
                let mut schema = item;
                for field in path.split('.') {
                    schema = known_field(schema, field)
                        .unwrap_or_else(|| panic!("{name}: {column}: no field {field}"));
                }
            }
        }
        let shown = Shown::of(json!({ "items": [] }), name).table();
        assert!(!shown.trim().is_empty() || item.properties.is_empty(), "{name} has no header");
    }
}

#[test]
fn columns_and_texts_are_of_schemas_that_exist() {
    for name in COLUMNS.iter().map(|(name, _)| name).chain(TEXTS.iter().map(|(name, _)| name)) {
        assert!(named(name).is_some(), "{name}");
    }
}

#[test]
fn templates_have_defaults_and_optional_parts() {
    let text =
        |template: &str| fill(template, &Schema::PLAIN, &json!({ "a": "x", "b": null, "c": { "d": 5 } }));
    assert_eq!(text("{a}{b} ({c.d})"), "x (5)");
    assert_eq!(text("{b|none}[: {b}][, {a}]"), "none, x");
}

#[test]
fn durations_are_short() {
    assert_eq!(duration(59), "59 s");
    assert_eq!(duration(3_600), "1 h 0 min");
    assert_eq!(duration(90_000), "1 d 1 h");
}

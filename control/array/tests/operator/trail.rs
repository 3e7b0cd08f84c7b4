//! The audit trail: what it says about each action, and what it never says.

use crate::rig::{Rig, Step, Up, ldap, ok, steps};
use crate::roles;
use array::{
    Audit, AuditField, Caller, ChangeDirectory, ChangeHost, ChangeNotificationTarget, ChangeUser,
    ChangeVolume, Chap, CreateConnection, CreateDirectory, CreateGroup, CreateHost, CreateNotificationTarget,
    CreateToken, CreateUser, CreateVolume, DeleteConnection, DeleteVolume, Deletion, Destination,
    DirectoryChange, DirectorySettings, DownloadSupportBundle, Effect, HostChange, Ldap, ListAudit,
    NotificationTargetChange, Oidc, PeerName, ReplaceCertificate, Role, Secret, Severity, VolumeChange,
};
use serde_json::{Value, json};

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const PEM: &str = "-----BEGIN CERTIFICATE-----\nTUFSS0VE\n-----END CERTIFICATE-----\n";

async fn trail(up: &Up) -> Vec<Audit> {
    ok(up, ListAudit { limit: Some(1000), ..ListAudit::default() }).await
}

/// What the newest entry says, and the changed fields of its records.
async fn newest(up: &Up) -> (String, Value) {
    let entry = trail(up).await.swap_remove(0);
    let changes = serde_json::to_value(&entry.changes).unwrap();
    (entry.detail, changes)
}

fn change(change: VolumeChange) -> ChangeVolume {
    ChangeVolume { name: "db1".into(), change }
}

#[tokio::test]
async fn an_entry_says_verb_object_and_the_fields_that_changed() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, CreateGroup { name: "sql".into(), ..CreateGroup::default() }).await;
    ok(&up, CreateVolume { name: "db1".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() })
        .await;
    let (said, changes) = newest(&up).await;
    assert_eq!(said, "create volume db1 (block_bytes: 512, bytes: 1073741824)");
    assert_eq!(changes.as_array().unwrap().len(), 1, "one record, from nothing to what it is: {changes}");
    assert_eq!((&changes[0]["noun"], &changes[0]["name"]), (&json!("volume"), &json!("db1")));
    assert_eq!((&changes[0]["before"], &changes[0]["after"]["stage"]), (&Value::Null, &json!("ready")));
    let chap = Some(Chap::new("web1", "twelve chars or more"));
    let host = CreateHost {
        name: "web1".into(),
        initiators: vec![IQN.into()],
        chap,
        mutual: None,
        ..CreateHost::default()
    };
    ok(&up, host).await;
    let (said, _) = newest(&up).await;
    assert_eq!(said, format!("create host web1 (chap.secret: (hidden), chap.user: web1, initiators: {IQN})"));

    let peer = PeerName::Host("web1".into());
    let connect = CreateConnection {
        volume: "db1".into(),
        peer: peer.clone(),
        lun: Some(3),
        read_only: true,
        min_lun: None,
    };
    ok(&up, connect).await;
    let (said, changes) = newest(&up).await;
    assert_eq!(said, "connect volume db1 to host web1 (lun: 3, read_only: yes)");
    assert_eq!(changes[0]["name"], "db1 to host web1");
    ok(&up, DeleteConnection { volume: "db1".into(), peer }).await;
    assert_eq!(newest(&up).await.0, "disconnect volume db1 from host web1");

    let (name, group) = (Some("db2".into()), Some(Some("sql".into())));
    ok(&up, change(VolumeChange { name, group, ..VolumeChange::default() })).await;
    let (said, changes) = newest(&up).await;
    assert_eq!(said, "change volume db1 (group: sql, name: db2, shrink: no)");
    let fields = json!([
        { "field": "group", "before": null, "after": "sql" },
        { "field": "name", "before": "db1", "after": "db2" },
    ]);
    assert_eq!(changes[0]["fields"], fields);
    let db2 = |change| ChangeVolume { name: "db2".into(), change };
    ok(&up, db2(VolumeChange { size: Some(2 << 30), ..VolumeChange::default() })).await;
    let (said, changes) = newest(&up).await;
    assert_eq!(said, "change volume db2 (shrink: no, size: 2147483648)");
    let field = json!([{ "field": "size", "before": 1 << 30, "after": 2_147_483_648_u64 }]);
    assert_eq!((&changes[0]["name"], &changes[0]["fields"]), (&json!("db2"), &field));
    ok(&up, db2(VolumeChange { read_only: Some(true), ..VolumeChange::default() })).await;
    let field = json!([{ "field": "read_only", "before": false, "after": true }]);
    assert_eq!(newest(&up).await.1[0]["fields"], field);
    ok(&up, DeleteVolume { name: "db2".into(), how: Deletion { eradicate: true } }).await;
    let (said, changes) = newest(&up).await;
    assert_eq!(said, "delete volume db2 (eradicate: yes)");
    assert_eq!((&changes[0]["before"]["name"], &changes[0]["after"]), (&json!("db2"), &Value::Null));
}

fn secret(word: &str) -> Secret {
    Secret::new(format!("{word} sesame"))
}

fn url(path: &str) -> String {
    format!("https://hooks.example.com/{path}-T0KEN")
}

/// Directories whose addresses have a password, which none may have.
fn secretive_addresses() -> Vec<DirectorySettings> {
    let oidc = |issuer: &str, address: &str| {
        DirectorySettings::Oidc(Oidc {
            issuer: issuer.into(),
            client_id: "array".into(),
            address: address.into(),
            scopes: Vec::new(),
            user_claim: "sub".into(),
            groups_claim: "groups".into(),
            ca: None,
        })
    };
    let own = "https://array.example.com";
    vec![
        ldap("ldaps://me:sesame@ldap.example.com"),
        ldap("me:sesame@ldap.example.com"),
        oidc("https://me:sesame@id.example.com", own),
        oidc("https://id.example.com?key=sesame", own),
        oidc("https://id.example.com", "https://me:sesame@array.example.com"),
    ]
}

/// Actions with secrets of every kind.
fn secretive() -> Vec<Step> {
    let new = |name: &str| name.to_owned();
    let directory = DirectorySettings::Ldap(Ldap {
        server: "ldap://127.0.0.1:1".into(),
        starttls: false,
        bind_dn: Some("cn=reader".into()),
        base: "dc=example".into(),
        user_attribute: "uid".into(),
        group_base: None,
        ca: None,
    });
    let target = NotificationTargetChange {
        destination: Some(Destination::Webhook { url: url("second"), ca: None }),
        secret: Some(Some(secret("second"))),
        ..NotificationTargetChange::default()
    };
    let host = HostChange { mutual: Some(Some(Chap::new("me", "second sesame"))), ..HostChange::default() };
    let hidden = DirectoryChange { secret: Some(Some(secret("other"))), ..DirectoryChange::default() };
    let chap = Some(Chap::new("web1", "first sesame"));
    steps![
        CreateUser { name: new("vera"), role: Role::Viewer, password: secret("first") },
        ChangeUser { name: new("vera"), role: None, password: Some(secret("second")) },
        CreateHost {
            name: new("web1"),
            initiators: vec![IQN.into()],
            chap,
            mutual: None,
            ..CreateHost::default()
        },
        ChangeHost { name: new("web1"), change: host },
        CreateNotificationTarget {
            name: new("hook"),
            destination: Destination::Webhook { url: url("zero"), ca: None },
            secret: Some(secret("first")),
            severity: Severity::Info,
            content: array::Content::default_set(),
            enabled: true,
        },
        ChangeNotificationTarget { name: new("hook"), change: target },
        CreateDirectory {
            name: new("corp"),
            settings: directory,
            secret: Some(secret("bind")),
            grants: Vec::new(),
            enabled: true,
        },
        ChangeDirectory { name: new("corp"), change: hidden },
        ReplaceCertificate { chain: PEM.into(), key: secret("key") },
    ]
}

#[tokio::test]
async fn a_secret_that_changes_is_told_as_changed_and_not_shown() {
    let rig = Rig::new();
    let up = rig.up().await;
    for action in secretive() {
        action.ok(&up).await;
        let whole = format!("{:?}", trail(&up).await);
        for never in ["sesame", "T0KEN", "BEGIN CERT", "TUFSS0VE", "argon2"] {
            assert!(!whole.contains(never), "{never}: {whole}");
        }
    }
    let create = CreateToken {
        name: "t".into(),
        user: Some("vera".into()),
        role: None,
        expires: None,
        on_behalf: false,
    };
    let made = ok(&up, create).await;
    assert!(!format!("{:?}", trail(&up).await).contains(made.secret.as_ref().unwrap().expose()));
    // Nor those of what was refused.
    let refused = CreateNotificationTarget {
        name: "!".into(),
        destination: Destination::Webhook { url: url("first"), ca: Some(PEM.into()) },
        secret: Some(secret("lost")),
        severity: Severity::Info,
        content: array::Content::default_set(),
        enabled: true,
    };
    up.perform(refused).await.unwrap_err();
    for settings in secretive_addresses() {
        let new =
            CreateDirectory { name: "odd".into(), settings, secret: None, grants: Vec::new(), enabled: true };
        let error = up.perform(new).await.unwrap_err();
        assert!(!error.message.contains("sesame"), "{error}");
    }
    let all = trail(&up).await;
    let whole = format!("{all:?}");
    assert!(!["sesame", "T0KEN", "TUFSS0VE"].iter().any(|never| whole.contains(never)), "{whole}");
    let password = all.iter().find(|it| it.action == "ChangeUser").unwrap();
    let hidden =
        |field: &str| AuditField { field: field.into(), before: "(hidden)".into(), after: "(hidden)".into() };
    assert!(password.changes[0].fields.contains(&hidden("hash")), "{password:?}");
    let replaced = all.iter().find(|it| it.action == "ReplaceCertificate").unwrap();
    assert!(replaced.detail.starts_with("replace certificate (chain: PEM"), "{}", replaced.detail);
    // The support bundle is for others to read, too.
    let files = ok(&up, DownloadSupportBundle).await;
    let state = files.iter().find(|(name, _)| name.ends_with("array.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state.1).unwrap();
    assert!(state["space"]["total"].as_u64() > Some(0), "{state}");
    assert_eq!((&state["state"], &state["drives"][0]["standing"]), (&"online".into(), &"online".into()));
    assert!(state["controllers"].is_array() && state["store"].is_null(), "{state}");
    for (name, bytes) in files {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!["sesame", "T0KEN", "TUFSS0VE", "argon2"].iter().any(|it| text.contains(it)), "{name}");
    }
}

#[tokio::test]
async fn every_change_and_every_test_has_an_entry_in_plain_words() {
    let rig = Rig::new();
    let up = rig.up().await;
    let create = CreateUser { name: "ada".into(), role: Role::Admin, password: Secret::new("eight chars") };
    ok(&up, create).await;
    let member = up.array.accounts().log_in("ada", &Secret::new("eight chars")).unwrap();
    let caller: Caller = roles::session(&member);
    for action in roles::samples("ada", &member) {
        let (verb, before) = (action.verb, trail(&up).await.len());
        let outcome = action.perform(&up, &caller).await;
        let all = trail(&up).await;
        let audited = usize::from(verb.effect != Effect::Read);
        assert_eq!(all.len(), before + audited, "{verb:?}");
        let Some(entry) = all.first().filter(|_| audited == 1) else { continue };
        assert_eq!((entry.action.as_str(), entry.user.as_str()), (verb.name, "ada"));
        assert_eq!(entry.outcome, if outcome.is_ok() { "done" } else { "refused" });
        let said = &entry.detail;
        let begins = format!("{} {}", verb.verb, verb.noun);
        assert!(said.starts_with(&begins), "{said}");
        for odd in ["{", "}", "Some", "None", "::", "\"", "[", "Secret"] {
            assert!(!said.contains(odd), "{said}");
        }
    }
}

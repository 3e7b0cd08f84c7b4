use super::*;

use rig::slapd;

fn settings(server: &str) -> Ldap {
    Ldap {
        server: server.into(),
        starttls: false,
        bind_dn: None,
        base: "ou=people,dc=example,dc=com".into(),
        user_attribute: "uid".into(),
        group_base: None,
        ca: None,
    }
}

#[test]
fn passwords_are_sent_only_over_tls_or_to_loopback_addresses() {
    for server in
        ["ldaps://ldap.example.com", "ldaps://192.0.2.1:1636", "ldap://127.0.0.1:389", "ldap://[::1]"]
    {
        assert!(check(&settings(server), false).is_ok(), "{server}");
    }
    assert!(check(&Ldap { starttls: true, ..settings("ldap://ldap.example.com") }, false).is_ok());
    for server in [
        "ldap://ldap.example.com",
        "ldapi:///run/ldapi",
        "ldaps://",
        "ldaps://a:0",
        "ldaps://a/b",
        "a",
        "ldaps://[::1]",
    ] {
        assert!(check(&settings(server), false).is_err(), "{server}");
    }
    assert!(check(&Ldap { starttls: true, ..settings("ldaps://ldap.example.com") }, false).is_err());
    let searcher = Ldap { bind_dn: Some("cn=array,dc=example,dc=com".into()), ..settings("ldaps://a") };
    assert!(check(&searcher, true).is_ok() && check(&searcher, false).is_err());
    assert!(check(&Ldap { user_attribute: "uid)(|".into(), ..settings("ldaps://a") }, false).is_err());
}

#[test]
fn special_characters_of_a_name_are_escaped_in_filters() {
    let filter = user_filter(&settings("ldaps://a"), "*)(uid=admin))(|(uid=*\\\0");
    assert_eq!(filter, "(uid=\\2a\\29\\28uid=admin\\29\\29\\28|\\28uid=\\2a\\5c\\00)");
    let groups = group_filter("cn=a(b)*,dc=x", "*");
    assert_eq!(
        groups,
        "(|(member=cn=a\\28b\\29\\2a,dc=x)(uniqueMember=cn=a\\28b\\29\\2a,dc=x)(memberUid=\\2a))"
    );
}

/// Adds a group over LDAP: the overlay that writes `memberOf` does not run for offline imports.
fn add_group(server: &str) {
    let mut root = LdapConn::new(server).unwrap();
    root.simple_bind("cn=root,dc=example,dc=com", "root-secret-1").unwrap().success().unwrap();
    let set = |value: &'static str| std::collections::HashSet::from([value]);
    let group = vec![
        ("objectClass", set("groupOfNames")),
        ("cn", set("storage")),
        ("member", set("uid=ada,ou=people,dc=example,dc=com")),
    ];
    root.add("cn=storage,ou=groups,dc=example,dc=com", group).unwrap().success().unwrap();
}

#[test]
fn a_server_that_does_not_respond_causes_a_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for (scheme, starttls) in [("ldap", false), ("ldap", true), ("ldaps", false)] {
        let settings = Ldap { starttls, ..settings(&format!("{scheme}://{address}")) };
        let server = Server { timeout: Duration::from_millis(50), ..Server::new(settings, None) };
        let credentials = Credentials::Password { user: "ada", password: "adas password" };
        assert!(matches!(server.authenticate(&credentials), Err(Error::Failed(_))), "{scheme} {starttls}");
    }
}

#[test]
fn users_of_a_real_server_are_authenticated() {
    let folder = tempfile::tempdir().unwrap();
    let Some((running, plain, tls)) = slapd::start(folder.path()) else { return };
    add_group(&plain);
    let searcher = Some("cn=array,dc=example,dc=com".to_owned());
    let settings = Ldap { bind_dn: searcher, ..settings(&plain) };
    let authenticate = |settings: &Ldap, user: &str, password: &str| {
        Server::new(settings.clone(), Some("search-secret-1"))
            .authenticate(&Credentials::Password { user, password })
    };
    let ada = |groups: &[&str]| {
        Ok(DirectoryUser { name: "ada".into(), groups: groups.iter().map(|it| (*it).into()).collect() })
    };
    assert_eq!(
        authenticate(&settings, "ada", "adas password"),
        ada(&["cn=storage,ou=groups,dc=example,dc=com"])
    );
    // The name in the directory's spelling, and groups by their names.
    let searched = Ldap { group_base: Some("ou=groups,dc=example,dc=com".into()), ..settings.clone() };
    assert_eq!(authenticate(&searched, "ADA", "adas password"), ada(&["keepers", "storage"]));
    assert_eq!(authenticate(&settings, "eve(*)", "eves password").unwrap().groups, Vec::<String>::new());
    let denied = [("ada", "wrong"), ("ada", ""), ("*", "adas password"), ("a*", "adas password"), ("", "x")];
    for (user, password) in denied.into_iter().chain([("eve(*))(uid=ada", "adas password")]) {
        assert!(
            matches!(authenticate(&settings, user, password), Err(Error::Refused(_))),
            "{user:?} {password:?}"
        );
    }
    // A name that matches two entries is refused, although one of them has the password: here, every entry with this
    // class.
    let classes = Ldap { user_attribute: "objectClass".into(), ..settings.clone() };
    let several = authenticate(&classes, "inetOrgPerson", "adas password").unwrap_err();
    assert!(matches!(&several, Error::Refused(why) if why.contains("several")), "{several}");
    // Without read permission no user is found; a missing search base is an error.
    let anonymous = Ldap { bind_dn: None, ..settings.clone() };
    assert!(
        Server::new(anonymous, None)
            .authenticate(&Credentials::Password { user: "ada", password: "adas password" })
            .is_err()
    );
    let wrong_base = Ldap { base: "ou=nowhere,dc=example,dc=com".into(), ..settings.clone() };
    assert!(matches!(authenticate(&wrong_base, "ada", "adas password"), Err(Error::Failed(_))));

    let ca = Some(std::fs::read_to_string(folder.path().join("ca.pem")).unwrap());
    let over_tls = Ldap { server: tls, ca: ca.clone(), ..searched.clone() };
    let by_starttls = Ldap { starttls: true, ca, ..searched };
    for settings in [&over_tls, &by_starttls] {
        assert_eq!(check(settings, true), Ok(()));
        assert_eq!(authenticate(settings, "ada", "adas password"), ada(&["keepers", "storage"]));
        let report = Server::new(settings.clone(), Some("search-secret-1")).test().unwrap();
        assert!(report.contains("uid="), "{report}");
        let untrusted_ca = std::fs::read_to_string(folder.path().join("cert.pem")).unwrap();
        let untrusted = Ldap { ca: Some(untrusted_ca), ..settings.clone() };
        assert!(matches!(authenticate(&untrusted, "ada", "adas password"), Err(Error::Failed(_))));
    }
    let wrong = Server::new(settings.clone(), Some("wrong-secret-1")).test().unwrap_err().to_string();
    assert!(wrong.contains("bind DN") && !wrong.contains("wrong-secret"), "{wrong}");
    drop(running);
    assert!(matches!(authenticate(&settings, "ada", "adas password"), Err(Error::Failed(_))));
}

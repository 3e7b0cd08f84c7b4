//! Logging in by directories elsewhere, with real ones.

use crate::process::{Daemon, fails, json as cli, run, start};
use rig::slapd;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use ureq::http::{Request, Response};

const PROVIDER: &str = include_str!("directory/provider.mjs");
const PACKAGE: &str = "oidc-provider@8.8.1";

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with the provider's package, which later runs find again; `None` if it can't be installed.
fn package() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || {
        let folder = std::env::current_exe().ok()?.parent()?.join("oidc-provider");
        std::fs::create_dir_all(&folder).ok()?;
        if !folder.join("whole").exists() {
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
                .arg(&folder)
                .arg(PACKAGE);
            let done = npm.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
            done.success().then_some(())?;
            std::fs::write(folder.join("whole"), PACKAGE).ok()?;
        }
        Some(folder)
    };
    let found = FOLDER.get_or_init(install).as_deref();
    if found.is_none() {
        eprintln!("skipped: the npm package {PACKAGE} can't be had");
    }
    found
}

/// The provider, and its address.
fn provider(folder: &Path, callback: &str, claims: &str) -> (Running, String) {
    let mut node = Command::new("node");
    node.current_dir(folder).args(["--input-type=module", "-", callback, claims]);
    let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), PROVIDER.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("http://"), "the provider says {line:?}");
    (Running(child), line.trim().to_owned())
}

/// A client that keeps cookies by host, and follows no redirect by itself.
struct Browser {
    agent: ureq::Agent,
    cookies: BTreeMap<(String, String), String>,
}

struct Page {
    status: u16,
    location: Option<String>,
    body: Value,
}

impl Browser {
    fn new() -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        Self { agent: config.build().into(), cookies: BTreeMap::new() }
    }

    fn send(&mut self, method: &str, url: &str, body: &Value) -> Page {
        let host = url.split('/').nth(2).unwrap().to_owned();
        let held = self.cookies.iter().filter(|((of, _), _)| *of == host);
        let cookies: Vec<_> = held.map(|((_, name), value)| format!("{name}={value}")).collect();
        let request = Request::builder().method(method).uri(url).header("cookie", cookies.join("; "));
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.header("content-type", "application/json").body(text).unwrap();
        let mut response: Response<ureq::Body> = self.agent.run(request).unwrap();
        for line in response.headers().get_all("set-cookie") {
            let line = line.to_str().unwrap();
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            let key = (host.clone(), name.to_owned());
            match line.contains("Max-Age=0") {
                true => drop(self.cookies.remove(&key)),
                false => drop(self.cookies.insert(key, value.to_owned())),
            }
        }
        let location = response.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().unwrap();
        Page { status, location, body: serde_json::from_str(&text).unwrap_or_default() }
    }

    /// Goes from the directory's page to wherever it sends the browser off its own site.
    fn travel(&mut self, departure: &str, who: &str) -> String {
        let home: String = departure.split('/').take(3).collect::<Vec<_>>().join("/");
        let mut url = format!("{departure}&login_hint={who}");
        loop {
            let page = self.send("GET", &url, &Value::Null);
            let next = page.location.unwrap_or_else(|| panic!("{url}: {} {}", page.status, page.body));
            url = if next.starts_with('/') { format!("{home}{next}") } else { next };
            if !url.starts_with(&home) {
                return url;
            }
        }
    }
}

/// The query after the question mark.
fn query(url: &str) -> BTreeMap<String, String> {
    let fields = url.split_once('?').unwrap().1.split('&').filter_map(|pair| pair.split_once('='));
    fields.map(|(name, value)| (name.into(), value.replace("%3A", ":").replace("%2F", "/"))).collect()
}

struct Array {
    daemon: Daemon,
    data: PathBuf,
    _folder: tempfile::TempDir,
}

impl Array {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("array");
        Self { daemon: start(&data, &[]).unwrap(), data, _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.daemon.url())
    }

    fn begin(&self, browser: &mut Browser) -> Page {
        browser.send("POST", &self.url("/api/v1/sign-in/corp"), &Value::Null)
    }

    fn end(&self, browser: &mut Browser, came: &BTreeMap<String, String>) -> Page {
        let body = json!({ "state": came["state"], "code": came["code"], "iss": came.get("iss") });
        browser.send("POST", &self.url("/api/v1/sign-in"), &body)
    }

    /// To the directory and back: what the browser brings.
    fn travel(&self, browser: &mut Browser, who: &str) -> BTreeMap<String, String> {
        let departure = self.begin(browser).body["url"].as_str().unwrap().to_owned();
        let back = browser.travel(&departure, who);
        assert!(back.starts_with(&self.url("/sign-in?")), "{back}");
        query(&back)
    }

    /// The whole sign-in of a user.
    fn sign_in(&self, browser: &mut Browser, who: &str) -> Page {
        let came = self.travel(browser, who);
        self.end(browser, &came)
    }
}

const GRANTS: &str = "--grant storage-admins=admin --grant ops=operator --scope profile --scope groups";

#[test]
fn people_of_an_openid_provider_sign_in_with_the_role_of_their_group() {
    let Some(folder) = package() else { return };
    let array = Array::start();
    let data = &array.data;
    let (provider, issuer) = provider(folder, &array.url("/sign-in"), "asked-for");
    let settings = format!("--oidc {issuer} --client-id array --address {} {GRANTS}", array.daemon.url());
    cli(data, &format!("directory create corp {settings} --secret client-secret-1"));
    let said = cli(data, "directory test corp");
    assert!(said["message"].as_str().unwrap().contains("knows the client \"array\""), "{said}");
    let mut browser = Browser::new();
    let offered = browser.send("GET", &array.url("/api/v1/sign-in"), &Value::Null);
    assert_eq!(offered.body, json!({ "items": [{ "directory": "corp" }], "total": 1 }));

    let ada = array.sign_in(&mut browser, "ada");
    assert_eq!(ada.status, 200, "{}", ada.body);
    assert_eq!((&ada.body["user"], &ada.body["role"]), (&json!("corp/ada"), &json!("admin")));
    let volume = json!({ "name": "db1", "size": 1 << 30 });
    assert_eq!(browser.send("POST", &array.url("/api/v1/volumes"), &volume).status, 201);
    let mut other = Browser::new();
    let olga = array.sign_in(&mut other, "olga");
    assert_eq!((olga.status, &olga.body["role"]), (200, &json!("operator")));
    assert_eq!(other.send("GET", &array.url("/api/v1/audit"), &Value::Null).status, 403);

    // A user without a role is refused, with what to do.
    for (who, groups) in [("eve", "guests"), ("noel", "no group")] {
        let refused = array.sign_in(&mut Browser::new(), who);
        let detail = refused.body["detail"].as_str().unwrap();
        assert_eq!(refused.status, 403, "{detail}");
        assert!(detail.contains(groups) && detail.contains("--grant"), "{detail}");
    }
    let audit = cli(data, "audit list");
    let done = |user: &str| audit.as_array().unwrap().iter().find(|it| it["user"] == user).unwrap().clone();
    assert_eq!(
        (&done("corp/ada")["action"], &done("corp/ada")["outcome"]),
        (&json!("CreateVolume"), &json!("done"))
    );
    assert_eq!(
        (&done("corp/eve")["action"], &done("corp/eve")["outcome"]),
        (&json!("SignIn"), &json!("refused"))
    );
    assert!(!audit.to_string().contains("client-secret"));

    // A change of the directory ends the sessions of its people, not those of others.
    let session = array.url("/api/v1/session");
    assert_eq!(other.send("GET", &session, &Value::Null).status, 200);
    cli(data, "directory set corp --grant ops=viewer");
    assert_eq!(other.send("GET", &session, &Value::Null).status, 401);
    let olga = array.sign_in(&mut other, "olga");
    assert_eq!(olga.body["role"], "viewer");
    assert_eq!(array.sign_in(&mut browser, "ada").status, 403);

    // The array is operated when the directory is down.
    drop(provider);
    cli(data, "directory set corp --enabled on");
    let down = array.begin(&mut browser);
    let detail = down.body["detail"].as_str().unwrap();
    assert!(down.status == 409 && detail.contains("users of the array itself"), "{} {detail}", down.status);
    assert!(fails(data, "directory test corp", 1).contains("can't be used"));
    assert_eq!(cli(data, "array status")["state"], "online");
    cli(data, "directory delete corp");
    assert_eq!(array.begin(&mut browser).status, 404);
}

#[test]
fn a_sign_in_ends_once_in_the_browser_that_began_it() {
    let Some(folder) = package() else { return };
    let array = Array::start();
    let data = &array.data;
    let (_provider, issuer) = provider(folder, &array.url("/sign-in"), "in-token");
    let settings = format!("--oidc {issuer} --client-id array --address {} {GRANTS}", array.daemon.url());
    cli(data, &format!("directory create corp {settings} --secret wrong-secret-1"));
    let unknown = fails(data, "directory test corp", 1);
    assert!(unknown.contains("does not know the array"), "{unknown}");
    assert!(!unknown.contains("wrong-secret"), "{unknown}");
    cli(data, "directory set corp --secret client-secret-1");

    let (mut browser, mut stranger) = (Browser::new(), Browser::new());
    let departure = array.begin(&mut browser).body["url"].as_str().unwrap().to_owned();
    for part in ["response_type=code", "code_challenge_method=S256", "state=", "nonce=", "code_challenge="] {
        assert!(departure.contains(part), "{departure}");
    }
    let back = browser.travel(&departure, "ada");
    let came = query(&back);
    // Another browser, even with the right state, ends the sign-in for all.
    assert_eq!(array.end(&mut stranger, &came).status, 401);
    assert_eq!(array.end(&mut browser, &came).status, 401);
    // The code of one sign-in does not end another: its verifier (PKCE) differs.
    let ada = array.travel(&mut browser, "ada");
    let mut mixed = array.travel(&mut browser, "ada");
    mixed.insert("code".into(), ada["code"].clone());
    let refused = array.end(&mut browser, &mixed);
    assert_eq!(refused.status, 403, "{}", refused.body);
    let mut elsewhere = array.travel(&mut browser, "ada");
    elsewhere.insert("iss".into(), "https://evil.example".into());
    assert_eq!(array.end(&mut browser, &elsewhere).status, 403);
    // What is right comes in, with claims in the ID token; and only once.
    let came = array.travel(&mut browser, "ada");
    let done = array.end(&mut browser, &came);
    assert_eq!((done.status, &done.body["user"]), (200, &json!("corp/ada")), "{}", done.body);
    assert_eq!(array.end(&mut browser, &came).status, 401);
    // Five have failed from this address.
    assert_eq!(array.end(&mut browser, &came).status, 429);
}

#[test]
fn nobody_is_sent_to_or_from_another_place() {
    let Some(folder) = package() else { return };
    let array = Array::start();
    let data = &array.data;
    let (_provider, issuer) = provider(folder, &array.url("/sign-in"), "asked-for");
    for address in ["https://evil.example/path", "http://array.example.com", "javascript:alert(1)"] {
        let words = format!("directory create corp --oidc {issuer} --client-id array --address {address}");
        assert!(fails(data, &words, 1).contains("address of the array"), "{address}");
    }
    // Browsers at another address of the array would come back without their cookie.
    let words = format!(
        "directory create corp --oidc {issuer} --client-id array --address https://array.example.com"
    );
    cli(data, &words);
    let refused = array.begin(&mut Browser::new());
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(refused.status == 409 && detail.contains("https://array.example.com"), "{detail}");

    cli(data, "directory set corp --secret client-secret-1");
    let shown = run(data, "directory show corp -o json");
    let bundle = data.with_extension("tar.zst");
    cli(data, &format!("support-bundle --file {}", bundle.display()));
    let bytes = zstd::decode_all(std::fs::File::open(&bundle).unwrap()).unwrap();
    let log = std::fs::read(data.with_extension("log")).unwrap();
    for text in [shown.stdout, bytes, log] {
        assert!(!String::from_utf8_lossy(&text).contains("client-secret"));
    }
}

#[test]
fn people_of_an_ldap_server_log_in_as_users_do_and_users_do_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some((server, address, _)) = slapd::start(folder.path()) else { return };
    let array = Array::start();
    let data = &array.data;
    let places = "--base ou=people,dc=example,dc=com --group-base ou=groups,dc=example,dc=com";
    let who = "--bind-dn cn=array,dc=example,dc=com --secret search-secret-1 --grant Keepers=operator";
    cli(data, &format!("directory create corp --ldap {address} {places} {who}"));
    assert!(cli(data, "directory test corp")["message"].as_str().unwrap().contains("uid="));
    let made = crate::process::run_with(data, "user create olga --role viewer", "olgas password\n");
    assert!(made.status.success());

    let session = array.url("/api/v1/session");
    let log_in = |user: &str, password: &str| {
        let mut browser = Browser::new();
        let page = browser.send("POST", &session, &json!({ "user": user, "password": password }));
        (page, browser)
    };
    for name in ["ada", "corp/ada"] {
        let (ada, mut browser) = log_in(name, "adas password");
        assert_eq!((ada.status, &ada.body["user"]), (200, &json!("corp/ada")), "{}", ada.body);
        assert_eq!(ada.body["role"], "operator");
        assert_eq!(browser.send("GET", &session, &Value::Null).body["user"], "corp/ada");
        assert_eq!(browser.send("GET", &array.url("/api/v1/users"), &Value::Null).status, 403);
    }
    for (name, password) in
        [("ada", "not hers"), ("ada", ""), ("*", "adas password"), ("other/ada", "adas password")]
    {
        assert_eq!(log_in(name, password).0.status, 401, "{name} {password}");
    }
    let (refused, _) = log_in("eve(*)", "eves password");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(refused.status == 403 && detail.contains("no group"), "{detail}");

    // Roles of groups are evaluated again after a change; the secret is never shown.
    let (_, mut ada) = log_in("ada", "adas password");
    cli(data, "directory set corp --grant keepers=viewer");
    assert_eq!(ada.send("GET", &session, &Value::Null).status, 401);
    assert_eq!(log_in("ada", "adas password").0.body["role"], "viewer");
    for words in ["directory show corp", "audit list"] {
        assert!(!cli(data, words).to_string().contains("search-secret"), "{words}");
    }
    let empty = fails(data, "directory set corp --secret=", 2);
    assert!(empty.contains("a value is required"), "{empty}");

    // Only users of a directory that is down wait for it, and get the reason.
    drop(server);
    assert_eq!(log_in("olga", "olgas password").0.status, 200);
    let (down, _) = log_in("ada", "adas password");
    let detail = down.body["detail"].as_str().unwrap();
    assert!(down.status == 409 && detail.contains("can't be asked"), "{} {detail}", down.status);
    let log = std::fs::read_to_string(data.with_extension("log")).unwrap();
    assert!(!log.contains("search-secret") && !log.contains("adas password"));
}

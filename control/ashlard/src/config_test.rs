use super::*;
use std::os::unix::fs::PermissionsExt;

const TEMPLATE: &str = include_str!("../package/ashlar.toml");

fn words(line: &str) -> Vec<OsString> {
    std::iter::once("ashlard").chain(line.split_whitespace()).map(Into::into).collect()
}

/// The command line `line` with a file of this text.
fn with(text: &str, line: &str) -> Result<Args> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ashlar.toml");
    std::fs::write(&file, text).unwrap();
    parse(words(&line.replace("FILE", &file.display().to_string())))
}

fn refusal(text: &str, line: &str) -> String {
    format!("{:#}", with(text, line).err().expect("a refusal"))
}

const SMALL: &str = "drive = [\"/dev/a\", \"/dev/b\"]\niscsi = \"10.0.0.1\"\n";

#[test]
fn a_file_has_what_the_command_line_has_and_yields_to_it() {
    let text = format!("{SMALL}threads = 3\nencrypt = true\ntls-only = false\nread-memory = \"1GiB\"\n");
    let config = with(&text, "--config FILE").unwrap();
    let config = config.configuration();
    assert_eq!(config.store.drives.named, [PathBuf::from("/dev/a"), PathBuf::from("/dev/b")]);
    assert_eq!((config.threads.number, config.store.encrypt), (Some(3), true));
    assert_eq!(config.store.data, Path::new(DEFAULT_DATA));
    assert_eq!(config.hosts.iscsi, ["10.0.0.1:3260".parse().unwrap()]);
    assert_eq!(config.api.address, "127.0.0.1:8443".parse().unwrap());
    let config = with(&text, "--config=FILE --drive /dev/c --threads=5 --data /x --nvme [::1]").unwrap();
    let config = config.configuration();
    assert_eq!(config.store.drives.named, [PathBuf::from("/dev/c")]);
    assert_eq!((config.threads.number, &*config.store.data), (Some(5), Path::new("/x")));
    assert_eq!(config.hosts.nvme, ["[::1]:4420".parse().unwrap()]);
}

#[test]
fn a_check_takes_from_the_file_what_it_has_itself() {
    let args = with(&format!("{SMALL}key-file = \"/k\"\n"), "check --config FILE --limit 3").unwrap();
    let Some(crate::args::Command::Check(check)) = args.command else { panic!("a check") };
    assert_eq!((check.drive.len(), check.limit, check.data), (2, 3, PathBuf::from(DEFAULT_DATA)));
    assert_eq!(check.key.key_file, Some("/k".into()));
    assert!(!check.repair);
}

#[test]
fn no_array_is_made_on_what_nobody_named() {
    let said = refusal("iscsi = \"127.0.0.1\"", "--config FILE");
    assert!(said.contains("names no drives"), "{said}");
    assert!(with("iscsi = \"127.0.0.1\"\ndrives = 4", "--config FILE").is_ok());
    assert!(with("iscsi = \"127.0.0.1\"\nrados = \"p\"", "--config FILE").is_ok());
    assert!(with("iscsi = \"127.0.0.1\"", "--config FILE --drive /dev/a").is_ok());
    let said = refusal("drives = 4", "--config FILE");
    assert!(said.contains("--iscsi"), "{said}");
}

#[test]
fn mistakes_are_named() {
    for (text, hint) in [
        ("drive = [", "is wrong"),
        ("drivs = 3", "no option drivs"),
        ("encrypt = \"yes\"", "encrypt is true or false"),
        ("threads = [1]", "threads has one value"),
        ("threads = 1.5", "neither text"),
        ("drive = [[\"a\"]]", "neither text"),
        ("drive = { a = 1 }", "neither text"),
        ("rados-array = \"00000000000000000000000000000007\"", "command line"),
        ("openapi = true", "command line"),
        ("drives = 4\niscsi = \"host\"", "10.0.0.1:3260"),
        ("drives = 400\niscsi = \"::1\"", "drives"),
        ("drive = \"a\"\nrados = \"p\"\niscsi = \"::1\"", "--rados"),
    ] {
        let said = refusal(text, "--config FILE");
        assert!(said.contains(hint) && said.contains("ashlar.toml"), "{text}: {said}");
    }
    let said = format!("{:#}", parse(words("--config /nowhere.toml")).err().unwrap());
    assert!(said.contains("can't read /nowhere.toml"), "{said}");
}

#[test]
fn a_file_that_every_user_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ashlar.toml");
    std::fs::write(&file, SMALL).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let said = format!("{:#}", read(&file).unwrap_err());
    assert!(said.contains("chmod o-w"), "{said}");
}

#[test]
fn a_check_finds_what_is_not_on_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a.drive"), "").unwrap();
    let file = path("ashlar.toml");
    let write = |drives: &str, address: &str| {
        let data = path("data");
        let text =
            format!("data = {data:?}\ndrive = [{drives}]\niscsi = \"{address}\"\napi = \"127.0.0.1:0\"\n");
        std::fs::write(&file, text).unwrap();
    };
    let (there, missing) = (path("a.drive"), path("b.drive"));
    write(&format!("{there:?}"), "127.0.0.1:0");
    assert_eq!(check(Path::new(&file)).unwrap(), 0);
    write(&format!("{there:?}, {missing:?}, {there:?}"), "127.0.0.1:0");
    assert_eq!(check(Path::new(&file)).unwrap(), 2, "one that is missing and one that is named twice");
    // A documentation address (RFC 5737), which no machine has.
    write(&format!("{there:?}"), "192.0.2.1");
    assert_eq!(check(Path::new(&file)).unwrap(), 1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    write(&format!("{there:?}"), &taken.local_addr().unwrap().to_string());
    assert_eq!(check(Path::new(&file)).unwrap(), 1);
}

/// The lines of the template that set something, `drive = […]` as it is and `#drive = […]` as if it were not commented out.
fn settings() -> Vec<String> {
    let is_setting = |line: &&str| {
        line.split_once(" = ").is_some_and(|(key, _)| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        })
    };
    let lines = TEMPLATE.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    lines.filter(is_setting).map(str::to_owned).collect()
}

#[test]
fn the_packaged_file_has_every_option_and_sets_none() {
    assert_eq!(TEMPLATE.parse::<Table>().unwrap().len(), 0, "the administrator decides");
    let root = Args::command();
    let options = root.get_arguments().filter(|arg| may_be_in_a_file(arg));
    let mut expected: Vec<_> = options.filter_map(|arg| arg.get_long()).collect();
    let settings = settings();
    let mut found: Vec<_> =
        settings.iter().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn each_line_of_the_packaged_file_can_be_used() {
    // Alone with what every start needs, since some exclude or need others.
    for line in settings() {
        let table: Table = line.parse().unwrap();
        let key = table.keys().next().unwrap();
        let other: &[&str] = match key.as_str() {
            "rados-namespace" | "rados-capacity" => &["rados"],
            "kmip-cert" | "kmip-key" | "kmip-ca" | "kmip-id" | "kmip" => {
                &["kmip", "kmip-cert", "kmip-key", "kmip-ca"]
            }
            _ => &[],
        };
        let store: &[&str] = if key == "rados" || other.contains(&"rados") { &[] } else { &["drive"] };
        let settings = settings();
        let wanted =
            |name: &str| name == key || name == "iscsi" || other.contains(&name) || store.contains(&name);
        let lines = settings.iter().filter(|line| wanted(line.split_once(" = ").unwrap().0));
        let text = lines.cloned().collect::<Vec<_>>().join("\n");
        if let Err(error) = with(&text, "--config FILE") {
            panic!("{line}: {error:#}");
        }
    }
}

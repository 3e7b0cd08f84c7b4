//! The boundaries of ARCHITECTURE that a machine can check: which files have threads, clocks, system calls and the like, which
//! crates draw in which libraries, and where I/O waits for `control`.

use super::edges::folder;
use super::sources::{product_lines, sources};
use super::{members, metadata};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Something that only listed files may use.
struct Boundary {
    what: &'static str,
    /// The words by which it is found in a line.
    words: &'static [&'static str],
    /// The paths on which it is restricted.
    within: &'static [&'static str],
    /// The files that may use it, as `path.rs`, and the folders, as `path/`. Each of them does.
    allowed: &'static [&'static str],
}

const BOUNDARIES: &[Boundary] = &[
    Boundary {
        what: "threads and runtimes",
        words: &[
            "std::thread",
            "thread::spawn",
            "thread::Builder",
            "tokio::spawn",
            "tokio::runtime",
            "spawn_blocking",
            "spawn_local",
        ],
        within: &["io/"],
        allowed: &[
            "io/address/src/lib.rs",
            "io/rados/src/client.rs",
            "io/raid/src/device.rs",
            "io/raid/src/device/",
            "io/transport/src/portal/",
        ],
    },
    Boundary {
        what: "clocks",
        words: &["Instant::now", "SystemTime", "thread::sleep", "tokio::time", "clock_gettime"],
        within: &["io/"],
        allowed: &["io/address/src/lib.rs", "io/raid/src/device.rs", "io/transport/src/portal.rs"],
    },
    Boundary {
        what: "randomness",
        words: &["getrandom", "rand::", "RandomState", "OsRng"],
        within: &["io/"],
        allowed: &["io/iscsi/src/portal.rs"],
    },
    Boundary {
        what: "sockets, files and the environment",
        words: &["tokio::net", "net::Tcp", "net::Udp", "socket2::", "std::fs", "tokio::fs", "std::env"],
        within: &["io/"],
        allowed: &[
            "io/address/src/announce.rs",
            "io/address/src/netlink.rs",
            "io/raid/src/device.rs",
            "io/tcmu/src/adapter.rs",
            "io/tcmu/src/configfs.rs",
            "io/tcmu/src/uio.rs",
            "io/transport/src/portal.rs",
            // `std::fs::File` as a socket whose keys the kernel is given.
            "io/transport/src/tls.rs",
        ],
    },
    Boundary {
        what: "system calls",
        words: &["libc::", "io_uring", "rustix::"],
        within: &["io/"],
        allowed: &[
            "io/address/src/announce.rs",
            "io/address/src/netlink.rs",
            "io/raid/src/device.rs",
            "io/raid/src/device/",
            "io/tcmu/src/uio.rs",
            "io/transport/src/tls.rs",
        ],
    },
    Boundary {
        what: "calls of librados",
        words: &["libloading", "rados_ioctx", "rados_aio", "rados_connect"],
        within: &["io/", "control/"],
        allowed: &["io/rados/src/library.rs"],
    },
    Boundary {
        what: "unsafe code",
        words: &["unsafe "],
        within: &["io/", "control/"],
        allowed: &[
            "control/ashlard/src/threads.rs",
            "io/address/src/announce.rs",
            "io/engine/src/sharded_lock.rs",
            "io/rados/src/library.rs",
            "io/raid/src/device.rs",
            "io/raid/src/device/",
            "io/raid/src/parity/x86.rs",
            "io/shelf/src/buffer.rs",
            "io/tcmu/src/area.rs",
            "io/tcmu/src/uio.rs",
            "io/transport/src/tls.rs",
        ],
    },
    Boundary {
        what: "sessions whose other end is not known yet",
        words: &["mutual_tls::accept"],
        within: &["control/"],
        allowed: &["control/fabric/src/admission.rs"],
    },
    Boundary {
        what: "HTTP",
        words: &["axum", "hyper::", "http::"],
        within: &["control/array/", "control/records/", "control/history/", "control/replication/"],
        allowed: &[],
    },
    Boundary {
        what: "the array as a whole, and verbs, in a service",
        words: &["crate::array", "crate::request", "&Array", "Arc<Array>"],
        within: &["control/array/src/service/"],
        allowed: &[],
    },
];

/// A file is allowed as itself, or by its folder.
fn is_within(name: &str, path: &str) -> bool {
    name == path || path.ends_with('/') && name.starts_with(path)
}

impl Boundary {
    fn restricts(&self, name: &str) -> bool {
        self.within.iter().any(|path| name.starts_with(path)) && !name.ends_with("_test.rs")
    }

    fn allows(&self, name: &str) -> bool {
        self.allowed.iter().any(|path| is_within(name, path))
    }

    /// The lines of the product that use it.
    fn uses<'a>(&'a self, path: &'a Path, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        product_lines(path, text).filter(|(_, line)| self.words.iter().any(|word| line.contains(word)))
    }

    /// The uses in files that may not, and the allowances that no file needs.
    fn faults(&self, sources: &[(PathBuf, String)]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut needed: BTreeSet<&&str> = BTreeSet::new();
        for (path, text) in sources {
            let name = path.to_string_lossy();
            if !self.restricts(&name) {
                continue;
            }
            let mut uses = self.uses(path, text).peekable();
            if self.allows(&name) && uses.peek().is_some() {
                needed.extend(self.allowed.iter().filter(|path| is_within(&name, path)));
            } else {
                faults.extend(uses.map(|(at, line)| format!("{name}:{at}: {}: {}", self.what, line.trim())));
            }
        }
        let idle = self.allowed.iter().filter(|path| !needed.contains(*path));
        faults.extend(idle.map(|path| format!("{path} is allowed {} and has none", self.what)));
        faults
    }
}

#[test]
fn boundaries_between_files_hold() {
    let sources = sources();
    let faults: Vec<String> = BOUNDARIES.iter().flat_map(|boundary| boundary.faults(&sources)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_use_in_another_file_is_found() {
    for boundary in BOUNDARIES {
        let allowed: Vec<(PathBuf, String)> = boundary
            .allowed
            .iter()
            .map(|path| {
                let file =
                    path.strip_suffix('/').map_or((*path).to_owned(), |folder| format!("{folder}/x.rs"));
                (PathBuf::from(file), boundary.words[0].to_owned())
            })
            .collect();
        assert_eq!(boundary.faults(&allowed), Vec::<String>::new());
        for (within, word) in
            boundary.within.iter().flat_map(|it| boundary.words.iter().map(move |word| (it, word)))
        {
            let planted = (PathBuf::from(format!("{within}new/src/planted.rs")), format!("let it = {word};"));
            let faults = boundary.faults(&[allowed.as_slice(), &[planted]].concat());
            assert_eq!(faults.len(), 1, "{}: {word} in {within}", boundary.what);
        }
        for at in 0..allowed.len() {
            let (mut fewer, path) = (allowed.clone(), allowed[at].0.display());
            fewer[at].1.clear();
            assert_eq!(boundary.faults(&fewer).len(), 1, "{}: {path} no longer needs it", boundary.what);
        }
    }
}

/// Libraries of others that only these crates of the product draw in. Tests and tools may use any.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("axum", &["api"]),
    ("clap", &["ashlard", "cli"]),
    ("getrandom", &["iscsi", "machine"]),
    ("hyper", &["api"]),
    ("io-uring", &["raid"]),
    ("ldap3", &["directory"]),
    ("lettre", &["notify"]),
    ("libc", &["address", "raid", "tcmu", "transport"]),
    ("libloading", &["rados"]),
    ("openidconnect", &["directory"]),
    ("rusqlite", &["history"]),
    ("rustix", &["ashlard", "fabric", "machine"]),
    ("rustls", &["api", "cli", "fabric", "machine", "notify", "trust"]),
    ("s2n-tls", &["transport"]),
    ("socket2", &["address", "transport"]),
    (
        "tokio",
        &["api", "array", "ashlard", "fabric", "forward", "iscsi", "machine", "nvmf", "tcmu", "transport"],
    ),
    ("ureq", &["cli", "directory", "notify", "trust"]),
    ("utoipa", &["api", "array", "records"]),
    ("yasna", &["notify"]),
];

/// The libraries that a crate draws in and may not.
fn forbidden<'a>(name: &str, libraries: &[&'a str]) -> Vec<&'a str> {
    let is_forbidden = |library: &&&str| {
        let listed = LIBRARIES.iter().find(|(listed, _)| listed == *library);
        listed.is_some_and(|(_, crates)| !crates.contains(&name))
    };
    libraries.iter().filter(is_forbidden).copied().collect()
}

/// The libraries of a package's product: no tests, no build scripts.
fn libraries(package: &serde_json::Value) -> Vec<&str> {
    let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
    let product = dependencies.filter(|dependency| dependency["kind"].is_null());
    product.filter_map(|dependency| dependency["name"].as_str()).collect()
}

#[test]
fn libraries_are_drawn_in_by_listed_crates() {
    let metadata = metadata();
    let mut drawn: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in members(&metadata).filter(|package| ["io", "control"].contains(&folder(package))) {
        let name = package["name"].as_str().expect("a name");
        let libraries = libraries(package);
        assert_eq!(forbidden(name, &libraries), Vec::<&str>::new(), "{name} must not draw them in");
        for library in libraries {
            drawn.entry(library).or_default().insert(name);
        }
    }
    for (library, crates) in LIBRARIES {
        let drawn = drawn.get(library).cloned().unwrap_or_default();
        for name in *crates {
            assert!(drawn.contains(name), "{name} is allowed {library} and does not need it");
        }
    }
}

#[test]
fn a_library_in_another_crate_is_found() {
    for (library, _) in LIBRARIES {
        assert_eq!(forbidden("engine", &["bytes", library]), [*library]);
    }
}

/// Traits of `io/` that `control/` implements: what I/O calls there. Those that are marked return futures, which I/O awaits.
const CALLED_BY_IO: &[(&str, bool)] = &[
    ("ConnectObserver", false),
    ("FrontEnd", false),
    ("LoginObserver", false),
    // The acknowledgement of a write to a synchronously replicated volume waits for the other array.
    ("Tap", true),
    ("TargetDevice", false),
];

/// The traits that are declared in a file, and whether a method of theirs returns a future.
fn traits(text: &str) -> Vec<(String, bool)> {
    let futures = ["Future<", "async fn", "Poll<", "-> Hold", "<Hold>"];
    let mut found = Vec::new();
    for part in text.split("pub trait ").skip(1) {
        let name: String = part.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        let body = part.split("\n}").next().unwrap_or_default();
        found.push((name, futures.iter().any(|word| body.contains(word))));
    }
    found
}

/// The trait of `impl … TRAIT for TYPE`, without its path and parameters.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let (path, _) = rest.split_once(" for ")?;
    // What precedes the path are the parameters of the `impl`.
    let path = if path.starts_with('<') { path.split_once("> ")?.1 } else { path };
    path.split('<').next()?.trim().rsplit("::").next()
}

/// What of `io/` files of `control/` implement, and whether I/O awaits it.
fn called_by_io(sources: &[(PathBuf, String)]) -> BTreeMap<String, bool> {
    let product = |top: &'static str| {
        let files = sources.iter().filter(move |(path, _)| path.starts_with(top));
        files.map(|(path, text)| product_lines(path, text).map(|(_, line)| line).collect::<Vec<_>>())
    };
    let declared: BTreeMap<_, _> = product("io").flat_map(|lines| traits(&lines.join("\n"))).collect();
    let lines = product("control").flatten();
    let named = lines.filter_map(implemented).filter_map(|name| declared.get_key_value(name));
    named.map(|(name, awaited)| (name.clone(), *awaited)).collect()
}

#[test]
fn io_waits_for_control_only_at_the_tap() {
    let listed: BTreeMap<_, _> =
        CALLED_BY_IO.iter().map(|(name, awaited)| ((*name).to_owned(), *awaited)).collect();
    assert_eq!(called_by_io(&sources()), listed);
}

#[test]
fn a_trait_that_io_awaits_is_found() {
    let file = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let sources = [
        file(
            "io/x/src/a.rs",
            "pub trait Watch {\n    fn seen(&self);\n}\npub trait Ask {\n    fn ask(&self) -> Pin<Box<dyn Future<Output = ()>>>;\n}\n",
        ),
        file(
            "control/x/src/b.rs",
            "impl Watch for Log {\nimpl<T> x::Ask for Peer {\nimpl From<x::Watch> for Log {\n",
        ),
    ];
    assert_eq!(called_by_io(&sources), [("Ask".to_owned(), true), ("Watch".to_owned(), false)].into());
}

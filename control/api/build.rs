//! Lists what the build of `web/` made, so that [`gui`](src/gui.rs) can embed it. Nothing made is an empty list: the
//! daemon then serves a page that says how to build it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    // Cargo says at each run where the checkout is: what was compiled in would be where it was at the first build.
    let variable = |name: &str| PathBuf::from(std::env::var_os(name).expect("cargo says where"));
    let folder = variable("CARGO_MANIFEST_DIR").join("../../web/dist");
    println!("cargo::rerun-if-env-changed=CARGO_MANIFEST_DIR");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    if files.is_empty() {
        println!("cargo::warning=the web interface is not built: `cargo xtask web`, then build again");
    }
    let mut table = String::from("&[\n");
    for path in &files {
        // The same is there compressed, in a third of the bytes.
        let mut packed = path.as_os_str().to_owned();
        packed.push(".gz");
        if files.binary_search(&packed.into()).is_ok() {
            continue;
        }
        let name = path.strip_prefix(&folder).expect("below the folder").to_str().expect("a name in UTF-8");
        let path = path.canonicalize().expect("a file that was just listed");
        writeln!(table, "    (\"/{name}\", include_bytes!({path:?})),").expect("a string grows");
    }
    table.push_str("]\n");
    std::fs::write(variable("OUT_DIR").join("gui.rs"), table).expect("the build folder can be written");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.map(|entry| entry.expect("a readable folder")) {
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        match entry.path() {
            path if path.is_dir() => collect(&path, files),
            path if !hidden => files.push(path),
            _ => {}
        }
    }
}

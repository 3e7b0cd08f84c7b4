use super::*;
use clap::Parser;

fn args(data: &Path, more: &str) -> Args {
    let line = format!("ashlard --data {} --iscsi 127.0.0.1:0 {more}", data.display());
    Args::try_parse_from(line.split_whitespace()).unwrap()
}

fn location_of(more: &str) -> Result<Location> {
    location(&args(Path::new("d"), more).rados, None)
}

#[test]
fn a_location_has_one_pool_or_two_and_usual_names_for_the_rest() {
    let one = location_of("--rados volumes").unwrap();
    assert_eq!((&*one.meta, &*one.data), ("volumes", "volumes"));
    assert_eq!((&*one.conf, &*one.id, &*one.namespace), ("/etc/ceph/ceph.conf", "ashlar", "ashlar"));
    let two = location_of("--rados fast,wide --ceph-id me --ceph-conf c --rados-namespace n").unwrap();
    assert_eq!([two.meta, two.data, two.id, two.conf, two.namespace], ["fast", "wide", "me", "c", "n"]);
    for wrong in [",", "a,", ",a", "a,b,c"] {
        assert!(location_of(&format!("--rados {wrong}")).is_err(), "{wrong}");
    }
    let both = "ashlard --data d --iscsi 127.0.0.1:0 --rados p --drive x".split(' ');
    assert!(Args::try_parse_from(both).is_err());
}

/// What is decided for a folder that remembers an array, or not.
fn decided(data: &Path, more: &str, found: &Contents) -> Result<(u128, bool)> {
    let (args, before) = (args(data, &format!("--rados p {more}")), remembered(data)?);
    let known = before.as_ref().map(Remembered::array).transpose()?;
    decide(&args, (&before, known), found, &location(&args.rados, before.as_ref())?)
}

#[test]
fn an_array_is_opened_by_its_folder_or_by_name_and_made_in_an_empty_namespace_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (seven, eight) =
        (Contents::Array { array: 7, sealed: false }, Contents::Array { array: 8, sealed: false });
    let foreign = Contents::Foreign { object: "photo".into() };
    let refused = |more: &str, found: &Contents, word: &str| {
        let refused = decided(data, more, found).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    };
    assert!(matches!(decided(data, "", &Contents::Blank), Ok((_, false))));
    refused("", &seven, "--rados-array 00000000000000000000000000000007");
    refused("--rados-array 00000000000000000000000000000008", &seven, "--rados-array");
    let named = decided(data, "--rados-array 00000000000000000000000000000007", &seven);
    assert_eq!(named.unwrap(), (7, true));
    refused("--rados-array 00000000000000000000000000000007", &Contents::Blank, "no array");
    refused("", &foreign, "photo");

    let location = location_of("--rados p").unwrap();
    Remembered::new(7, &location, false).write(data).unwrap();
    assert_eq!(decided(data, "", &Contents::Blank).unwrap(), (7, false), "a format that was interrupted");
    assert_eq!(decided(data, "", &seven).unwrap(), (7, true));
    Remembered::new(7, &location, true).write(data).unwrap();
    assert_eq!(decided(data, "", &seven).unwrap(), (7, true));
    refused("", &eight, "not the one of the folder");
    refused("", &Contents::Blank, "no array is made in its place");
    refused("", &foreign, "photo");
}

#[test]
fn a_folder_of_drives_gets_no_array_in_ceph() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secrets.key"), "x").unwrap();
    let refused = decided(folder.path(), "", &Contents::Blank).unwrap_err().to_string();
    assert!(refused.contains("not in Ceph"), "{refused}");
}

#[test]
fn what_the_folder_remembers_is_written_only_when_it_changes() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let location = location_of("--rados p").unwrap();
    // A file that is replaced has another inode while the old one is open.
    let mut seen = Vec::new();
    let mut write = |made: bool| {
        Remembered::new(7, &location, made).write(folder.path()).unwrap();
        let file = std::fs::File::open(folder.path().join(FILE)).unwrap();
        let inode = file.metadata().unwrap().ino();
        seen.push(file);
        inode
    };
    let (unmade, made) = (write(false), write(true));
    assert_ne!(unmade, made);
    assert_eq!(write(true), made, "a controller that has made the array need not say so again");
}

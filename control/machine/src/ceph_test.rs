use super::*;

/// The configuration of an array in a folder and the pools `pools`.
fn place(data: &Path, pools: &str, array: Option<u128>) -> Config {
    let rados = Rados { pools: Some(pools.into()), array, ..Rados::default() };
    Config { data: data.to_owned(), rados, ..Config::default() }
}

fn location_of(config: Rados) -> Result<Location> {
    location(&config, None)
}

fn in_pools(pools: &str) -> Rados {
    Rados { pools: Some(pools.into()), ..Rados::default() }
}

#[test]
fn a_location_has_one_pool_or_two_and_usual_names_for_the_rest() {
    let one = location_of(in_pools("volumes")).unwrap();
    assert_eq!((&*one.meta, &*one.data), ("volumes", "volumes"));
    assert_eq!((&*one.conf, &*one.id, &*one.namespace), ("/etc/ceph/ceph.conf", "ashlar", "ashlar"));
    let named = |it: &str| Some(it.to_owned());
    let (conf, id, namespace) = (named("c"), named("me"), named("n"));
    let two = location_of(Rados { conf, id, namespace, ..in_pools("fast,wide") }).unwrap();
    assert_eq!([two.meta, two.data, two.id, two.conf, two.namespace], ["fast", "wide", "me", "c", "n"]);
    for wrong in [",", "a,", ",a", "a,b,c"] {
        assert!(location_of(in_pools(wrong)).is_err(), "{wrong}");
    }
}

/// What is decided for a folder that remembers an array, or not.
fn decided(data: &Path, named: Option<u128>, found: &Contents) -> Result<(u128, bool)> {
    let (config, before) = (place(data, "p", named), remembered(data)?);
    let known = before.as_ref().map(Remembered::array).transpose()?;
    decide(&config, (&before, known), found, &location(&config.rados, before.as_ref())?)
}

#[test]
fn an_array_is_opened_by_its_folder_or_by_name_and_made_in_an_empty_namespace_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (seven, eight) =
        (Contents::Array { array: 7, sealed: false }, Contents::Array { array: 8, sealed: false });
    let foreign = Contents::Foreign { object: "photo".into() };
    let refused = |named: Option<u128>, found: &Contents, word: &str| {
        let refused = decided(data, named, found).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    };
    assert!(matches!(decided(data, None, &Contents::Blank), Ok((_, false))));
    refused(None, &seven, "--rados-array 00000000000000000000000000000007");
    refused(Some(8), &seven, "--rados-array");
    let named = decided(data, Some(7), &seven);
    assert_eq!(named.unwrap(), (7, true));
    refused(Some(7), &Contents::Blank, "no array");
    refused(None, &foreign, "photo");

    let location = location_of(in_pools("p")).unwrap();
    Remembered::new(7, &location, false).write(data).unwrap();
    assert_eq!(decided(data, None, &Contents::Blank).unwrap(), (7, false), "a format that was interrupted");
    assert_eq!(decided(data, None, &seven).unwrap(), (7, true));
    Remembered::new(7, &location, true).write(data).unwrap();
    assert_eq!(decided(data, None, &seven).unwrap(), (7, true));
    refused(None, &eight, "not the one of the folder");
    refused(None, &Contents::Blank, "no array is made in its place");
    refused(None, &foreign, "photo");
}

#[test]
fn a_folder_of_drives_gets_no_array_in_ceph() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secrets.key"), "x").unwrap();
    let refused = decided(folder.path(), None, &Contents::Blank).unwrap_err().to_string();
    assert!(refused.contains("not in Ceph"), "{refused}");
}

#[test]
fn what_the_folder_remembers_is_written_only_when_it_changes() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let location = location_of(in_pools("p")).unwrap();
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

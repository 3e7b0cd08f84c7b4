//! The same over a real cluster, which `cargo xtask rados` starts: its configuration is `ASHLAR_CEPH_CONF`, with the pools
//! `meta` (replicated), `erasure` and `small`.

use super::{Ground, call, conformance, damage, manage, now, opening, reader, small};
use bytes::Bytes;
use rados::objects::{Name, ObjectError, Objects, Operation, Pool, Step};
use rados::{Client, FormatOptions, Location, Store};
use shelf::{AlignedBuf, Error, JournalPos, SegmentId, Shelf, Wait, wait};
use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn conf() -> String {
    std::env::var("ASHLAR_CEPH_CONF").expect("ASHLAR_CEPH_CONF: run `cargo xtask rados`")
}

/// An unused namespace.
fn namespace() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn ground_in(data: &'static str) -> Ground {
    let (conf, namespace) = (conf(), namespace());
    Box::new(move || {
        Client::connect(Location {
            conf: conf.clone(),
            id: "admin".into(),
            meta: "meta".into(),
            data: data.into(),
            namespace: namespace.clone(),
        })
        .unwrap()
    })
}

fn replicated() -> Ground {
    ground_in("meta")
}

fn erasure_coded() -> Ground {
    ground_in("erasure")
}

fn append(store: &Store, number: u64) -> Wait<JournalPos> {
    let (done, answer) = wait();
    let mut head = number.to_le_bytes().to_vec();
    head.resize(5000, number as u8);
    store.append(head.into(), Vec::new(), done);
    answer
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_store_keeps_the_contract() {
    conformance::run(replicated);
    conformance::run(erasure_coded);
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_segments_are_read_by_another_process() {
    reader::writings(replicated);
    reader::writings(erasure_coded);
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_damage_is_named() {
    for test in [damage::journal, damage::superblocks, damage::foreign] {
        test(replicated);
    }
    damage::page(replicated);
    manage::keys(replicated);
    manage::namespaces(erasure_coded);
    manage::overlay(replicated);
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_operations_are_refused_as_in_the_model() {
    let client = erasure_coded()();
    for pool in [Pool::Meta, Pool::Data] {
        let name = Name { pool, name: "refusals".into() };
        let operate = |steps: Vec<Step>| now(client.operate(&name, Operation { steps, force: false }));
        let equal = |value: &str| Step::equal("owner", value);
        let set = |value: &str| Step::set("owner", value);
        assert_eq!(operate(vec![equal(""), set("1")]), Err(ObjectError::Absent));
        assert_eq!(operate(vec![set("1")]), Err(ObjectError::Absent), "nothing is created by the way");
        assert_eq!(operate(vec![Step::Remove]), Err(ObjectError::Absent));
        assert_eq!(now(client.read(&name, 0, 10)), Err(ObjectError::Absent));
        assert_eq!(now(client.attributes(&name)), Err(ObjectError::Absent));
        assert_eq!(
            operate(vec![Step::CreateExclusive, set("7"), Step::Write(0, vec![vec![1; 8192].into()])]),
            Ok(())
        );
        assert_eq!(operate(vec![Step::CreateExclusive]), Err(ObjectError::Exists));
        assert_eq!(operate(vec![equal("6"), Step::Remove]), Err(ObjectError::Guard));
        assert_eq!(operate(vec![Step::greater("owner", "7"), set("9")]), Err(ObjectError::Guard));
        assert_eq!(operate(vec![Step::greater("owner", "8"), set("8")]), Ok(()));
        assert_eq!(operate(vec![Step::equal("generation", ""), equal("8")]), Ok(()));
        assert_eq!(now(client.attributes(&name)).unwrap()["owner"], "8");
        assert_eq!(now(client.read(&name, 8000, 1000)).unwrap().len(), 192);
        assert_eq!(now(client.list(pool)).unwrap(), ["refusals"]);
        assert_eq!(operate(vec![equal("8"), Step::Remove]), Ok(()));
    }
}

/// What the owner has under way continues while another takes over.
fn take_over(seed: u64) {
    let ground = if seed.is_multiple_of(2) { replicated() } else { erasure_coded() };
    let encrypted = seed.is_multiple_of(3);
    let options = FormatOptions { journal_bytes: 16 << 20, ..small() };
    let mut owner = now(Store::format(ground(), options, opening(1, encrypted))).unwrap();
    let (mut next, mut acknowledged) = (1, 0);
    for round in 0..3 {
        let mut under_way: VecDeque<_> = VecDeque::new();
        for _ in 0..5 + seed % 7 {
            under_way.push_back((next, append(&owner, next)));
            next += 1;
        }
        let mut opening = opening(100 + round, encrypted);
        opening.epoch = Some(owner.epoch() + 1 + seed % 3);
        let appended = std::thread::spawn({
            let (old, first) = (owner.clone(), next);
            move || {
                // Until it is refused.
                for number in first.. {
                    under_way.push_back((number, append(&old, number)));
                    while under_way.len() > 6 {
                        let (number, answer) = under_way.pop_front().unwrap();
                        match now(answer) {
                            Ok(_) => acknowledged = number,
                            Err(Error::JournalFull | Error::Fenced { .. }) => return acknowledged,
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                    }
                }
                acknowledged
            }
        });
        std::thread::yield_now();
        let new = now(Store::open(ground(), opening)).unwrap();
        let batches = call(|done| new.recover(JournalPos(1), done)).unwrap();
        acknowledged = appended.join().unwrap();
        let newest = batches.len() as u64;
        assert!(newest >= acknowledged, "seed {seed}: {newest} of {acknowledged} batches");
        for (batch, number) in batches.iter().zip(1..) {
            assert_eq!(batch.pos.0, number, "seed {seed}");
            assert_eq!(batch.head[..8], number.to_le_bytes(), "seed {seed}");
        }
        let late = now(append(&owner, 0));
        assert!(matches!(late, Err(Error::Fenced { .. } | Error::JournalFull)), "seed {seed}: {late:?}");
        (owner, next) = (new, newest + 1);
    }
    assert!(acknowledged > 0, "seed {seed}: something was acknowledged");
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_takeovers_lose_nothing() {
    let seeds = std::env::var("ASHLAR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(3);
    (0..seeds).for_each(take_over);
}

fn ceph(words: &[&str]) {
    let done = Command::new("ceph").args(["-c", &conf()]).args(words).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Asks again until the cluster has come to know of a change: its maps and statistics take a second or several.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_full_pool_refuses_room_and_takes_what_was_promised() {
    let ground = ground_in("small");
    let options = FormatOptions { stripe_pages: 256, segment_stripes: 8, ..small() };
    let store = now(Store::format(ground(), options, opening(1, false))).unwrap();
    ceph(&["osd", "pool", "set-quota", "small", "max_bytes", "41943040"]);
    let mut stripe = AlignedBuf::zeroed(store.layout().stripe_bytes as usize);
    stripe.fill(7);
    let stripe = Arc::new(stripe);
    let mut written = 0;
    until("writes fill the pool", || {
        let (segment, index) = (written / 8, written % 8);
        if segment < store.layout().segments {
            let at = index * store.layout().stripe_bytes;
            call(|done| store.write(SegmentId(segment), at, stripe.clone(), done)).unwrap();
            written += 1;
        }
        now(store.measure());
        store.room().protected == 0
    });
    // What was promised still works: segments, journal and removals.
    for index in 0..4 {
        let at = index * store.layout().stripe_bytes;
        call(|done| store.write(SegmentId(11), at, stripe.clone(), done)).unwrap();
    }
    now(append(&store, 1)).unwrap();
    let read = call(|done| store.read(SegmentId(11), 0, 1000, done)).unwrap();
    assert_eq!(read, Bytes::from(vec![7; 1000]));
    (0..12).for_each(|segment| store.discard(SegmentId(segment)));
    until("removals make room", || {
        now(store.measure());
        store.room().protected > 0
    });
    ceph(&["osd", "pool", "set-quota", "small", "max_bytes", "0"]);
}

#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_mistakes_are_named() {
    let location = |meta: &str, data: &str, id: &str| Location {
        conf: conf(),
        id: id.into(),
        meta: meta.into(),
        data: data.into(),
        namespace: namespace(),
    };
    for (location, word) in [
        (location("absent", "meta", "admin"), "ceph osd pool create absent"),
        (location("meta", "absent", "admin"), "ceph osd pool create absent"),
        (location("erasure", "erasure", "admin"), "replicated"),
    ] {
        let refused = Client::connect(location).err().unwrap().to_string();
        assert!(refused.contains(word), "{refused}");
    }
}

/// The capabilities in docs/operating/ceph.md are enough, and give no access to other pools.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_capabilities_suffice() {
    let folder = std::env::temp_dir().join(namespace());
    std::fs::create_dir_all(&folder).unwrap();
    let (keyring, own) = (folder.join("keyring"), folder.join("ceph.conf"));
    let keyring = keyring.display().to_string();
    let monitor = "allow r, allow command \"osd blocklist\"";
    let pools = "allow rwx pool=meta, allow rwx pool=erasure";
    ceph(&["auth", "get-or-create", "client.ashlar", "mon", monitor, "osd", pools, "-o", &keyring]);
    let whole = std::fs::read_to_string(conf()).unwrap();
    std::fs::write(&own, format!("{whole}\n[client.ashlar]\nkeyring = {keyring}\n")).unwrap();
    let location = |data: &str, namespace: &str| Location {
        conf: own.display().to_string(),
        id: "ashlar".into(),
        meta: "meta".into(),
        data: data.into(),
        namespace: namespace.into(),
    };
    let name = namespace();
    let former = Client::connect(location("erasure", &name)).unwrap();
    let store = now(Store::format(former.clone(), small(), opening(1, false))).unwrap();
    now(append(&store, 1)).unwrap();
    let client = Client::connect(location("erasure", &name)).unwrap();
    let store = now(Store::open(client.clone(), opening(2, false))).unwrap();
    assert_eq!(call(|done| store.recover(JournalPos(1), done)).unwrap().len(), 1);
    now(store.measure());
    assert!(store.room().protected > 0, "it learns how full the pool is");
    now(client.fence(&former.instance())).unwrap();
    let object = Name { pool: Pool::Meta, name: "super.0000.0".into() };
    until("the former client is refused", || {
        let step = vec![Step::set("late", "1")];
        now(former.operate(&object, Operation { steps: step, force: false })) == Err(ObjectError::Blocklisted)
    });
    let other = Client::connect(location("small", &name)).unwrap();
    let refused =
        now(other.read(&Name { pool: Pool::Data, name: "x".into() }, 0, 1)).unwrap_err().to_string();
    assert!(refused.contains("allow rwx pool=small"), "{refused}");
    let unknown = Client::connect(Location { id: "unknown".into(), ..location("erasure", &name) });
    assert!(unknown.err().unwrap().to_string().contains("client.unknown"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A client that is dropped while it has operations under way, from any thread.
#[test]
#[ignore = "needs a Ceph cluster: cargo xtask rados"]
fn real_clients_come_and_go_under_load() {
    let ground = replicated();
    for round in 0..20 {
        let client = ground();
        let name = Name { pool: Pool::Meta, name: format!("come-and-go-{round}") };
        let steps = vec![Step::CreateExclusive, Step::Write(0, vec![vec![5; 100_000].into()])];
        now(client.operate(&name, Operation { steps, force: false })).unwrap();
        let reads: Vec<_> = (0..50).map(|at| client.read(&name, at * 1000, 50_000)).collect();
        let last = client.attributes(&name);
        drop(client);
        for read in reads {
            let bytes = now(read).unwrap();
            assert!(bytes.len() == 50_000 && bytes.iter().all(|byte| *byte == 5));
        }
        now(last).unwrap();
    }
}

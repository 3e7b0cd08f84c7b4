//! A witness decides which array of a synchronous replication continues, without an operator.

use crate::replication::{BACK, Pair, demote, pair, promote, show};
use crate::rig::{Rig, Up, first_byte, ok, refused, write};
use crate::synchronous::{
    LONG_SECONDS, Transfers, Writer, alerts, assert_has, is_acknowledged_at_once, set, stamps, synchronous,
    transfers, until, until_so,
};
use array::{
    ChangeRemoteArray, ChangeSettings, CreatePairingKey, CreateReplication, CreateVolume, DeleteRemoteArray,
    DeleteReplication, DeleteVolume, Deletion, Kind, Link, Network, OnLinkLoss, Overwrite, PairRemoteArray,
    PauseReplication, RemoteArrayChange, Replication, ReplicationChange, ReplicationMode, ReplicationState,
    Request, RestoreVolume, ReverseReplication, SettingsChange,
};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const TARGET: &str = "192.0.2.2:8444";
const WITNESS: &str = "192.0.2.3:8444";
const NAME: &str = "site-c";

/// Three arrays: the group of the first is replicated to the second, and both are paired with the third.
struct Trio {
    pair: Pair,
    rig: Rig,
    third: Up,
}

async fn pair_with_witness(rig: &Rig, up: &Up, third: &Up) {
    rig.network.others.lock().unwrap().insert(WITNESS.into(), third.array.clone());
    let key = ok(third, CreatePairingKey).await.key;
    ok(up, PairRemoteArray { name: Some(NAME.into()), address: WITNESS.into(), key }).await;
}

async fn trio() -> Trio {
    let pair = pair().await;
    let rig = Rig::with_serial(0xc);
    let third = rig.up().await;
    *rig.network.port.lock().unwrap() = Some(8444);
    pair_with_witness(&pair.one, &pair.first, &third).await;
    pair_with_witness(&pair.other, &pair.second, &third).await;
    pair.other.network.others.lock().unwrap().insert(BACK.into(), pair.first.array.clone());
    Trio { pair, rig, third }
}

/// Takes one cable of an array away; its connections end.
fn unplug(rig: &Rig, address: &str) {
    let mut others = rig.network.cut();
    others.remove(address);
    rig.network.plug(others);
}

fn plug(rig: &Rig, address: &str, up: &Up) {
    rig.network.others.lock().unwrap().insert(address.into(), up.array.clone());
}

/// What the witness has decided: the session, and which array continues alone.
fn ruling(third: &Up) -> Option<(u64, Option<String>)> {
    let (_, value) = third.engine.records("replication-ruling/").pop()?;
    let kept: serde_json::Value = serde_json::from_slice(&value).unwrap();
    let alone = kept["ruling"]["alone"].as_str().map(str::to_owned);
    Some((kept["ruling"]["session"].as_u64().unwrap(), alone))
}

fn with_witness(witness: Option<&str>) -> ReplicationChange {
    ReplicationChange { witness: Some(witness.map(str::to_owned)), ..ReplicationChange::default() }
}

/// Waits for some more writes. Time passes, so that a session which a slow machine took for silent begins again.
async fn go_on(rig: &Rig, writer: &Writer) {
    let mut going = pin!(writer.go_on());
    loop {
        tokio::select! {
            () = &mut going => return,
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                rig.clock.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Waits until both arrays are in sync and the witness knows it.
async fn until_known(rig: &Rig, up: &Up, third: &Up) {
    until_so(rig, up, |it| {
        let known = it.status.point.map(|point| (point, None));
        it.status.state == ReplicationState::InSync && ruling(third) == known
    })
    .await;
}

/// Three arrays that agree, with what runs on the first and the second.
async fn agreed() -> (Trio, Transfers, Transfers) {
    let trio = trio().await;
    let Pair { one, first, second, .. } = &trio.pair;
    let new =
        CreateReplication { on_link_loss: None, witness: Some(NAME.into()), ..synchronous(OnLinkLoss::Stop) };
    let made = ok(first, new).await;
    assert_eq!((made.on_link_loss, made.witness.as_deref()), (Some(OnLinkLoss::Stop), Some(NAME)));
    let running = (transfers(first), transfers(second));
    until_known(one, first, &trio.third).await;
    assert_eq!(ok(second, show()).await.witness.as_deref(), Some(NAME));
    (trio, running.0, running.1)
}

#[tokio::test]
async fn a_target_goes_on_by_itself_with_everything_acknowledged_when_its_source_is_lost() {
    let (trio, running, _following) = agreed().await;
    let Trio { pair: Pair { one, other, first, second, volumes }, third, rig: _rig } = trio;
    let writer = Writer::start(&first, volumes[0]);
    go_on(&one, &writer).await;
    until_known(&one, &first, &third).await;
    one.network.cut();
    drop(running);
    let acknowledged = writer.end().await;
    first.crash().await;
    let shown = until(&other, &second, ReplicationState::Promoted).await;
    let made: Vec<_> = shown.volumes.iter().map(|volume| volume.promoted.unwrap()).collect();
    assert_has(&stamps(&second, made[0]).await, acknowledged);
    assert_eq!(ruling(&third).unwrap().1.as_deref(), Some("target"));
    write(&second, made[1], 0, 70).await;

    // The source comes back and acknowledges nothing: it hears what has happened, from the array that it reaches first.
    let first = one.up().await;
    assert_eq!(is_acknowledged_at_once(&first, volumes[0]).await, None);
    plug(&one, WITNESS, &third);
    let _running = transfers(&first);
    until(&one, &first, ReplicationState::Demoted).await;
    let refused_write = is_acknowledged_at_once(&first, volumes[0]).await;
    assert_eq!(refused_write, Some(Err(block::Error::ReadOnly)));
    let error = refused(&first, promote(true)).await;
    assert!(error.message.contains("let the target go on"), "{error}");

    plug(&one, TARGET, &second);
    plug(&other, BACK, &first);
    ok(&second, ReverseReplication { name: "prod".into() }).await;
    until_known(&other, &second, &third).await;
    assert_eq!(ok(&second, show()).await.witness.as_deref(), Some(NAME), "it has the same witness");
    ok(&second, demote(false)).await;
    until_so(&one, &first, |it| it.status.state == ReplicationState::Demoted).await;
    ok(&first, promote(false)).await;
    assert_eq!(first_byte(&first, volumes[1], 0).await, 70);
}

#[tokio::test]
async fn a_source_goes_on_alone_with_consent_and_the_target_then_never_does() {
    let (trio, running, _following) = agreed().await;
    let Trio { pair: Pair { one, other, first, second, volumes }, third, rig: _rig } = &trio;
    let writer = Writer::start(first, volumes[0]);
    go_on(one, &writer).await;
    until_known(one, first, third).await;
    unplug(one, TARGET);
    // Step by step: its hosts wait, not longer than a write may.
    while ruling(third).unwrap().1.as_deref() != Some("source") {
        first.array.consult_witnesses().await;
        one.clock.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    writer.go_on().await;
    assert_eq!(ok(first, show()).await.status.state, ReplicationState::OutOfSync);
    other.clock.fetch_add(LONG_SECONDS, Ordering::SeqCst);
    for _ in 0..3 {
        other.clock.fetch_add(LONG_SECONDS, Ordering::SeqCst);
        second.array.consult_witnesses().await;
    }
    assert_ne!(ok(second, show()).await.status.state, ReplicationState::Promoted);

    // It is so after a restart.
    let acknowledged = writer.end().await;
    drop(running);
    let (third_ruling, Trio { pair, rig, third }) = (ruling(third), trio);
    let Pair { one, other, first, second, volumes } = pair;
    first.crash().await;
    third.crash().await;
    let (first, third) = (one.up().await, rig.up().await);
    assert_eq!(ruling(&third), third_ruling);
    assert_has(&stamps(&first, volumes[0]).await, acknowledged);
    write(&first, volumes[1], 0, 71).await;
    for rig in [&one, &other] {
        plug(rig, WITNESS, &third);
    }
    plug(&one, TARGET, &second);
    let _running = transfers(&first);
    until_known(&one, &first, &third).await;
    let writer = Writer::start(&first, volumes[0]);
    go_on(&one, &writer).await;
}

#[tokio::test]
async fn a_source_that_reaches_nobody_stops_while_the_target_goes_on() {
    let (trio, _running, _following) = agreed().await;
    let Trio { pair: Pair { one, other, first, second, volumes }, third, rig: _rig } = &trio;
    let writer = Writer::start(first, volumes[0]);
    go_on(one, &writer).await;
    until_known(one, first, third).await;
    one.network.cut();
    let shown = until(other, second, ReplicationState::Promoted).await;
    let acknowledged = writer.acknowledged();
    one.clock.fetch_add(LONG_SECONDS, Ordering::SeqCst);
    until(one, first, ReplicationState::WritesStopped).await;
    assert_eq!(writer.failed().await, block::Error::Unreplicated);
    let made: Vec<_> = shown.volumes.iter().map(|volume| volume.promoted.unwrap()).collect();
    assert_has(&stamps(second, made[0]).await, acknowledged);
    // By either of both it hears of it.
    plug(one, WITNESS, third);
    until(one, first, ReplicationState::Demoted).await;
}

#[tokio::test]
async fn a_witness_that_lost_its_memory_decides_for_the_next_session() {
    let (trio, _running, _following) = agreed().await;
    let Trio { pair: Pair { one, first, volumes, .. }, third, rig: _rig } = &trio;
    let before = ruling(third).unwrap().0;
    let (key, _) = third.engine.records("replication-ruling/").pop().unwrap();
    third.engine.put_record(&key, None).await.unwrap();
    until_known(one, first, third).await;
    assert!(ruling(third).unwrap().0 > before);
    write(first, volumes[0], 0, 72).await;
}

#[tokio::test]
async fn without_its_witness_a_replication_goes_on_and_an_alert_says_so() {
    let (trio, _running, _following) = agreed().await;
    let Trio { pair: Pair { one, first, second, volumes, .. }, third, rig: _rig } = &trio;
    unplug(one, WITNESS);
    let problem = |it: &Replication| it.status.sync.as_ref().and_then(|sync| sync.witness_problem.clone());
    until_so(one, first, |it| problem(it).is_some_and(|why| why.contains("connection refused"))).await;
    one.clock.fetch_add(LONG_SECONDS, Ordering::SeqCst);
    let [alert] = alerts(first, "replication.witness").await.try_into().unwrap();
    assert!(alert.message.contains("connection refused"), "{alert:?}");
    until(one, first, ReplicationState::InSync).await;
    write(first, volumes[0], 0, 73).await;
    plug(one, WITNESS, third);
    until_so(one, first, |it| problem(it).is_none()).await;
    assert!(alerts(first, "replication.witness").await.is_empty());

    // What lets the source go on alone needs its consent, and else that it is no witness any more.
    unplug(one, WITNESS);
    let pause = || PauseReplication { name: "prod".into() };
    for error in [
        refused(first, pause()).await,
        refused(first, DeleteReplication { name: "prod".into() }).await,
        refused(first, set(ReplicationChange { mode: Some(ReplicationMode::Async), ..Default::default() }))
            .await,
    ] {
        assert!(error.kind == Kind::Precondition && error.message.contains("has to agree"), "{error}");
    }
    let shown = ok(first, set(with_witness(None))).await;
    assert_eq!((shown.witness, shown.on_link_loss), (None, Some(OnLinkLoss::Stop)));
    until(one, first, ReplicationState::InSync).await;
    assert_eq!(ok(second, show()).await.witness, None);
    ok(first, pause()).await;
    write(first, volumes[0], 0, 74).await;
    assert!(ok(first, show()).await.status.sync.unwrap().witness_problem.is_none());
}

#[tokio::test]
async fn the_consent_to_a_pause_is_durable_and_what_a_witness_can_not_be_is_refused() {
    let (trio, _running, _following) = agreed().await;
    let Trio { pair: Pair { one: _one, first, second, volumes, .. }, third, rig: _rig } = &trio;
    for (change, word) in [
        (with_witness(Some("dr")), "third array"),
        (with_witness(Some("unknown")), "unknown"),
        (
            ReplicationChange { on_link_loss: Some(OnLinkLoss::Continue), ..ReplicationChange::default() },
            "take the witness",
        ),
        (
            ReplicationChange { on_link_loss: Some(OnLinkLoss::Continue), ..with_witness(None) },
            "set the witness first",
        ),
    ] {
        let error = refused(first, set(change)).await;
        assert!(error.message.contains(word), "{error}");
    }
    let error = refused(second, set(with_witness(Some(NAME)))).await;
    assert!(error.message.contains("source"), "{error}");
    let delete = DeleteRemoteArray { name: NAME.into() };
    assert!(refused(first, delete).await.message.contains("is the witness of"));
    ok(first, PauseReplication { name: "prod".into() }).await;
    assert_eq!(ruling(third).unwrap().1.as_deref(), Some("source"));
    write(first, volumes[0], 0, 75).await;
    // An array without an address can't be asked.
    let change = RemoteArrayChange { address: Some(None), ..RemoteArrayChange::default() };
    ok(first, ChangeRemoteArray { name: NAME.into(), change }).await;
    ok(first, set(with_witness(None))).await;
    let error = refused(first, set(with_witness(Some(NAME)))).await;
    assert!(error.message.contains("address"), "{error}");
}

/// The source names the target of a replication when it enrolls it. A later request that names one could put another array in its
/// place.
#[tokio::test]
async fn a_witness_takes_the_name_of_a_target_with_an_enrollment_alone() {
    let (trio, _running, _following) = agreed().await;
    let Trio { pair: Pair { one, first, other: _other, .. }, third, rig: _rig } = &trio;
    let kept = || third.engine.records("replication-ruling/").pop().unwrap();
    let (key, before) = kept();
    let number = key.strip_prefix("replication-ruling/").unwrap();
    let session = ruling(third).unwrap().0;
    let own = first.array.link_identity().unwrap().unwrap();
    let ask = async |request: serde_json::Value, target: Option<&str>| {
        let mut rule = serde_json::json!({ "number": number, "request": request });
        target.iter().for_each(|target| rule["target"] = (*target).into());
        let hello = serde_json::json!({
            "versions": [1, 1], "serial": "000000000000000a", "name": "first", "request": { "rule": rule },
        });
        let mut link = one.network.connect(WITNESS.into(), own.clone()).await.unwrap();
        exchange(&mut link, &hello).await
    };
    let foreign = Some("00ff");
    for request in [
        serde_json::json!({ "join": { "session": session + 1 } }),
        serde_json::json!({ "alone": { "session": session, "end": "source" } }),
        serde_json::json!({ "alone": { "session": session, "end": "target" } }),
    ] {
        let said = ask(request.clone(), foreign).await;
        let text = said["refused"]["text"].as_str().unwrap_or_default();
        assert!(text.contains("only the source names a target"), "{request}: {said}");
        assert_eq!(kept(), (key.clone(), before.clone()), "{request}: nothing is decided");
    }
    let enroll = serde_json::json!({ "enroll": { "session": session } });
    let target: serde_json::Value = serde_json::from_slice(&before).unwrap();
    let said = ask(enroll, target["target"].as_str()).await;
    assert_eq!(said["ruled"]["answer"], "granted", "{said}");
    assert_eq!(kept(), (key.clone(), before.clone()));
}

/// A message of a link and the response: JSON after its length.
pub async fn exchange(link: &mut Link, message: &serde_json::Value) -> serde_json::Value {
    let bytes = serde_json::to_vec(message).unwrap();
    link.stream.write_all(&(bytes.len() as u32).to_le_bytes()).await.unwrap();
    link.stream.write_all(&bytes).await.unwrap();
    let mut length = [0; 4];
    link.stream.read_exact(&mut length).await.unwrap();
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    link.stream.read_exact(&mut bytes).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Witnesses are asked at once: one that does not respond holds up no other one.
#[tokio::test]
async fn witnesses_do_not_wait_for_each_other() {
    const OTHER_WITNESS: &str = "192.0.2.4:8444";
    let Trio { pair: Pair { one, first, .. }, .. } = &trio().await;
    let rig = Rig::with_serial(0xd);
    let fourth = rig.up().await;
    *rig.network.port.lock().unwrap() = Some(8444);
    one.network.others.lock().unwrap().insert(OTHER_WITNESS.into(), fourth.array.clone());
    let key = ok(&fourth, CreatePairingKey).await.key;
    ok(first, PairRemoteArray { name: Some("site-d".into()), address: OTHER_WITNESS.into(), key }).await;
    for (name, witness) in [("one", NAME), ("two", NAME), ("three", "site-d")] {
        let new = CreateVolume {
            name: name.into(),
            bytes: 8 << 20,
            block_bytes: 512,
            group: None,
            ..CreateVolume::default()
        };
        ok(first, new).await;
        let new = CreateReplication {
            name: name.into(),
            group: None,
            volume: Some(name.into()),
            on_link_loss: None,
            witness: Some(witness.into()),
            ..synchronous(OnLinkLoss::Stop)
        };
        ok(first, new).await;
    }
    *one.network.silent.lock().unwrap() = true;
    let mut asking = pin!(first.array.consult_witnesses());
    while one.network.waiting.load(Ordering::SeqCst) < 2 {
        tokio::select! {
            () = &mut asking => panic!("one was asked after the other"),
            () = one.network.asked.notified() => {}
        }
    }
    asking.await;
}

/// A witness that does not respond is waited for, and no other change with it.
#[tokio::test]
async fn changes_do_not_wait_for_a_witness_that_does_not_respond() {
    let (trio, _running, _following) = agreed().await;
    let Pair { one, other, first, second, .. } = &trio.pair;
    for rig in [one, other] {
        *rig.network.silent.lock().unwrap() = true;
    }
    let asked = || one.network.asked.notified();
    goes_on_beside(first, PauseReplication { name: "prod".into() }, asked()).await;
    goes_on_beside(first, DeleteReplication { name: "prod".into() }, asked()).await;
    goes_on_beside(second, promote(true), other.network.asked.notified()).await;
}

/// Likewise for what makes the content of a volume another one, and the volumes of a group others. Nothing of it takes place without
/// the consent.
#[tokio::test]
async fn changes_do_not_wait_for_a_witness_that_a_restore_an_eradication_or_another_group_needs() {
    let (trio, _running, _following) = agreed().await;
    let Trio { pair: Pair { one, first, volumes, .. }, third, .. } = &trio;
    let new = |name: &str, group: Option<&str>| CreateVolume {
        name: name.into(),
        bytes: 8 << 20,
        block_bytes: 512,
        group: group.map(str::to_owned),
        ..CreateVolume::default()
    };
    ok(first, new("other", None)).await;
    *one.network.silent.lock().unwrap() = true;
    let asked = || one.network.asked.notified();
    let change = Overwrite { source: "other".into(), ..Overwrite::default() };
    goes_on_beside(first, RestoreVolume { name: "data".into(), change }, asked()).await;
    let how = Deletion { eradicate: true };
    goes_on_beside(first, DeleteVolume { name: "log".into(), how }, asked()).await;
    ok(first, new("late", Some("app"))).await;
    asked().await;
    ok(first, new("later", None)).await;
    assert_eq!(ruling(third).unwrap().1, None, "neither array has consent");
    for (volume, byte) in volumes.iter().zip([1, 2]) {
        assert_eq!(first_byte(first, *volume, 0).await, byte);
    }
}

/// Without a witness, a target that does not respond is not waited for at all.
#[tokio::test]
async fn a_restore_and_an_eradication_do_not_wait_for_a_target_that_does_not_respond() {
    let Pair { one, first, second, volumes, .. } = &pair().await;
    let (_running, _following) = (transfers(first), transfers(second));
    ok(first, synchronous(OnLinkLoss::Stop)).await;
    until(one, first, ReplicationState::InSync).await;
    one.network.frozen.store(true, Ordering::SeqCst);
    let change = Overwrite { source: "log".into(), ..Overwrite::default() };
    ok(first, RestoreVolume { name: "data".into(), change }).await;
    assert_eq!(first_byte(first, volumes[0], 0).await, 2);
    ok(first, DeleteVolume { name: "log".into(), how: Deletion { eradicate: true } }).await;
    assert_ne!(ok(first, show()).await.status.state, ReplicationState::InSync);
}

/// A target that does not respond is waited for by a demotion, and no other change with it.
#[tokio::test]
async fn changes_do_not_wait_for_a_demotion() {
    let (trio, _running, _following) = agreed().await;
    let Pair { one, first, volumes, .. } = &trio.pair;
    let writer = Writer::start(first, volumes[0]);
    writer.go_on().await;
    one.network.frozen.store(true, Ordering::SeqCst);
    goes_on_beside(first, demote(false), std::future::ready(())).await;
}

/// Renames the array while a request waits for an array that does not respond, once this has been asked.
async fn goes_on_beside<R: Request>(up: &Up, request: R, asked: impl Future<Output = ()>) {
    let mut waiting = pin!(up.perform(request));
    let renamed = async {
        asked.await;
        let change = SettingsChange { name: Some("main".into()), ..SettingsChange::default() };
        ok(up, ChangeSettings { change }).await
    };
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("the change waited for it"),
        _ = renamed => {}
    }
}

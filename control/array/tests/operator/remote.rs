//! Pairing of two arrays, and what each knows of the other afterwards.

use crate::rig::{Rig, Up, ok, refused};
use array::{
    ChangeRemoteArray, ChangeSettings, CreatePairingKey, DeleteRemoteArray, Kind, LinkState,
    ListRemoteArrays, PairRemoteArray, RemoteArrayChange, Secret, SettingsChange, ShowRemoteArray,
};
use std::pin::pin;

const ADDRESS: &str = "192.0.2.2:8444";

/// Two arrays, of which the second listens, and the first knows where.
async fn pair_of_arrays() -> (Rig, Up, Rig, Up) {
    let (one, other) = (Rig::with_serial(0xa), Rig::with_serial(0xb));
    let (first, second) = (one.up().await, other.up().await);
    *other.network.port.lock().unwrap() = Some(8444);
    one.network.others.lock().unwrap().insert(ADDRESS.into(), second.array.clone());
    ok(
        &second,
        ChangeSettings { change: SettingsChange { name: Some("dr".into()), ..SettingsChange::default() } },
    )
    .await;
    (one, first, other, second)
}

fn pairing(key: &Secret) -> PairRemoteArray {
    PairRemoteArray { name: None, address: ADDRESS.into(), key: key.clone() }
}

#[tokio::test]
async fn two_arrays_are_paired_by_a_key_that_works_once() {
    let (one, first, other, second) = pair_of_arrays().await;
    let key = ok(&second, CreatePairingKey).await;
    assert_eq!(key.port, 8444);
    let wrong = Secret::new("0011-2233-4455-6677-8899-aabb-ccdd-eeff");
    let said = refused(&first, pairing(&wrong)).await;
    assert!(said.message.contains("wrong, was used, or has expired"), "{said}");
    assert_eq!(refused(&first, pairing(&Secret::new("0011"))).await.kind, Kind::Invalid);

    let there = ok(&first, pairing(&key.key)).await;
    assert_eq!(
        (&*there.name, &*there.serial, there.address.as_deref()),
        ("dr", "000000000000000b", Some(ADDRESS))
    );
    assert_eq!(there.link.state, LinkState::Connected);
    let back = ok(&second, ListRemoteArrays).await.remove(0);
    // The first array does not listen.
    assert_eq!((&*back.name, &*back.serial, back.address), ("test", "000000000000000a", None));
    assert_eq!(back.link.state, LinkState::Connected);

    // The key was used, and the arrays know each other.
    ok(&first, DeleteRemoteArray { name: "dr".into() }).await;
    assert!(refused(&first, pairing(&key.key)).await.message.contains("was used"));
    let key = ok(&second, CreatePairingKey).await;
    let said = refused(&first, pairing(&key.key)).await;
    assert!(said.message.contains("paired already, as \"test\""), "{said}");
    ok(&second, DeleteRemoteArray { name: "test".into() }).await;
    let key = ok(&second, CreatePairingKey).await;
    let named = PairRemoteArray { name: Some("site-b".into()), ..pairing(&key.key) };
    ok(&first, named).await;

    // Both are there after a restart, with their secrets.
    one.network.others.lock().unwrap().clear();
    first.crash().await;
    second.crash().await;
    let (first, second) = (one.up().await, other.up().await);
    let there = ok(&first, ShowRemoteArray { name: "site-b".into() }).await;
    assert_eq!((there.link.state, there.link.last), (LinkState::Unknown, None));
    assert_eq!(ok(&second, ListRemoteArrays).await.len(), 1);
}

#[tokio::test]
async fn somebody_between_the_arrays_can_not_pair() {
    let (one, first, _other, second) = pair_of_arrays().await;
    let key = ok(&second, CreatePairingKey).await;
    *one.network.intercepted.lock().unwrap() = true;
    refused(&first, pairing(&key.key)).await;
    assert!(ok(&first, ListRemoteArrays).await.is_empty());
    assert!(ok(&second, ListRemoteArrays).await.is_empty());
    // The attempt has not used up the key.
    *one.network.intercepted.lock().unwrap() = false;
    ok(&first, pairing(&key.key)).await;
}

#[tokio::test]
async fn an_array_is_not_paired_with_itself() {
    let rig = Rig::new();
    let up = rig.up().await;
    assert!(refused(&up, CreatePairingKey).await.message.contains("does not listen"));
    *rig.network.port.lock().unwrap() = Some(8444);
    rig.network.others.lock().unwrap().insert(ADDRESS.into(), up.array.clone());
    let key = ok(&up, CreatePairingKey).await;
    let said = refused(&up, pairing(&key.key)).await;
    assert!(said.message.contains("with itself"), "{said}");
    rig.network.others.lock().unwrap().clear();
    let said = refused(&up, pairing(&key.key)).await;
    assert!(said.message.contains("connection refused"), "{said}");
}

#[tokio::test]
async fn links_are_watched() {
    let (one, first, _other, second) = pair_of_arrays().await;
    let key = ok(&second, CreatePairingKey).await;
    ok(&first, pairing(&key.key)).await;
    let state = async || ok(&first, ShowRemoteArray { name: "dr".into() }).await.link;
    first.array.examine_links().await;
    assert_eq!(state().await.state, LinkState::Connected);
    assert!(state().await.rtt_us.is_some());

    // The other array does not know this one any more.
    ok(&second, DeleteRemoteArray { name: "test".into() }).await;
    first.array.examine_links().await;
    let link = state().await;
    assert_eq!(link.state, LinkState::Disconnected);
    assert!(link.problem.unwrap().contains("not paired with this array any more"));

    // Another array has taken its address.
    let taker = Rig::with_serial(0xc);
    let third = taker.up().await;
    *taker.network.port.lock().unwrap() = Some(8444);
    ok(&third, CreatePairingKey).await;
    one.network.others.lock().unwrap().insert(ADDRESS.into(), third.array.clone());
    first.array.examine_links().await;
    assert!(state().await.problem.unwrap().contains("is another array"));

    let change = |address: Option<&str>| ChangeRemoteArray {
        name: "dr".into(),
        change: RemoteArrayChange {
            address: Some(address.map(str::to_owned)),
            ..RemoteArrayChange::default()
        },
    };
    for wrong in ["10.0.0.2", ":1", "10.0.0.2:0", "10.0.0.2:70000", "a b:1"] {
        assert_eq!(refused(&first, change(Some(wrong))).await.kind, Kind::Invalid, "{wrong}");
    }
    assert_eq!(ok(&first, change(None)).await.address, None);
}

/// An array that does not respond is waited for, and no other change with it.
#[tokio::test]
async fn changes_do_not_wait_for_an_array_that_does_not_respond() {
    let (one, first, _other, second) = pair_of_arrays().await;
    let key = ok(&second, CreatePairingKey).await;
    *one.network.silent.lock().unwrap() = true;
    let mut pairing = pin!(first.perform(pairing(&key.key)));
    let renamed = async {
        one.network.asked.notified().await;
        ok(
            &first,
            ChangeSettings {
                change: SettingsChange { name: Some("main".into()), ..SettingsChange::default() },
            },
        )
        .await
    };
    tokio::select! {
        said = &mut pairing => panic!("the change waited for it: {said:?}"),
        _ = renamed => {}
    }
}

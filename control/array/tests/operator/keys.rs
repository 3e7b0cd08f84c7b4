//! The key of the drives, changed while the array serves.

use crate::rig::Rig;
use array::{
    Caller, CreateVolume, Encryption, Key, Kind, ListAudit, Request, Role, RotateKey, Secret, ShowKey,
    ShowVolume,
};
use std::sync::atomic::Ordering;

async fn key<R: Request<Answer = Key>>(up: &crate::rig::Up, action: R) -> Key {
    up.perform(action).await.unwrap()
}

#[tokio::test]
async fn the_key_is_changed_while_the_array_serves_and_that_is_audited() {
    let rig = Rig::encrypted();
    let up = rig.up().await;
    let before = key(&up, ShowKey).await;
    assert_eq!((before.source, before.generation), (Encryption::File, Some(1)));
    let create =
        CreateVolume { name: "db1".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() };
    up.perform(create).await.unwrap();
    let after = key(&up, RotateKey::default()).await;
    assert_eq!((after.source, after.generation), (Encryption::File, Some(2)));
    assert_eq!(rig.machine.kept_keys.load(Ordering::SeqCst), 1);
    let audit = up.perform(ListAudit { limit: Some(1), ..ListAudit::default() }).await.unwrap();
    let text = format!("{:?}", audit[0]);
    assert!(text.contains("RotateKey") && text.contains("generation"), "{text}");
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(key(&up, ShowKey).await, after);
    up.perform(ShowVolume { name: "db1".into() }).await.unwrap();
}

#[tokio::test]
async fn a_key_of_another_kind_is_refused_and_a_secret_is_in_no_log() {
    let rig = Rig::encrypted();
    let up = rig.up().await;
    let words = RotateKey { passphrase: Some(Secret::new("correct horse battery")), ..RotateKey::default() };
    let refused = up.perform(words).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Precondition);
    assert!(!refused.message.contains("horse"), "{refused}");
    let audit = up.perform(ListAudit { limit: Some(1), ..ListAudit::default() }).await.unwrap();
    assert!(!format!("{audit:?}").contains("horse"));
    assert_eq!(key(&up, ShowKey).await.generation, Some(1));
    let operator = Caller { role: Role::Operator, ..Caller::array() };
    let refused = up.array.perform(&operator, RotateKey::default()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Forbidden);
}

#[tokio::test]
async fn drives_that_hold_everything_in_clear_have_no_key_to_change() {
    let rig = Rig::new();
    let up = rig.up().await;
    assert_eq!(key(&up, ShowKey).await, Key { source: Encryption::None, generation: None, kmip_id: None });
    let refused = up.perform(RotateKey::default()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Precondition);
}

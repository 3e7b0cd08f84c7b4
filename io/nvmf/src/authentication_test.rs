//! DH-HMAC-CHAP against a host that this file implements from the text of the standard.

use crate::authentication::Credentials;
use crate::authentication::group::{EXPONENT_BYTES, Exponent, Group};
use crate::authentication::secret::{DhchapSecret, NotASecret};
use crate::hostile_test::queue_work;
use crate::lab_test::*;
use crate::observer::{ConnectObserver, ConnectRefusal, RefusedConnect};
use crate::spec::DISCOVERY_NQN;
use crate::subsystem::HostSecurity;
use aws_lc_rs::{digest, hmac};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Secrets as nvme-cli 2.3 made them.
const PLAIN: &str = "DHHC-1:00:tzuO87X781NTu5c9pT+yk2K4rC3xzh0G3gcVObMwF1hNWq/J:";
pub(crate) const OF_HOST: &str = "DHHC-1:01:nhr7JP2NMnF+O+sHDpADH7X4X92Mro645HWZ341f6zLhtuL4:";
const OTHER_SECRET: &str =
    "DHHC-1:02:dgS7ayLmxnJA2hvQkL8Bheh+ts0pEOy+5brWzrrsNSF1TeCS32FpwcSNNUzC5MbLX/3hmg==:";
const OF_ARRAY: &str =
    "DHHC-1:03:pOFsH1r9LQpkL7RCEzMIZXP3BfuXOYPwC9UgKXzt+RmM9WHfvrEGNw4K7mAXutAiF+B7hs+nl+crqO7rdPF3OhNSW7U=:";

const SHA256: u8 = 1;
const SHA384: u8 = 2;
const SHA512: u8 = 3;
const REQUIRED: u16 = 0x191;
const INVALID_FIELD: u16 = 0x002;

#[test]
fn secrets_have_the_text_form_of_nvme_cli() {
    for text in [PLAIN, OF_HOST, OTHER_SECRET, OF_ARRAY] {
        DhchapSecret::parse(text).unwrap();
    }
    let plain = DhchapSecret::parse(PLAIN).unwrap();
    let same_as_sha256 = DhchapSecret::parse(&PLAIN.replace(":00:", ":01:")).unwrap();
    assert!(plain != same_as_sha256 && plain.is_same_key(&same_as_sha256));
    assert!(!plain.is_same_key(&DhchapSecret::parse(OF_HOST).unwrap()));
    assert_eq!(format!("{plain:?}"), "DhchapSecret(…)");
    for (wrong, why) in [
        ("", NotASecret::Form),
        ("secret", NotASecret::Form),
        (&OF_HOST[..OF_HOST.len() - 1], NotASecret::Form),
        (&OF_HOST.replace("DHHC-1", "DHHC-2"), NotASecret::Form),
        (&OF_HOST.replace(":01:", ":1:"), NotASecret::Hash),
        (&OF_HOST.replace(":01:", ":04:"), NotASecret::Hash),
        (&OF_HOST.replace(":01:", ":02:"), NotASecret::Length),
        ("DHHC-1:00:AAAA:", NotASecret::Length),
        ("DHHC-1:00::", NotASecret::Length),
        ("DHHC-1:00:%%%%:", NotASecret::Form),
        (&OF_HOST.replace("nhr7", "nhr8"), NotASecret::Crc),
    ] {
        assert_eq!(DhchapSecret::parse(wrong).unwrap_err(), why, "{wrong}");
    }
}

#[test]
fn groups_are_those_of_rfc_7919() {
    // SHA-256 of 2^x mod p, and of that to the power of x, computed with Python for x = 0102…30h, and 0102…38h with
    // 8192 bits. The bytes before x do not belong to the exponent.
    for (group, length, public, shared) in [
        (
            Group::Ffdhe2048,
            48,
            "3e77339b97ec6440594ea41992dd8742f102f220cefadd0832d131a8fedcc1c1",
            "42611b179ba7c68348f71e5972a81880eac82586e53b931a3ca18de16d098412",
        ),
        (
            Group::Ffdhe3072,
            48,
            "6d3aec5998403220d1fc3c75f749bafc179616c891ea4a7d17eecfcacf8269e9",
            "5ed56c2aacddfa3a38bfc08856cc7f1ccbf2a50a07545cac32b8aaa843839ecc",
        ),
        (
            Group::Ffdhe4096,
            48,
            "863b6f6eda7e7b9a65a1589bd51e601ce3ea81edc82888c30a13b2cd3ae90298",
            "f5ddd3be43eeaff0e68f590b1e825ffec22726f6d1378e83f0b7d2229dfdbbcb",
        ),
        (
            Group::Ffdhe6144,
            48,
            "e5399ad5c7e68ac67e5760de3eb7b14322a56fdaf1a3771922b707393e951e7f",
            "adc77e4dc462aee56083421ffea306aeb2d103c8678ee8691e6aeaf8d04a77c6",
        ),
        (
            Group::Ffdhe8192,
            56,
            "0ecefa35bd91aa41e336cbd6c082e484b8ec1743b382ac5c9978b4c67643fb3f",
            "8cf525dbe12c420c166946166659cef7ce282528b5a161e9758cd1bb50913f5e",
        ),
    ] {
        let mut exponent = Exponent::new([0xEE; EXPONENT_BYTES]);
        exponent[EXPONENT_BYTES - length..].iter_mut().zip(1..).for_each(|(byte, value)| *byte = value);
        let value = group.public(&exponent);
        assert_eq!(value.len(), group.bytes());
        assert_eq!(hex(&value), public, "{group:?}");
        assert_eq!(hex(&group.shared(&exponent, &value).unwrap()), shared, "{group:?}");
        // 0, 1, p - 1, p, and values of the wrong length.
        let bytes = group.bytes();
        let (mut one, mut last) = (vec![0; bytes], group.public(&Exponent::new([0; EXPONENT_BYTES])));
        assert_eq!((one[bytes - 1], last[bytes - 1]), (0, 1), "2^0");
        assert_eq!(group.shared(&exponent, &one), None);
        assert_eq!(group.shared(&exponent, &last), None);
        one.push(2);
        assert_eq!(group.shared(&exponent, &one), None);
        last.fill(0xFF);
        assert_eq!(group.shared(&exponent, &last), None);
        assert_eq!(group.shared(&exponent, &[2]), None);
    }
}

fn hex(bytes: &[u8]) -> String {
    digest::digest(&digest::SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reports that the observer received.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<String>>);

impl Seen {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl ConnectObserver for Seen {
    fn connected(&self, _: &str, _: SocketAddr, _: u16) {
        self.0.lock().push("connected".into());
    }
    fn disconnected(&self, _: &str, _: SocketAddr, _: u16, _: &str) {
        self.0.lock().push("disconnected".into());
    }
    fn refused(&self, refused: &RefusedConnect) {
        assert!(refused.host.is_some());
        self.0.lock().push(refused.cause.kind().into());
    }
}

fn secret(text: &str) -> DhchapSecret {
    DhchapSecret::parse(text).unwrap()
}

fn with_secrets(host: &str, controller: Option<&str>) -> HostSecurity {
    let credentials = Credentials { host: secret(host), controller: controller.map(secret) };
    HostSecurity { dhchap: Some(Arc::new(credentials)), ..HostSecurity::default() }
}

/// A world in which the first host has to authenticate, and its observer.
pub(crate) fn world(host: &str, controller: Option<&str>) -> (World, Arc<Seen>) {
    let world = World::new();
    let hosts =
        [(HOST.to_owned(), with_secrets(host, controller)), (OTHER.to_owned(), HostSecurity::default())];
    world.subsystem.set_hosts(hosts.into());
    let seen = Arc::<Seen>::default();
    world.subsystem.observe(seen.clone());
    (world, seen)
}

/// The host's side.
struct Side<'a> {
    /// Secrets of the host and of the array.
    secret: &'a str,
    of_array: Option<&'a str>,
    hash: u8,
    group: Group,
    transaction: u16,
    /// Data go by R2T instead of in the capsule.
    requested: bool,
    /// The host does not confirm the controller's response.
    leaves: bool,
    /// The host's challenge is the controller's.
    reflects: bool,
}

impl Default for Side<'_> {
    fn default() -> Self {
        let (secret, of_array) = (OF_HOST, None);
        let (requested, leaves, reflects) = (false, false, false);
        Side {
            secret,
            of_array,
            hash: SHA256,
            group: Group::Null,
            transaction: 7,
            requested,
            leaves,
            reflects,
        }
    }
}

/// Kind of a message from the controller.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Success,
    /// The response of the controller was right, or wrong.
    Mutual(bool),
    /// With its explanation.
    Failure(u8),
}

fn auth_send(message: &[u8], in_capsule: bool) -> Cmd {
    let length = message.len() as u32;
    Cmd::new(0x7F, 5).dword(10, 0xE901_0100).dword(11, length).out(message.to_vec(), in_capsule)
}

fn auth_receive(bytes: u32) -> Cmd {
    Cmd::new(0x7F, 6).dword(10, 0xE901_0100).dword(11, bytes).wants(bytes)
}

fn message(kind: u8, id: u8, transaction: u16, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    (out[0], out[1]) = (kind, id);
    out[4..6].copy_from_slice(&transaction.to_le_bytes());
    out
}

fn negotiate(transaction: u16, hashes: &[u8], groups: &[u8]) -> Vec<u8> {
    let mut out = message(0, 0, transaction, 8 + 64);
    (out[7], out[8], out[10], out[11]) = (1, 1, hashes.len() as u8, groups.len() as u8);
    out[12..12 + hashes.len()].copy_from_slice(hashes);
    out[42..42 + groups.len()].copy_from_slice(groups);
    out
}

fn mac(hash: u8, key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let algorithm = [hmac::HMAC_SHA256, hmac::HMAC_SHA384, hmac::HMAC_SHA512][usize::from(hash - 1)];
    hmac::sign(&hmac::Key::new(algorithm, key), bytes).as_ref().to_vec()
}

/// The key of a secret: its base 64 without the CRC, and the HMAC of the NQN with the hash function that it names.
fn key(text: &str, nqn: &str) -> Vec<u8> {
    use base64::Engine;
    let parts: Vec<&str> = text.split(':').collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(parts[2]).unwrap();
    let key = &bytes[..bytes.len() - 4];
    match parts[1].parse().unwrap() {
        0 => key.to_vec(),
        hash => mac(hash, key, format!("{nqn}NVMe-over-Fabrics").as_bytes()),
    }
}

impl Side<'_> {
    fn send(&self, host: &mut Host, message: &[u8]) {
        assert_eq!(host.run(auth_send(message, !self.requested)).status, 0);
    }

    /// A response to a challenge, by the text of the standard.
    fn response(&self, key: &[u8], challenge: &[u8], number: u32, shared: &[u8], names: &str) -> Vec<u8> {
        let mut bytes = match self.group {
            Group::Null => challenge.to_vec(),
            _ => {
                let digests = [&digest::SHA256, &digest::SHA384, &digest::SHA512];
                let hashed = digest::digest(digests[usize::from(self.hash - 1)], shared);
                mac(self.hash, hashed.as_ref(), challenge)
            }
        };
        bytes.extend(number.to_le_bytes());
        bytes.extend(self.transaction.to_le_bytes());
        bytes.push(0);
        bytes.extend(names.as_bytes());
        mac(self.hash, key, &bytes)
    }

    fn authenticate(&self, host: &mut Host) -> Answer {
        self.send(host, &negotiate(self.transaction, &[self.hash], &[self.group as u8]));
        let challenge = host.run(auth_receive(4096)).data;
        assert_eq!(challenge.len(), 4096, "all bytes are transferred");
        assert_eq!(challenge[..6], message(1, 1, self.transaction, 6));
        let (length, public) =
            (usize::from(challenge[6]), usize::from(u16::from_le_bytes([challenge[10], challenge[11]])));
        assert_eq!((challenge[8], challenge[9], public), (self.hash, self.group as u8, self.group.bytes()));
        let number = u32::from_le_bytes(challenge[12..16].try_into().unwrap());
        let (ours, theirs) = challenge[16..].split_at(length);
        let exponent = Exponent::new([0x5A; EXPONENT_BYTES]);
        let shared = self.group.shared(&exponent, &theirs[..public]).unwrap();
        let names = format!("HostHost{HOST}\0{SUBSYSTEM}");
        let response = self.response(&key(self.secret, HOST), ours, number, &shared, &names);
        let mut reply = message(1, 2, self.transaction, 16);
        (reply[6], reply[8]) = (length as u8, self.of_array.is_some().into());
        reply[10..12].copy_from_slice(&(public as u16).to_le_bytes());
        reply[12..16].copy_from_slice(&99_u32.to_le_bytes());
        reply.extend(&response);
        let own = if self.reflects { ours.to_vec() } else { vec![0xC2; length] };
        reply.extend(&own);
        reply.extend(self.group.public(&exponent));
        self.send(host, &reply);
        let verdict = host.run(auth_receive(4096)).data;
        assert_eq!(verdict[4..6], self.transaction.to_le_bytes());
        match (verdict[0], verdict[1]) {
            (1, 3) if verdict[8] == 0 => Answer::Success,
            (1, 3) => {
                let array = key(self.of_array.unwrap(), SUBSYSTEM);
                let names = format!("Controller{SUBSYSTEM}\0{HOST}");
                let right = self.response(&array, &own, 99, &shared, &names);
                let is_right = verdict[16..16 + length] == right;
                let last = if is_right { message(1, 4, self.transaction, 16) } else { self.failure2() };
                if !self.leaves {
                    self.send(host, &last);
                }
                Answer::Mutual(is_right)
            }
            (0, 0xF1) => Answer::Failure(verdict[7]),
            other => panic!("{other:?}"),
        }
    }

    fn failure2(&self) -> Vec<u8> {
        let mut out = message(0, 0xF0, self.transaction, 16);
        (out[6], out[7]) = (1, 1);
        out
    }
}

/// An admin queue whose Connect said that the host has to authenticate.
pub(crate) fn admin(world: &World) -> (Host, u16) {
    let mut host = world.open();
    host.initialize((false, false));
    let end = host.run(connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32));
    assert_eq!((end.status, end.result >> 16), (0, 2), "ATR, without ASCR");
    (host, end.result as u16)
}

#[test]
fn a_host_that_knows_the_secret_is_served_on_every_queue_that_it_authenticates() {
    for (hash, group, text) in [
        (SHA256, Group::Null, OF_HOST),
        (SHA384, Group::Ffdhe2048, PLAIN),
        (SHA512, Group::Ffdhe3072, OTHER_SECRET),
        (SHA256, Group::Ffdhe4096, OF_ARRAY),
        (SHA384, Group::Ffdhe6144, OF_HOST),
        (SHA512, Group::Ffdhe8192, OF_ARRAY),
    ] {
        let (world, seen) = world(text, None);
        let (mut host, id) = admin(&world);
        assert_eq!(host.run(property_get(0x00, true)).status, REQUIRED);
        assert_eq!(host.run(identify(1, 0)).status, REQUIRED);
        assert!(host.connection.host().is_none() && seen.take().is_empty());
        assert!(world.subsystem.controllers().is_empty(), "no host is connected");
        let side =
            Side { hash, group, secret: text, requested: group == Group::Ffdhe2048, ..Side::default() };
        assert_eq!(side.authenticate(&mut host), Answer::Success, "{group:?}");
        assert_eq!(seen.take(), ["connected"]);
        assert_eq!(host.connection.host(), Some(HOST));
        assert_eq!(world.subsystem.controllers().len(), 1);
        assert_eq!(host.run(property_set(0x14, 0x0046_0001)).status, 0);

        let mut io = world.open();
        io.initialize((true, true));
        io.connect(HOST, SUBSYSTEM, 1, id, 128).unwrap();
        assert_eq!(io.run(read(1, 0, 1)).status, REQUIRED, "each queue by itself");
        assert_eq!(io.run(write(1, 0, vec![1; BLOCK], true)).status, REQUIRED);
        assert_eq!(io.run(write(1, 0, vec![1; BLOCK], false)).status, REQUIRED, "no data are requested");
        assert_eq!(side.authenticate(&mut io), Answer::Success);
        assert_eq!(io.run(write(1, 0, vec![1; BLOCK], true)).status, 0);
        assert_eq!(io.run(read(1, 0, 1)).data, vec![1; BLOCK]);
        // Reauthentication, while the queue is in use.
        let again = Side { transaction: 8, ..side };
        assert_eq!(again.authenticate(&mut io), Answer::Success);
        assert_eq!(io.run(read(1, 0, 1)).data, vec![1; BLOCK]);
        assert!(seen.take().is_empty());
        drop((io, host));
        assert_eq!(seen.take(), ["disconnected"]);
    }
}

#[test]
fn the_groups_that_take_long_are_for_hosts_that_offer_no_smaller_one() {
    for (offered, taken) in [
        (&[0, 1, 2, 3, 4, 5][..], Group::Ffdhe3072),
        (&[5, 4, 3], Group::Ffdhe4096),
        (&[5, 1], Group::Ffdhe2048),
        (&[5, 4, 0], Group::Ffdhe6144),
        (&[0, 5, 9], Group::Ffdhe8192),
        (&[0], Group::Null),
    ] {
        let (world, _) = world(OF_HOST, None);
        let (mut host, _) = admin(&world);
        Side::default().send(&mut host, &negotiate(7, &[SHA256], offered));
        assert_eq!(host.run(auth_receive(4096)).data[9], taken as u8, "{offered:?}");
    }
}

#[test]
fn the_array_proves_who_it_is_if_it_is_asked() {
    let (world, seen) = world(OF_HOST, Some(OF_ARRAY));
    for group in [Group::Null, Group::Ffdhe3072] {
        let (mut host, _) = admin(&world);
        let side = Side { group, of_array: Some(OF_ARRAY), ..Side::default() };
        assert_eq!(side.authenticate(&mut host), Answer::Mutual(true), "{group:?}");
        assert_eq!(host.run(property_get(0x00, true)).status, 0);
    }
    seen.take();
    // A host that does not authenticate the array is served as well.
    let (mut host, _) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut host), Answer::Success);
    drop(host);
    seen.take();
    // A host with another secret for the array disconnects.
    let (mut host, _) = admin(&world);
    let side = Side { of_array: Some(OTHER_SECRET), ..Side::default() };
    assert_eq!(side.authenticate(&mut host), Answer::Mutual(false));
    assert!(host.connection.ended().is_some());
    assert_eq!(seen.take(), [ConnectRefusal::DhchapControllerRefused.kind()]);
    // Linux disconnects without sending Failure2.
    let (mut host, _) = admin(&world);
    let side = Side { of_array: Some(OTHER_SECRET), leaves: true, ..Side::default() };
    assert_eq!(side.authenticate(&mut host), Answer::Mutual(false));
    assert_eq!(host.connection.ended(), None);
    drop(host);
    assert_eq!(seen.take(), [ConnectRefusal::DhchapControllerRefused.kind()]);
}

/// A response to the controller's own challenge would be that which another host of the same secret needs.
#[test]
fn the_challenge_of_the_array_is_not_reflected() {
    let (world, seen) = world(OF_HOST, Some(OF_ARRAY));
    let (mut host, _) = admin(&world);
    let side = Side { of_array: Some(OF_ARRAY), reflects: true, ..Side::default() };
    assert_eq!(side.authenticate(&mut host), Answer::Failure(1));
    assert_eq!(seen.take(), [ConnectRefusal::DhchapControllerRefused.kind()]);
}

#[test]
fn a_confirmation_is_of_the_same_transaction() {
    let (world, _) = world(OF_HOST, Some(OF_ARRAY));
    let (mut host, _) = admin(&world);
    let side = Side { of_array: Some(OF_ARRAY), leaves: true, ..Side::default() };
    assert_eq!(side.authenticate(&mut host), Answer::Mutual(true));
    side.send(&mut host, &message(1, 4, 8, 16));
    assert_eq!(host.run(auth_receive(16)).data[7], 6);
    assert!(host.connection.ended().is_some() && world.subsystem.controllers().is_empty());
}

#[test]
fn a_wrong_secret_ends_the_queue() {
    for (text, of_array, cause) in [
        (OTHER_SECRET, None, "wrong-dhchap-secret"),
        // The same key under another hash function is another secret.
        (PLAIN, None, "wrong-dhchap-secret"),
        // The host asks the array for a response, and no secret is configured for it.
        (OF_HOST, Some(OF_ARRAY), "dhchap-controller-refused"),
    ] {
        let (world, seen) = world(OF_HOST, None);
        let (mut host, _) = admin(&world);
        let side = Side { secret: text, of_array, group: Group::Ffdhe2048, ..Side::default() };
        assert_eq!(side.authenticate(&mut host), Answer::Failure(1));
        assert_eq!(host.connection.ended(), Some("the authentication failed"));
        assert_eq!(seen.take(), [cause]);
        assert!(world.subsystem.controllers().is_empty());
    }
    // A failed reauthentication ends the queue as well.
    let (world, seen) = world(OF_HOST, None);
    let (mut host, _) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut host), Answer::Success);
    assert_eq!(Side { secret: PLAIN, ..Side::default() }.authenticate(&mut host), Answer::Failure(1));
    assert!(host.connection.ended().is_some());
    assert_eq!(seen.take(), ["connected", "wrong-dhchap-secret", "disconnected"]);
}

#[test]
fn what_can_not_be_used_is_refused_with_its_explanation() {
    let side = Side::default();
    let mut concatenation = negotiate(7, &[1], &[0]);
    concatenation[6] = 1;
    let mut other_protocol = negotiate(7, &[1], &[0]);
    other_protocol[8] = 2;
    let mut lists = negotiate(7, &[1], &[0]);
    lists[10] = 31;
    let success2 = message(1, 4, 7, 16);
    let cases: [(&[u8], u8); 11] = [
        (&concatenation, 3),
        (&other_protocol, 2),
        (&negotiate(7, &[4, 0], &[0]), 4),
        (&negotiate(7, &[], &[0]), 4),
        (&negotiate(7, &[1], &[6, 255]), 5),
        (&lists, 6),
        (&negotiate(7, &[1], &[0])[..71], 6),
        (&[0], 6),
        (&success2, 7),
        (&message(1, 2, 7, 16), 7),
        (&message(9, 9, 7, 16), 7),
    ];
    for (bytes, explanation) in cases {
        let (world, seen) = world(OF_HOST, None);
        let (mut host, _) = admin(&world);
        side.send(&mut host, bytes);
        let verdict = host.run(auth_receive(16)).data;
        assert_eq!((verdict[0], verdict[1], verdict[6], verdict[7]), (0, 0xF1, 1, explanation), "{bytes:?}");
        assert!(host.connection.ended().is_some());
        assert_eq!(seen.take(), ["protocol-error"]);
    }
    // A Reply with another transaction, and one that ends within its values.
    for cut in [false, true] {
        let (world, _) = world(OF_HOST, None);
        let (mut host, _) = admin(&world);
        side.send(&mut host, &negotiate(7, &[1], &[0]));
        assert_eq!(host.run(auth_receive(48)).data.len(), 48);
        let mut reply = message(1, 2, if cut { 7 } else { 8 }, if cut { 79 } else { 80 });
        reply[6] = 32;
        side.send(&mut host, &reply);
        assert_eq!(host.run(auth_receive(16)).data[7], 6);
    }
}

#[test]
fn commands_of_authentication_have_a_form() {
    let (world, _) = world(OF_HOST, None);
    let (mut host, _) = admin(&world);
    let start = negotiate(7, &[1], &[0]);
    let send = auth_send(&start, true);
    for wrong in [
        send.clone().dword(10, 0xE902_0100),
        send.clone().dword(10, 0x0001_0100),
        send.clone().dword(11, 71),
        auth_send(&[], true),
        auth_send(&vec![0; 4097], true),
        auth_receive(0),
        auth_receive(4100),
    ] {
        assert_eq!(host.run(wrong.clone()).status, INVALID_FIELD, "{wrong:?}");
    }
    Side::default().send(&mut host, &start);
    assert_eq!(host.run(auth_receive(47)).status, INVALID_FIELD, "the challenge does not fit");
    assert_eq!(host.run(auth_receive(48)).data[..2], [1, 1], "and is still there");
}

#[test]
fn a_host_that_does_not_authenticate_ends_after_a_while() {
    let (world, seen) = world(OF_HOST, None);
    let (mut host, id) = admin(&world);
    for _ in 0..29 {
        host.run(identify(1, 0));
        host.connection.tick();
    }
    assert_eq!(host.connection.ended(), None);
    host.connection.tick();
    assert_eq!(host.connection.ended(), Some("the host did not authenticate in time"));
    assert_eq!(seen.take(), ["dhchap-required"]);
    let mut io = world.open();
    io.initialize((false, false));
    assert!(io.connect(HOST, SUBSYSTEM, 1, id, 128).is_err(), "its controller is gone");
}

#[test]
fn hosts_without_a_secret_and_discovery_need_none() {
    let (world, _) = world(OF_HOST, None);
    let (mut other, _) = world.connected(OTHER);
    assert_eq!(other.run(identify(1, 0)).status, 0);
    // The host can't ask for authentication, either.
    let side = Side::default();
    side.send(&mut other, &negotiate(7, &[1], &[0]));
    assert_eq!(other.run(auth_receive(16)).data[7], 2);
    let mut discovery = world.open();
    discovery.initialize((false, false));
    discovery.connect(HOST, "nqn.2014-08.org.nvmexpress.discovery", 0, 0xFFFF, 32).unwrap();
    assert_eq!(discovery.run(property_set(0x14, 1)).status, 0);
}

#[test]
fn another_secret_ends_the_connections_of_its_host() {
    let (world, _) = world(OF_HOST, None);
    let (mut host, _) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut host), Answer::Success);
    let same = [(HOST.to_owned(), with_secrets(OF_HOST, None)), (OTHER.to_owned(), HostSecurity::default())];
    world.subsystem.set_hosts(BTreeMap::from(same));
    host.turn();
    assert_eq!(host.connection.ended(), None);
    let changed = [
        (HOST.to_owned(), with_secrets(OF_HOST, Some(OF_ARRAY))),
        (OTHER.to_owned(), HostSecurity::default()),
    ];
    world.subsystem.set_hosts(BTreeMap::from(changed));
    host.turn();
    assert_eq!(host.connection.ended(), Some("access changed"));
}

/// Does the work that waits.
fn work(queued: &crate::hostile_test::Queued) -> usize {
    let waiting = std::mem::take(&mut *queued.lock());
    let count = waiting.len();
    waiting.into_iter().for_each(|(_, work)| work());
    count
}

#[test]
fn a_connection_negotiates_once_and_its_shard_does_no_finite_field_work() {
    let (mut world, seen) = world(OF_HOST, None);
    let queued = queue_work(&mut world);
    let (mut host, _) = admin(&world);
    let start = negotiate(7, &[SHA256], &[Group::Ffdhe8192 as u8]);
    let side = Side { group: Group::Ffdhe8192, ..Side::default() };
    side.send(&mut host, &start);
    host.submit(&auth_receive(4096).cid(9));
    assert_eq!(host.completion(), None, "the challenge is being computed");
    // No other message of the host is processed at the same time.
    assert_eq!(host.run(auth_receive(4096)).status, 0x00C, "Command Sequence Error");
    assert_eq!(queued.lock().len(), 1);
    assert_eq!(work(&queued), 1);
    let challenge = host.end(&auth_receive(4096).cid(9));
    assert_eq!((challenge.cid, &challenge.data[..2]), (9, &[1, 1][..]));
    side.send(&mut host, &start);
    assert_eq!(host.run(auth_receive(16)).data[7], 7, "another negotiation is refused");
    assert!(host.connection.ended().is_some());
    assert_eq!(work(&queued), 0);
    assert_eq!(seen.take(), ["protocol-error"]);
    // The work of a connection that has ended is discarded.
    let (mut host, _) = admin(&world);
    side.send(&mut host, &start);
    host.submit(&auth_receive(4096));
    drop(host);
    assert_eq!(work(&queued), 1);
}

#[test]
fn a_host_that_has_authenticated_does_so_again_only_now_and_then() {
    let (world, _) = world(OF_HOST, None);
    let (mut host, _) = admin(&world);
    let again = |host: &mut Host| Side::default().authenticate(host);
    (0..5).for_each(|_| assert_eq!(again(&mut host), Answer::Success));
    for _ in 0..60 {
        host.connection.tick();
        host.run(property_get(0x1C, false));
    }
    assert_eq!(again(&mut host), Answer::Success);
    Side::default().send(&mut host, &negotiate(7, &[SHA256], &[0]));
    assert_eq!(host.run(auth_receive(16)).data[7], 7);
    assert!(host.connection.ended().is_some());
}

#[test]
fn an_address_that_fails_waits_and_keeps_no_other_out() {
    let (mut world, seen) = world(OF_HOST, None);
    world.stop_clock();
    let fail = |world: &World| {
        let (mut host, _) = admin(world);
        Side { secret: OTHER_SECRET, ..Side::default() }.authenticate(&mut host)
    };
    (0..5).for_each(|_| assert_eq!(fail(&world), Answer::Failure(1)));
    seen.take();
    let refused = |world: &World| {
        let mut host = world.open();
        host.initialize((false, false));
        host.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap_err().status
    };
    assert_eq!(refused(&world), 0x181, "Controller Busy");
    assert_eq!(seen.take(), ["too-many-attempts"]);
    let own = std::mem::replace(&mut world.peer, ([10, 0, 0, 7], 50_000).into());
    let (mut host, _) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut host), Answer::Success, "from another address");
    world.peer = own;
    assert_eq!(refused(&world), 0x181, "it still waits");
    // A host that causes work and disconnects has failed as well.
    world.peer = ([10, 0, 0, 8], 50_000).into();
    for _ in 0..5 {
        let (mut host, _) = admin(&world);
        Side::default().send(&mut host, &negotiate(7, &[SHA256], &[Group::Ffdhe2048 as u8]));
        host.run(auth_receive(4096));
    }
    assert_eq!(refused(&world), 0x181);
    // Other credentials begin without failures.
    world.subsystem.set_hosts([(HOST.to_owned(), with_secrets(OTHER_SECRET, None))].into());
    let (mut host, _) = admin(&world);
    let side = Side { secret: OTHER_SECRET, ..Side::default() };
    assert_eq!(side.authenticate(&mut host), Answer::Success);
}

#[test]
fn a_queue_without_authentication_holds_no_identifier() {
    let (world, _) = world(OF_HOST, None);
    let (mut host, id) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut host), Answer::Success);
    assert_eq!(host.run(property_set(0x14, 0x0046_0001)).status, 0);
    let join = || {
        let mut io = world.open();
        io.initialize((false, false));
        io.connect(HOST, SUBSYSTEM, 1, id, 128).unwrap();
        io
    };
    // Other hosts that know the names and the identifier of the controller.
    let mut strangers: Vec<Host> = (0..8).map(|_| join()).collect();
    let mut io = join();
    assert_eq!(Side::default().authenticate(&mut io), Answer::Success);
    assert_eq!(io.run(write(1, 0, vec![1; BLOCK], true)).status, 0);
    // The identifier is in use now.
    let mut late = join();
    assert_eq!(Side::default().authenticate(&mut late), Answer::Success);
    assert_eq!(late.connection.ended(), Some("another queue has its identifier"));
    assert_eq!(io.run(read(1, 0, 1)).status, 0);
    // The end of the controller reaches all of them.
    drop(host);
    for io in strangers.iter_mut().chain([&mut io]) {
        io.turn();
        assert_eq!(io.connection.ended(), Some("the controller has ended"));
    }
}

#[test]
fn an_io_queue_never_belongs_to_the_discovery_subsystem() {
    let world = World::new();
    world.subsystem.set_hosts([(HOST.to_owned(), with_secrets(OF_HOST, None))].into());
    let (mut admin, id) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut admin), Answer::Success);
    assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
    let mut io = world.open();
    io.initialize((false, false));
    // Discovery needs no authentication, which must not open a queue of an I/O controller.
    let end = io.run(connect(HOST, DISCOVERY_NQN, 1, id, 32));
    assert_ne!(io.run(read(1, 0, 1)).status, 0, "a read without authentication");
    assert_eq!((end.status, end.result), (0x182, 42));
}

/// A message whose command a reset has ended says nothing, and its identifier belongs to the next command.
#[test]
fn a_reset_ends_the_command_of_a_message_that_is_being_processed() {
    let (mut world, _) = world(OF_HOST, None);
    let queued = queue_work(&mut world);
    let (mut host, _) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut host), Answer::Success, "without finite-field work");
    assert_eq!(host.run(property_set(0x14, 0x0046_0001)).status, 0);
    let side = Side { group: Group::Ffdhe2048, transaction: 8, ..Side::default() };
    side.send(&mut host, &negotiate(8, &[SHA256], &[Group::Ffdhe2048 as u8]));
    host.submit(&auth_receive(4096).cid(9));
    assert_eq!(host.run(property_set(0x14, 0)).status, 0);
    assert_eq!(host.run(property_set(0x14, 0x0046_0001)).status, 0);
    assert_eq!(host.run(Cmd::new(0x09, 0).dword(10, 0x0B).dword(11, 1 << 8)).status, 0);
    host.submit(&Cmd::new(0x0C, 0).cid(9));
    assert_eq!(work(&queued), 1);
    host.turn();
    assert_eq!(host.completion(), None, "the command with this identifier waits for an event");
    world.exports.set_mappings(HOST, BTreeMap::from([(4, block::DiskId(3))]));
    let event = host.completion().unwrap();
    assert_eq!((event.cid, event.status, event.result), (9, 0, 0x0004_0002));
    // The host begins another negotiation.
    assert_eq!(Side { transaction: 9, ..Side::default() }.authenticate(&mut host), Answer::Success);
}

/// Who knows the names of a host and the identifier of its controller must not keep it after the host is gone.
#[test]
fn a_queue_without_authentication_does_not_keep_a_controller() {
    let (world, _) = world(OF_HOST, None);
    let (mut host, id) = admin(&world);
    assert_eq!(Side::default().authenticate(&mut host), Answer::Success);
    assert_eq!(host.run(property_set(0x14, 0x0046_0001)).status, 0);
    let mut stranger = world.open();
    stranger.initialize((false, false));
    stranger.connect(HOST, SUBSYSTEM, 1, id, 128).unwrap();
    for _ in 0..20 {
        assert_eq!(stranger.run(read(1, 0, 1)).status, REQUIRED);
        host.connection.tick();
        if host.connection.ended().is_some() {
            break;
        }
    }
    assert_eq!(host.connection.ended(), Some("the keep alive timer has expired"));
}

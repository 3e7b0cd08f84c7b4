use super::*;

fn ends(exporters: [[u8; 32]; 2]) -> (Link, Link) {
    let (one, other) = tokio::io::duplex(64 << 10);
    let link = |stream: tokio::io::DuplexStream, exporter| Link {
        stream: Box::new(stream),
        certificate: vec![1, 2, 3],
        exporter,
        address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    (link(one, exporters[0]), link(other, exporters[1]))
}

#[test]
fn a_proof_holds_in_its_session_for_its_key_and_its_end_alone() {
    let key = [7; PAIRING_KEY_BYTES];
    let (one, other) = ends([[1; 32]; 2]);
    let proof = one.proof(&key, "client");
    assert!(other.is_proven(&key, "client", &proof));
    assert!(!other.is_proven(&key, "server", &proof));
    assert!(!other.is_proven(&[8; PAIRING_KEY_BYTES], "client", &proof));
    assert!(!other.is_proven(&key, "client", &proof[2..]));
    assert!(!other.is_proven(&key, "client", "ü"));
    let (_, elsewhere) = ends([[1; 32], [2; 32]]);
    assert!(!elsewhere.is_proven(&key, "client", &proof), "a machine between both arrays has relayed it");
    assert_eq!(one.common_key(&key), other.common_key(&key));
}

#[test]
fn a_key_is_read_as_it_is_shown() {
    let key = std::array::from_fn(|byte| byte as u8 * 17);
    let text = key_text(&key);
    assert_eq!(text, "0011-2233-4455-6677-8899-aabb-ccdd-eeff");
    assert_eq!(key_of(&format!(" {}\n", text.to_uppercase())), Some(key));
    for wrong in
        ["", "0011", "0011-2233-4455-6677-8899-aabb-ccdd-eefg", "0011-2233-4455-6677-8899-aabb-ccdd-eeff-00"]
    {
        assert_eq!(key_of(wrong), None, "{wrong}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_are_an_error() {
    for bytes in [
        &b"\xff\xff\xff\xff"[..],
        b"\x02\0\0\0{",
        b"\x02\0\0\0{}",
        b"\x03\0\0\0\xff\xff\xff",
        b"\0\0\0\0",
        b"\x01",
    ] {
        let (one, mut other) = ends([[1; 32]; 2]);
        let mut stream = one.stream;
        stream.write_all(bytes).await.unwrap();
        drop(stream);
        assert!(other.receive::<Hello>().await.is_err(), "{bytes:?}");
    }
    let (mut one, mut other) = ends([[1; 32]; 2]);
    one.send(&Hello::new("0123", "one", Wish::Ping)).await.unwrap();
    let hello: Hello = other.receive().await.unwrap();
    assert!(hello.check_version().is_ok());
    let newer = Hello { versions: [7, 9], ..hello };
    let said = newer.check_version().unwrap_err().message;
    assert!(said.contains("versions 7 to 9") && said.contains("1 to 1"), "{said}");
}

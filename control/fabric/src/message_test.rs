use super::*;
use tokio::io::{AsyncWriteExt, duplex};

const TEST: SideProtocol = SideProtocol::new(
    Protocol { name: b"test", exporter_label: b"EXPORTER-test" },
    ["the front end", "a test"],
    1 << 10,
    Duration::from_secs(10),
);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Wanted {
    position: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Given {
    Sends,
    Taken { certificate: String },
}

/// A message as all releases send it.
fn message(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// What an end has said before it dropped its stream.
async fn said(stream: &mut tokio::io::DuplexStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn bytes_are_those_of_earlier_releases() {
    let answers = [
        (r#""sends""#, Ok(Given::Sends)),
        (r#"{"taken":{"certificate":"c"}}"#, Ok(Given::Taken { certificate: "c".into() })),
        (r#"{"refused":{"text":"no\u001b"}}"#, Err("no".to_owned())),
    ];
    for (text, expected) in answers {
        let (mut home, mut front) = (duplex(1 << 10), duplex(1 << 10));
        home.1.write_all(&message(text)).await.unwrap();
        let found = TEST.ask::<Given>(&mut home.0, &Wanted { position: 7 }).await;
        drop(home.0);
        assert_eq!(said(&mut home.1).await, message(r#"{"versions":[1,1],"position":7}"#));
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found, expected);
                TEST.answer(&mut front.0, &expected).await.unwrap();
                drop(front.0);
                assert_eq!(said(&mut front.1).await, message(text));
            }
            (Err(found), Err(expected)) => {
                let found = found.to_string();
                assert!(found.contains(&expected) && !found.contains('\u{1b}'), "{found:?}");
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn an_end_of_another_version_is_refused_whatever_else_it_says() {
    let (mut home, mut front) = duplex(1 << 10);
    front.write_all(&message(r#"{"versions":[2,3],"place":[]}"#)).await.unwrap();
    front.shutdown().await.unwrap();
    let why = "the front end speaks versions 2 to 3 of a test, the home 1 to 1: update the older one";
    assert_eq!(TEST.asked::<Wanted>(&mut home).await.unwrap_err().to_string(), why);
    drop(home);
    assert_eq!(said(&mut front).await, message(&format!(r#"{{"refused":{{"text":"{why}"}}}}"#)));

    let (mut home, mut front) = duplex(1 << 10);
    front.write_all(&message(r#"{"versions":[1,4],"position":7,"more":0}"#)).await.unwrap();
    assert_eq!(TEST.asked::<Wanted>(&mut home).await.unwrap(), Wanted { position: 7 });
    for wrong in ["", "{}", r#"{"versions":[1,1]}"#, r#"{"versions":[1],"position":7}"#, "[]"] {
        front.write_all(&message(wrong)).await.unwrap();
        assert!(TEST.asked::<Wanted>(&mut home).await.is_err(), "{wrong}");
    }
    front.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
    assert!(TEST.asked::<Wanted>(&mut home).await.unwrap_err().to_string().contains("too long"));
}

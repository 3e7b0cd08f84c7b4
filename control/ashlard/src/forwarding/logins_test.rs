//! Log-ins at a front end, reported over a real link.

use super::*;
use array::{Endpoint, PortalProtocol};

/// A login request of a normal session, which asks for the last stage at once (RFC 7143, 11.12).
fn login_request(initiator: &str) -> Vec<u8> {
    let text = format!("InitiatorName={initiator}\0SessionType=Normal\0TargetName={TARGET}\0");
    let mut pdu = vec![0; 48];
    (pdu[0], pdu[1]) = (0x43, 0x87);
    pdu[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    pdu.extend_from_slice(text.as_bytes());
    pdu.resize(pdu.len().next_multiple_of(4), 0);
    pdu
}

#[tokio::test]
async fn logins_at_a_front_end_are_reported_to_the_home() {
    let cluster = store().await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = Endpoint { protocol: PortalProtocol::Iscsi, address: free.to_string() };
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (put, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let put: PutLogins = Arc::new(move |reports| _ = put.send(reports));
    let of_process = (Arc::new(Store::in_memory()), Arc::new(|_, _| {}) as TakeApi, put);
    let (_home, _, _serving) = serve_reported(&one, &volumes(), None, of_process).await;
    let two = Member::join(&cluster, link(2, b"shared")).await;
    let settings = portals::Settings {
        endpoints: vec![endpoint],
        connections: 8,
        shards: vec![Handle::current()],
        permit: Permit::default(),
        reading: None,
        addresses: address::Addresses::new(|| true),
    };
    let standby = portals::Standby::start(two.link.clone(), two.controller.map(), settings);
    let mut stream = loop {
        match TcpStream::connect(free).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    stream.write_all(&login_request("iqn.2026-01.test:stranger")).await.unwrap();
    let heard = heard.recv().await.unwrap();
    assert_eq!((heard.reports.len(), heard.lost, heard.reports[0].portal), (1, 0, 33));
    let text = serde_json::to_value(&heard.reports[0]).unwrap();
    assert_eq!(text["initiator"], "iqn.2026-01.test:stranger");
    assert_eq!(text["what"]["refused"]["cause"], "unknown-initiator");
    standby.stop(0).await;
    two.controller.leave().await;
    one.controller.leave().await;
}

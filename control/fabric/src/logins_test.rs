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

/// Begins to serve hosts at a front end.
fn serve_hosts(member: &Member, endpoints: Vec<Endpoint>) -> portals::Standby {
    let settings = portals::Settings {
        endpoints,
        connections: 8,
        shards: vec![Handle::current()],
        joined: member.controller.joined(),
        permit: Permit::default(),
        reading: None,
        addresses: address::Addresses::new(|| true),
    };
    portals::Standby::start(member.link.clone(), member.controller.map(), settings)
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
    let standby = serve_hosts(&two, vec![endpoint]);
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

/// A front end whose process is killed and started again while the map still has the one that was killed: it must not serve hosts in
/// the name of that one, because the home refuses that name as soon as the new process has joined.
#[tokio::test]
async fn a_controller_that_starts_again_before_its_expulsion_serves_hosts_as_itself() {
    let cluster = store().await;
    let one = Member::join(&cluster, link(1, b"shared")).await;
    let (home, _) = serve(&one, &volumes(), None).await;
    let client = cluster.client();
    let killed = Member::join_by(client.clone(), link(2, b"shared")).await;
    let before = killed.joined().await;
    // It beats no more, and has not left.
    cluster.client().fence(&client.instance()).await.unwrap();
    killed.controller.home().await.expect_err("its process has ended");
    let again = Member::join(&cluster, killed.link.clone()).await;
    let standby = serve_hosts(&again, Vec::new());
    let served = async {
        let joined = again.joined().await;
        assert_ne!(joined, before);
        until(|| home.serves(joined)).await;
        assert!(!home.serves(before));
    };
    tokio::time::timeout(Duration::from_secs(120), served).await.expect("the home serves the new process");
    standby.stop(0).await;
    again.controller.leave().await;
    one.controller.leave().await;
}

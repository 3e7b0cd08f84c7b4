use super::*;
use crate::controller::Controller;
use array::{ControllerState, Controllers, TakeoverCause};
use cluster::{Cause, Service};
use rados::memory::Cluster;
use rados::{FormatOptions, OpenOptions, Store};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const ARRAY: u128 = 7;

fn config(data: &Path, address: &str) -> Config {
    Config {
        data: data.to_owned(),
        array: "ashlar".into(),
        address: address.parse().unwrap(),
        tls_only: false,
    }
}

async fn join(cluster: &Cluster, id: u16) -> (Controller, Arc<Board>) {
    let board = Board::shared(id);
    let iscsi = vec![format!("192.0.2.{id}:3260")];
    let service = Service { api: format!("https://192.0.2.{id}:8443"), iscsi, nvme: Vec::new() };
    let controller =
        Controller::start(cluster.client(), ARRAY, (id, Default::default(), service), board.clone())
            .await
            .unwrap();
    (controller, board)
}

async fn until(board: &Board, is: impl Fn(&[array::Controller]) -> bool) -> Vec<array::Controller> {
    loop {
        let all = board.controllers();
        if is(&all) {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn states(all: &[array::Controller]) -> Vec<(u16, ControllerState)> {
    all.iter().map(|it| (it.number, it.state)).collect()
}

/// Status and body of a GET.
fn get(url: &str, path: &str) -> (u16, String) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
    let mut response = ureq::Agent::from(config).get(format!("{url}{path}")).call().unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

#[tokio::test]
async fn a_standby_says_where_the_array_is_served_and_takes_over_when_the_home_stops() {
    use ControllerState::{Home, Standby, Stopped};
    let cluster = Cluster::default();
    let open = OpenOptions { array: ARRAY, salt: 1, ..OpenOptions::default() };
    drop(Store::format(cluster.client(), FormatOptions::new(64), open).await.unwrap());
    let (one, board) = join(&cluster, 1).await;
    assert_eq!(one.home().await.unwrap().succession.cause, Cause::First);
    assert_eq!(states(&board.controllers()), [(1, Home)]);

    let (two, board) = join(&cluster, 2).await;
    let all = until(&board, |all| all.len() == 2).await;
    assert_eq!(states(&all), [(1, Home), (2, Standby)]);
    assert_eq!(all[0].api.as_deref(), Some("https://192.0.2.1:8443"));
    assert_eq!((&*all[1].portals[0], &*all[1].version), ("192.0.2.2:3260", env!("CARGO_PKG_VERSION")));
    assert!(all.iter().all(|it| it.since.is_some()));

    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "127.0.0.1:0");
    let listener = listen(&config).unwrap();
    let answers = Answers::start(&config, 16, listener.try_clone().unwrap(), (board.clone(), None)).unwrap();
    let access: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("api.json")).unwrap()).unwrap();
    let url = access["url"].as_str().unwrap();
    assert_eq!(get(url, "/healthz"), (200, "ok\n".into()));
    for path in ["/readyz", "/api/v1/array", "/metrics"] {
        let (status, text) = get(url, path);
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &problem["kind"]), (503, &"standby".into()), "{path}");
        assert_eq!(problem["home"], "https://192.0.2.1:8443");
        assert!(problem["detail"].as_str().unwrap().contains("controller 2 is a standby"), "{text}");
    }
    assert_eq!(get(url, "/volumes").0, 200, "a page that says so");

    one.leave().await;
    let home = two.home().await.unwrap();
    assert_eq!((home.succession.cause, home.succession.from.map(|it| it.0)), (Cause::Left, Some(1)));
    assert_eq!(states(&board.controllers()), [(1, Stopped), (2, Home)]);
    let problem: Value = serde_json::from_str(&get(url, "/api/v1/array").1).unwrap();
    assert!(problem["detail"].as_str().unwrap().contains("taking over"), "{problem}");
    assert!(problem.get("home").is_none(), "it is this one, and not yet");
    let now = Instant::now();
    board.note_service(&home, [now, now]);
    let takeover = board.takeover().unwrap();
    assert_eq!((takeover.from, takeover.cause, takeover.phases.silence), (1, TakeoverCause::Stopped, 0));
    answers.stop();
    two.leave().await;
}

#[test]
fn the_certificate_of_a_standby_stays_and_that_of_the_array_is_trusted_besides() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "127.0.0.1:8443");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    std::fs::write(folder.path().join("tls.pem"), "of the array\n").unwrap();
    certificate::of_standby(&config).unwrap();
    let (kept, trusted) = (read("standby.pem"), read("tls.pem"));
    assert!(trusted.starts_with("-----BEGIN CERTIFICATE-----") && trusted.ends_with("of the array\n"));
    assert!(!trusted.contains("PRIVATE KEY"));
    certificate::of_standby(&config).unwrap();
    assert_eq!((read("standby.pem"), read("tls.pem")), (kept.clone(), trusted));
    std::fs::write(folder.path().join("standby.pem"), "damaged").unwrap();
    certificate::of_standby(&config).unwrap();
    assert_ne!(read("standby.pem"), kept, "another one takes its place");
}

#[test]
fn an_api_on_all_addresses_is_named_by_its_machine() {
    let url = |own: &str, address: &str| {
        super::url(&config(Path::new("d"), own), address.parse().unwrap(), "node1")
    };
    assert_eq!(url("0.0.0.0:8443", "0.0.0.0:8443"), "https://node1:8443");
    assert_eq!(url("[::]:80", "[::]:80"), "https://node1:80");
    assert_eq!(url("192.0.2.1:8443", "192.0.2.1:8443"), "https://192.0.2.1:8443");
    assert_eq!(url("127.0.0.1:0", "127.0.0.1:5000"), "http://127.0.0.1:5000");
}

#[tokio::test]
async fn a_home_that_is_drained_hands_over_and_stays_drained_until_it_is_resumed() {
    use ControllerState::{Home, Standby, Stopped};
    use array::ControllerChange::{Drain, Remove, Resume};
    let cluster = Cluster::default();
    let open = OpenOptions { array: ARRAY, salt: 1, ..OpenOptions::default() };
    drop(Store::format(cluster.client(), FormatOptions::new(64), open).await.unwrap());
    let (one, board) = join(&cluster, 1).await;
    one.home().await.unwrap();
    let refusal =
        async |board: &Board, number, change| board.change(number, change).await.unwrap_err().message;
    let refused = refusal(&board, 1, Drain).await;
    assert!(refused.contains("no other controller can become the home"), "{refused}");
    let (two, second) = join(&cluster, 2).await;
    until(&board, |all| all.len() == 2).await;
    board.change(2, Drain).await.unwrap();
    assert!(until(&board, |all| all[1].drained).await[1].drained);
    let refused = refusal(&board, 1, Drain).await;
    assert!(refused.contains("resume one that is drained"), "{refused}");
    board.change(2, Resume).await.unwrap();
    assert!(refusal(&board, 2, Remove).await.contains("stop it first"));
    assert!(refusal(&board, 1, Remove).await.contains("is the home"));
    assert!(!one.is_drained());

    board.change(1, Drain).await.unwrap();
    one.drained().await;
    assert!(one.is_drained());
    one.leave().await;
    let home = two.home().await.unwrap();
    assert_eq!((home.succession.cause, home.succession.from.map(|it| it.0)), (Cause::GivenUp, Some(1)));
    assert_eq!(states(&second.controllers()), [(1, Stopped), (2, Home)]);
    let now = Instant::now();
    second.note_service(&home, [now, now]);
    assert_eq!(second.takeover().unwrap().cause, TakeoverCause::Moved);

    // As the process that it becomes.
    let (one, first) = join(&cluster, 1).await;
    let all = until(&first, |all| states(all) == [(1, Standby), (2, Home)]).await;
    assert!(all[0].drained && !all[1].drained);
    assert!(!one.is_drained(), "it has nothing to hand over");
    one.leave().await;
    until(&second, |all| states(all) == [(1, Stopped), (2, Home)]).await;
    second.change(1, Remove).await.unwrap();
    assert_eq!(states(&second.controllers()), [(2, Home)]);
    two.leave().await;
}

#[tokio::test]
async fn an_array_that_is_not_shared_has_no_other_controller_to_change() {
    let refused = Board::single().change(1, array::ControllerChange::Drain).await.unwrap_err();
    assert_eq!(refused.kind, array::Kind::Precondition);
}

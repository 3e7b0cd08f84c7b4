//! Controllers: what is shown of them, and the events and alerts when one is lost, stops, or has taken over.

use crate::rig::{Rig, Up, controller, ok};
use array::{
    AlertState, Controller, ControllerState, CreateJoinToken, DrainController, Error, Kind, ListAlerts,
    ListAudit, ListControllers, ListEvents, Phases, RemoveController, ResumeController, Severity,
    ShowController, ShowStore, Takeover, TakeoverCause, Topic, Update,
};

/// Kinds of the alerts that are open, after a second has passed.
async fn open_alerts(up: &Up) -> Vec<(String, Severity)> {
    up.array.tick().await;
    let alerts = ok(up, ListAlerts).await.into_iter().filter(|it| it.state != AlertState::Closed);
    let mut found: Vec<_> = alerts.map(|it| (it.kind, it.severity)).collect();
    found.sort();
    found
}

/// Events about controllers, oldest first: kind, severity, message.
async fn events(up: &Up) -> Vec<(String, Severity, String)> {
    let all = ok(up, ListEvents { limit: Some(100), ..ListEvents::default() }).await;
    let of_controllers = all.into_iter().rev().filter(|it| it.kind.starts_with("controller."));
    of_controllers.map(|it| (it.kind, it.severity, it.message)).collect()
}

fn set(rig: &Rig, all: &[(u16, ControllerState)]) {
    let all: Vec<Controller> = all.iter().map(|(number, state)| controller(*number, *state)).collect();
    *rig.controllers.all.lock().unwrap() = all;
}

#[tokio::test]
async fn an_array_that_is_not_shared_has_one_controller_and_nothing_is_wrong_with_that() {
    let rig = Rig::new();
    let up = rig.up().await;
    let all = ok(&up, ListControllers).await;
    assert_eq!((all.len(), all[0].state, all[0].takeover.clone()), (1, ControllerState::Home, None));
    let portals: Vec<_> = up.server.portals().iter().map(|it| it.address.to_string()).collect();
    assert_eq!(all[0].portals, portals, "where it really listens");
    assert!(open_alerts(&up).await.is_empty());
    assert!(events(&up).await.is_empty());
    let store = ok(&up, ShowStore).await;
    assert_eq!((store.owner, store.ceph), (Some(1), None));
    assert!(store.drives > 0 && store.total_segments > 0);
    up.down().await;
}

#[tokio::test]
async fn a_controller_is_found_by_its_number_and_by_its_machine() {
    use ControllerState::{Home, Standby};
    let rig = Rig::new();
    set(&rig, &[(1, Home), (2, Standby)]);
    let up = rig.up().await;
    for which in ["2", "host2"] {
        let found = ok(&up, ShowController { number: which.into() }).await;
        assert_eq!((found.number, found.state), (2, Standby));
    }
    let refused = up.perform(ShowController { number: "3".into() }).await.unwrap_err();
    assert_eq!(refused.kind, Kind::NotFound);
    up.down().await;
}

#[tokio::test]
async fn a_lost_controller_is_an_event_and_an_alert_until_it_is_back() {
    use ControllerState::{Home, Lost, Standby, Stopped};
    let rig = Rig::new();
    set(&rig, &[(1, Home), (2, Standby)]);
    let up = rig.up().await;
    assert!(open_alerts(&up).await.is_empty());

    let mut updates = up.array.subscribe();
    set(&rig, &[(1, Home), (2, Lost)]);
    let alone = ("controller.alone".to_owned(), Severity::Critical);
    let lost = ("controller.lost".to_owned(), Severity::Warning);
    assert_eq!(open_alerts(&up).await, [alone, lost]);
    assert!(
        std::iter::from_fn(|| updates.try_recv().ok()).any(|it| it == Update::Changed(Topic::Controllers))
    );
    assert_eq!(open_alerts(&up).await.len(), 2);
    let logged = events(&up).await;
    assert_eq!((logged.len(), &*logged[0].0, logged[0].1), (1, "controller.lost", Severity::Warning));

    set(&rig, &[(1, Home), (2, Standby)]);
    assert!(open_alerts(&up).await.is_empty());
    set(&rig, &[(1, Home), (2, Stopped)]);
    assert_eq!(open_alerts(&up).await, [("controller.alone".to_owned(), Severity::Warning)]);
    let logged: Vec<_> = events(&up).await.into_iter().map(|it| it.0).collect();
    assert_eq!(logged, ["controller.lost", "controller.joined", "controller.stopped"]);
    up.down().await;
}

#[tokio::test]
async fn a_takeover_is_an_event_with_its_cause_and_its_phases_and_the_home_shows_it() {
    use ControllerState::{Home, Lost, Standby};
    let rig = Rig::new();
    set(&rig, &[(1, Lost), (2, Home), (3, Standby)]);
    let phases = Phases { silence: 3500, agreement: 90, store: 200, recovery: 700, start: 10 };
    let takeover = Takeover { time: 1000, from: 1, cause: TakeoverCause::Lost, phases };
    *rig.controllers.takeover.lock().unwrap() = Some(takeover.clone());
    let up = rig.up().await;
    up.array.tick().await;
    up.array.tick().await;
    let logged = events(&up).await;
    assert_eq!((logged.len(), &*logged[0].0, logged[0].1), (1, "controller.takeover", Severity::Warning));
    for part in
        ["controller 2 (host2)", "from controller 1", "lost", "4500 ms", "silence 3500", "recovery 700"]
    {
        assert!(logged[0].2.contains(part), "{}", logged[0].2);
    }
    let all = ok(&up, ListControllers).await;
    let shown: Vec<_> = all.into_iter().map(|it| it.takeover).collect();
    assert_eq!(shown, [None, Some(takeover), None]);
    up.down().await;
}

#[tokio::test]
async fn controllers_of_different_versions_are_an_alert_while_both_take_part() {
    use ControllerState::{Home, Standby, Stopped};
    let rig = Rig::new();
    set(&rig, &[(1, Home), (2, Standby), (3, Standby)]);
    rig.controllers.all.lock().unwrap()[1].version = "0.9".into();
    let up = rig.up().await;
    assert_eq!(open_alerts(&up).await, [("controller.versions".to_owned(), Severity::Warning)]);
    rig.controllers.all.lock().unwrap()[1].state = Stopped;
    assert!(open_alerts(&up).await.is_empty());
    up.down().await;
}

#[tokio::test]
async fn a_lost_controller_is_removed_by_command_and_its_alert_ends() {
    use ControllerState::{Home, Lost, Standby};
    let rig = Rig::new();
    set(&rig, &[(1, Home), (2, Standby), (3, Lost)]);
    let up = rig.up().await;
    assert_eq!(open_alerts(&up).await, [("controller.lost".to_owned(), Severity::Warning)]);
    ok(&up, RemoveController { number: "host3".into() }).await;
    assert!(open_alerts(&up).await.is_empty());
    assert_eq!(ok(&up, ListControllers).await.len(), 2);
    let audit = ok(&up, ListAudit { limit: Some(10), ..ListAudit::default() }).await;
    let entry = audit.iter().find(|it| it.action == "RemoveController").unwrap();
    assert!(format!("{entry:?}").contains("host3"), "{entry:?}");

    let reason = "controller 2 runs, and takes part";
    *rig.controllers.refused.lock().unwrap() = Some(Error::precondition(reason));
    let refused = up.perform(RemoveController { number: "2".into() }).await.unwrap_err();
    assert_eq!((refused.kind, &*refused.message), (Kind::Precondition, reason));
    assert_eq!(up.perform(RemoveController { number: "3".into() }).await.unwrap_err().kind, Kind::NotFound);
    up.down().await;
}

#[tokio::test]
async fn a_controller_is_drained_until_it_is_resumed() {
    use ControllerState::{Home, Standby};
    let rig = Rig::new();
    set(&rig, &[(1, Home), (2, Standby)]);
    let up = rig.up().await;
    assert!(ok(&up, DrainController { number: "2".into() }).await.drained);
    assert!(ok(&up, ShowController { number: "host2".into() }).await.drained);
    assert!(!ok(&up, ResumeController { number: "2".into() }).await.drained);
    up.down().await;
}

#[tokio::test]
async fn a_name_that_several_machines_have_does_not_choose_one() {
    use ControllerState::{Home, Lost};
    let rig = Rig::new();
    set(&rig, &[(1, Home), (2, Lost)]);
    rig.controllers.all.lock().unwrap()[1].name = "host1".into();
    let up = rig.up().await;
    let refused = up.perform(RemoveController { number: "host1".into() }).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    up.down().await;
}

#[tokio::test]
async fn a_join_token_is_logged_without_its_secret() {
    let rig = Rig::new();
    let up = rig.up().await;
    let made = ok(&up, CreateJoinToken).await;
    assert_eq!((made.controller, made.expires), (2, 7));
    let audit = ok(&up, ListAudit { limit: Some(10), ..ListAudit::default() }).await;
    let events = events(&up).await;
    assert!(audit.iter().any(|it| it.action == "CreateJoinToken"));
    assert!(events.iter().any(|(kind, ..)| kind == "controller.token-created"));
    let all = format!("{audit:?} {events:?}");
    assert!(!all.contains(made.token.expose()), "{all}");
    *rig.controllers.refused.lock().unwrap() = Some(Error::precondition("this array has no link"));
    assert_eq!(up.perform(CreateJoinToken).await.unwrap_err().kind, Kind::Precondition);
    up.down().await;
}

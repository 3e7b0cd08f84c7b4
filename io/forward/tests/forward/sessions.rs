//! Device servers of sessions over a link: their commands end, and the loss of a nexus ends its session.

use crate::HOSTS;
use crate::rig::{ARRAY, BLOCK, Home, MS, Notes, Slow, hello, is_cleared, read, write};
use block::{Recipe, Resolver};
use bytes::Bytes;
use forward::{Device, FrontEnd, LINGER_NS, MAX_PAUSE_NS, Service};
use peer::Channel;
use scsi::{
    Command, Data, DeviceServer, Direction, Execution, Lun, Management, ManagementFunction,
    ManagementResponse, Response, Status, TaskAttribute,
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI8, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

type Task = Pin<Box<dyn Future<Output = Option<Response>> + Send>>;

/// A front end with its home, and their common clock.
struct World {
    home: Home,
    front_end: Arc<FrontEnd>,
    service: Service,
    clock: Arc<AtomicU64>,
    lost: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        Self::over(Home::new(&HOSTS))
    }

    fn over(home: Home) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000 * MS));
        let hand = clock.clone();
        let front_end = FrontEnd::new(0, 11, move || hand.load(SeqCst));
        let service = home.service(11);
        Self { home, front_end, service, clock, lost: Arc::default() }
    }

    fn now(&self) -> u64 {
        self.clock.load(SeqCst)
    }

    fn connect(&mut self) {
        let (mut one, mut other) = (Channel::new(1, ARRAY, 11), Channel::new(2, ARRAY, self.home.id));
        one.take_output().iter().for_each(|bytes| other.receive(bytes.clone()));
        other.take_output().iter().for_each(|bytes| one.receive(bytes.clone()));
        let (of_home, of_front) = (hello(&mut one), hello(&mut other));
        self.front_end.connect(one, &of_home);
        self.service.connect(other, &of_front, self.now());
        self.settle();
    }

    /// Moves bytes until there are none.
    fn settle(&mut self) {
        loop {
            while self.service.poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
            let (to_home, to_front) = (self.front_end.take_output(), self.service.take_output());
            if to_home.is_empty() && to_front.is_empty() {
                return;
            }
            to_home
                .iter()
                .for_each(|bytes| self.service.receive(bytes.clone(), self.now()).expect("requests"));
            to_front.iter().for_each(|bytes| self.front_end.receive(bytes.clone()).expect("answers"));
        }
    }

    fn attach(&self) -> Device {
        let lost = self.lost.clone();
        self.front_end.attach(1, [0, 2, 0x3D, 0, 0, 1], HOSTS[0], move || _ = lost.fetch_add(1, SeqCst))
    }

    /// Sessions that were notified of the loss of their nexus.
    fn lost(&self) -> usize {
        self.lost.load(SeqCst)
    }

    /// A nexus whose first unit attention was reported.
    fn host(&mut self) -> Device {
        let mut device = self.attach();
        let mut first = begin(&mut device, &[0; 16], &[]);
        self.settle();
        assert_eq!(ended(&mut first).expect("a response").status, Status::CheckCondition);
        device
    }
}

fn begin(device: &mut Device, cdb: &[u8], data: &[u8]) -> Task {
    let command = Command {
        tag: 7,
        lun: Lun([0; 8]),
        cdb: Bytes::copy_from_slice(cdb),
        attribute: TaskAttribute::Simple,
        direction: if data.is_empty() { Direction::In } else { Direction::Out },
        data_out: Data::from(data.to_vec()),
        data_in_limit: if data.is_empty() { 1 << 20 } else { 0 },
    };
    match device.execute(command) {
        Execution::Task(task) => task,
        Execution::Done(response) => Box::pin(std::future::ready(Some(response))),
    }
}

fn polled(task: &mut Task) -> Poll<Option<Response>> {
    task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn ended(task: &mut Task) -> Option<Response> {
    match polled(task) {
        Poll::Ready(response) => response,
        Poll::Pending => panic!("it has not ended"),
    }
}

#[test]
fn a_session_gets_data_status_and_task_management_from_the_home() {
    let mut world = World::new();
    world.connect();
    let mut device = world.host();
    let mut written = begin(&mut device, &write(9), &[0x5A; BLOCK]);
    assert!(polled(&mut written).is_pending());
    world.settle();
    assert_eq!(ended(&mut written).expect("a response").status, Status::Good);
    let mut found = begin(&mut device, &read(9), &[]);
    world.settle();
    assert_eq!(ended(&mut found).expect("a response").data_in.to_bytes()[..], [0x5A; BLOCK]);
    world.home.disk.hold();
    let mut held = begin(&mut device, &write(10), &[1; BLOCK]);
    world.settle();
    let aborted = device.manage(Lun([0; 8]), ManagementFunction::AbortTaskSet);
    let Management::Later(mut aborted) = aborted else { panic!("it is performed at the home") };
    let mut context = Context::from_waker(Waker::noop());
    assert!(aborted.as_mut().poll(&mut context).is_pending());
    world.settle();
    assert_eq!(aborted.as_mut().poll(&mut context), Poll::Ready(Some(ManagementResponse::Complete)));
    assert!(ended(&mut held).is_none(), "an aborted command has no response");
    world.home.disk.release();
    world.settle();
    assert_eq!(world.home.disk.effects(10), 0);
    assert_eq!(world.lost(), 0);
}

/// Whether a command ends before it could have crossed a link.
fn is_direct(device: &mut Device, cdb: &[u8]) -> bool {
    let mut task = begin(device, cdb, &[]);
    polled(&mut task).is_ready()
}

#[test]
fn a_session_uses_its_nexus_directly_once_the_home_is_here() {
    let mut world = World::new();
    let mut device = world.attach();
    let mut first = begin(&mut device, &[0; 16], &[]);
    world.front_end.shorten(&mut world.service).expect("no link yet");
    world.connect();
    assert_eq!(ended(&mut first).expect("a response").status, Status::CheckCondition);
    assert!(!is_direct(&mut device, &read(1)));
    world.settle();
    world.home.disk.hold();
    let mut held = begin(&mut device, &write(1), &[1; BLOCK]);
    world.front_end.shorten(&mut world.service).expect("requests");
    assert!(is_direct(&mut device, &read(1)), "the nexus is the same: it has no unit attention");
    // The write was forwarded, so what aborts it follows it, and what comes after that as well.
    let Management::Later(mut aborted) = device.manage(Lun([0; 8]), ManagementFunction::AbortTaskSet) else {
        panic!("it overtakes the answer of the write")
    };
    let mut after = begin(&mut device, &read(2), &[]);
    assert!(polled(&mut after).is_pending(), "it overtakes the function");
    world.settle();
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(aborted.as_mut().poll(&mut context), Poll::Ready(Some(ManagementResponse::Complete)));
    assert!(ended(&mut held).is_none(), "an aborted command has no response");
    assert_eq!(ended(&mut after).expect("a response").status, Status::Good);
    world.home.disk.release();
    assert!(is_direct(&mut device, &read(3)));
    let function = device.manage(Lun([0; 8]), ManagementFunction::AbortTaskSet);
    assert!(matches!(function, Management::Done(ManagementResponse::Complete)));
    assert_eq!((world.home.disk.effects(1), world.lost()), (0, 0));
    drop(device);
    world.settle();
    assert!(world.home.target.nexuses().is_empty(), "the nexus ends with the session");
}

#[test]
fn sessions_outlive_a_home_of_an_older_release_and_learn_that_the_fate_of_a_write_is_open() {
    let mut world = World::over(Home::new(&HOSTS).with(Notes::None));
    world.connect();
    let (mut idle, mut device) = (world.host(), world.host());
    world.home.disk.hold();
    let mut open = begin(&mut device, &write(3), &[1; BLOCK]);
    world.settle();
    let successor = world.home.successor(&HOSTS);
    world.front_end.disconnect();
    world.service = successor.service(11);
    world.home = successor;
    let mut held = begin(&mut idle, &write(4), &[2; BLOCK]);
    world.connect();
    assert_eq!(world.lost(), 0);
    assert!(is_cleared(&ended(&mut open).expect("a response")));
    let mut late = begin(&mut device, &write(5), &[3; BLOCK]);
    world.home.disk.release();
    world.settle();
    assert_eq!(ended(&mut late).expect("a response").status, Status::CheckCondition, "of the new nexus");
    // The other host's command had not begun: the new home performs it, after the unit attention of the new nexus.
    assert_eq!(ended(&mut held).expect("a response").status, Status::CheckCondition);
    assert_eq!(
        [3, 4, 5].map(|lba| world.home.disk.effects(lba)),
        [0; 3],
        "nothing took effect that was not answered"
    );
}

#[test]
fn a_process_that_was_paused_performs_nothing_that_waited_in_its_sockets() {
    let mut world = World::new();
    world.connect();
    let mut device = world.host();
    world.clock.fetch_add(MAX_PAUSE_NS - MS, SeqCst);
    let mut fresh = begin(&mut device, &write(1), &[1; BLOCK]);
    world.settle();
    assert!(polled(&mut fresh).is_ready(), "a short pause is none: the home decides by the age");
    world.clock.fetch_add(MAX_PAUSE_NS, SeqCst);
    let mut stale = begin(&mut device, &write(2), &[2; BLOCK]);
    assert_eq!(ended(&mut stale).expect("a response").status, Status::Busy);
    assert_eq!(world.lost(), 1, "its session ends");
    world.settle();
    assert_eq!(world.home.disk.effects(2), 0);
}

#[test]
fn a_session_that_ends_takes_its_commands_with_it() {
    let mut world = World::new();
    world.connect();
    let mut device = world.host();
    world.home.disk.hold();
    let task = begin(&mut device, &write(6), &[1; BLOCK]);
    world.settle();
    drop((task, device));
    world.settle();
    world.home.disk.release();
    world.settle();
    assert_eq!(world.home.disk.effects(6), 0);
    assert_eq!(world.lost(), 0, "who has gone is not notified");
}

#[test]
fn the_configuration_is_known_as_soon_as_it_is_sent() {
    let mut world = World::new();
    let configuration = world.front_end.configuration();
    world.service.configure(Bytes::from_static(b"one"));
    assert_eq!(*configuration.borrow(), None);
    world.connect();
    assert_eq!(configuration.borrow().as_deref(), Some(&b"one"[..]));
    world.service.configure(Bytes::from_static(b"two"));
    world.settle();
    assert_eq!(configuration.borrow().as_deref(), Some(&b"two"[..]));
    // Kept while there is no home.
    world.front_end.disconnect();
    world.service.disconnect(world.now() + LINGER_NS);
    assert_eq!(configuration.borrow().as_deref(), Some(&b"two"[..]));
}

/// Resolves located data from the disk's store, with delays and failures.
struct Store {
    disk: Slow,
    /// Negative while the store does not answer; zero if it has no data.
    answers: AtomicI8,
}

impl Resolver for Store {
    fn resolve(&self, recipe: Recipe) -> Pin<Box<dyn Future<Output = Option<Data>> + Send>> {
        match self.answers.load(SeqCst) {
            ..0 => Box::pin(std::future::pending()),
            0 => Box::pin(std::future::ready(None)),
            _ => Box::pin(std::future::ready(Some(self.disk.located(&recipe)))),
        }
    }
}

/// A front end that reads data itself, with a host that has written block 9.
fn reading() -> (World, Device, Arc<Store>) {
    let mut world = World::new();
    let store = Arc::new(Store { disk: world.home.disk.clone(), answers: AtomicI8::new(1) });
    world.home.disk.locate();
    world.front_end.resolve_with(Some(store.clone()));
    world.connect();
    let mut device = world.host();
    let mut written = begin(&mut device, &write(9), &[0x5A; BLOCK]);
    world.settle();
    assert_eq!(ended(&mut written).expect("a response").status, Status::Good);
    (world, device, store)
}

#[test]
fn the_task_of_a_command_reads_what_the_home_locates_or_asks_again() {
    let (mut world, mut device, store) = reading();
    for answers in [1, 0, -1] {
        store.answers.store(answers, SeqCst);
        let mut task = begin(&mut device, &read(9), &[]);
        world.settle();
        if answers < 1 {
            assert!(polled(&mut task).is_pending());
            world.clock.fetch_add(forward::MAX_FETCH_NS - MS, SeqCst);
            _ = world.front_end.tick();
            world.clock.fetch_add(MS, SeqCst);
            world.front_end.disconnect();
            _ = world.front_end.tick();
            world.connect();
        }
        let found = ended(&mut task).expect("a response");
        assert_eq!((found.status, &found.data_in.to_bytes()[..]), (Status::Good, &[0x5A; BLOCK][..]));
    }
    assert_eq!(world.lost(), 0);
}

#[test]
fn an_abort_and_the_end_of_a_session_end_what_is_being_read() {
    let (mut world, mut device, store) = reading();
    store.answers.store(-1, SeqCst);
    let mut task = begin(&mut device, &read(9), &[]);
    world.settle();
    assert!(polled(&mut task).is_pending());
    let aborted = device.manage(Lun([0; 8]), ManagementFunction::AbortTask { tag: 7 });
    let Management::Later(mut aborted) = aborted else { panic!("it is performed at the home") };
    world.settle();
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(aborted.as_mut().poll(&mut context), Poll::Ready(Some(ManagementResponse::Complete)));
    assert!(ended(&mut task).is_none(), "no response");
    let mut task = begin(&mut device, &read(9), &[]);
    world.settle();
    assert!(polled(&mut task).is_pending());
    drop((task, device));
    world.settle();
    assert_eq!(Arc::strong_count(&store), 2, "nothing is being read");
}

#[test]
fn a_front_end_that_becomes_the_home_reads_nothing_itself() {
    let (mut world, mut device, store) = reading();
    store.answers.store(-1, SeqCst);
    let mut reading = begin(&mut device, &read(9), &[]);
    world.settle();
    assert!(polled(&mut reading).is_pending());
    // One read is on its way to the home, one is sent afterwards.
    let mut early = begin(&mut device, &read(9), &[]);
    let sent = world.front_end.take_output();
    world.front_end.resolve_with(None);
    sent.iter().for_each(|bytes| world.service.receive(bytes.clone(), world.now()).expect("requests"));
    let mut late = begin(&mut device, &read(9), &[]);
    world.settle();
    for task in [&mut early, &mut late] {
        assert_eq!(ended(task).expect("a response").data_in.to_bytes()[..], [0x5A; BLOCK]);
    }
    assert!(polled(&mut reading).is_pending(), "the read continues");
}

/// A host may have given up the commands it sent before a pause: they get no answer after it.
#[test]
fn a_process_that_was_paused_while_it_read_answers_nothing() {
    let (mut world, mut device, _store) = reading();
    let mut task = begin(&mut device, &read(9), &[]);
    world.settle();
    world.clock.fetch_add(MAX_PAUSE_NS, SeqCst);
    assert!(polled(&mut task).is_pending());
    assert_eq!(world.lost(), 1, "its session ends");
}

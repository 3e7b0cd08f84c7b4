use super::*;

/// A drive that holds reads back until they are released.
#[derive(Default)]
struct Keeping(Mutex<Vec<Done<Bytes>>>);

impl Keeping {
    fn answer_last(&self) {
        let done = self.0.lock().pop();
        done.expect("a request")(Ok(Bytes::new()));
    }
}

impl Drive for Keeping {
    fn name(&self) -> &str {
        "keeping"
    }

    fn bytes(&self) -> u64 {
        1 << 20
    }

    fn read(&self, _offset: u64, _len: u32, done: Done<Bytes>) {
        self.0.lock().push(done);
    }

    fn write(&self, _offset: u64, _pieces: Vec<Bytes>, _durable: bool, done: Done<()>) {
        done(Ok(()));
    }

    fn sync(&self, done: Done<()>) {
        done(Ok(()));
    }

    fn discard(&self, _offset: u64, _len: u64, done: Done<()>) {
        done(Ok(()));
    }
}

/// All answers come at once after a while, as when a whole server stood still: while the first of those that are late is
/// given up, the drive answers the second.
#[test]
fn an_answer_that_comes_while_others_are_given_up_is_not_owed() {
    let drive = Arc::new(Keeping::default());
    let member = Member::new(0, 1, 1 << 20, drive.clone());
    member.tick(Duration::from_secs(1));
    let answers = drive.clone();
    member.read(
        0,
        4096,
        Box::new(move |outcome| {
            assert!(outcome.is_err(), "it is given up");
            answers.answer_last();
        }),
    );
    member.read(0, 4096, Box::new(|outcome| assert!(outcome.is_ok(), "it has come")));
    member.tick(Duration::from_secs(100));
    assert!(member.is_overdue(), "the first is owed");
    drive.answer_last();
    assert!(!member.is_overdue());
}

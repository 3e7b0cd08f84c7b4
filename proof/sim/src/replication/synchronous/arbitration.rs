//! Witness of some seeds of the world `synchronous`: either array continues alone with its consent, without an
//! operator.
//!
//! Its decisions are those of [`::replication::witness`]; its memory is durable, and lost in some seeds. Requests and
//! answers are delayed for any time, also by a partition between the witness and either array, and are lost when the
//! witness crashes. Both arrays ask at any moment at which they may, regardless of their clocks, which no promise
//! depends on.
//!
//! Checked: a granted target promotes every acknowledged write; the source acknowledges nothing afterwards; and with
//! any two of the three, hosts are served again, unless the witness has lost its memory of a grant that only the source
//! knows.

use super::{Check, Content, MAX_HEALED_TURNS, World, compare};
use crate::replication::REPLICATION;
use crate::replication::link::Link;
use ::replication::witness::{Answer, End, Request, Ruling, decide, source_claim};
use ::replication::{MirrorState, disarm};
use block::DiskId;
use block::workload::Random;
use bytes::Bytes;

/// Record of the target: the group was granted to it, and it takes no session until an operator demotes it.
const GRANTED: &str = "world/granted";

/// Turns after a promotion in which the source tries to acknowledge writes.
const TURNS_AFTER_PROMOTION: u64 = 20_000;

/// An outstanding request of an array.
struct Asked {
    number: u64,
    request: Request,
}

/// The witness, and the knowledge of both arrays about it.
pub(super) struct Arbitration {
    random: Random,
    /// Durable, unless its memory is lost.
    ruling: Option<Ruling>,
    is_up: bool,
    /// Whether the source and the target reach the witness.
    reaches: [bool; 2],
    requests: Vec<(u64, Request)>,
    answers: Vec<(u64, usize, Answer)>,
    /// Outstanding requests of the source and the target.
    asked: [Option<Asked>; 2],
    asks: u64,
    /// Approximate number of turns between two attempts of the target.
    patience: u64,
    /// Whether the source knows that it is enrolled.
    enrolled: bool,
    /// The session that the source knows to be joined.
    joined: Option<u64>,
    /// Whether the witness has lost its memory after granting the group to the target: the source is not informed of
    /// the promotion.
    forgot_grant: bool,
    /// Whether the source knows that the target continues alone.
    fenced: bool,
    /// Content of the promotion.
    promoted: Option<Vec<(DiskId, Content)>>,
}

/// The end that sends a request.
fn side(request: Request) -> usize {
    match request {
        Request::Enroll { .. } | Request::Join { .. } => 0,
        Request::Alone { end, .. } => usize::from(end == End::Target),
    }
}

impl Arbitration {
    /// The witness of a seed, if it has one.
    pub fn of_seed(seed: u64) -> Option<Self> {
        // Drawn separately: seeds without a witness are unchanged.
        let mut random = Random::new(seed ^ 0x7769_746e);
        if random.chance(50) {
            return None;
        }
        let patience = [300, 3000, 30_000][random.below(3) as usize];
        Some(Self {
            random,
            ruling: None,
            is_up: true,
            reaches: [true; 2],
            requests: Vec::new(),
            answers: Vec::new(),
            asked: [None, None],
            asks: 0,
            patience,
            enrolled: false,
            joined: None,
            forgot_grant: false,
            fenced: false,
            promoted: None,
        })
    }

    /// Whether the witness allows a session to begin.
    pub fn lets_begin(&self) -> bool {
        let waits = |asked: &Option<Asked>| {
            asked.as_ref().is_some_and(|asked| matches!(asked.request, Request::Alone { .. }))
        };
        !self.fenced && !self.asked.iter().any(waits)
    }

    /// Notes that the source is in no session any more.
    pub fn note_apart(&mut self) {
        self.joined = None;
        self.asked[0].take_if(|asked| matches!(asked.request, Request::Join { .. }));
    }

    /// Whether the seed ends with the loss of one of the three.
    pub fn ends_with_a_loss(&mut self) -> bool {
        self.random.chance(70)
    }

    /// Notes the crash of an array, which forgets its requests. Sent messages remain in transit.
    pub fn forget(&mut self, end: End) {
        self.asked[usize::from(end == End::Target)] = None;
        if end == End::Source {
            (self.enrolled, self.joined, self.fenced) = (false, None, false);
        }
    }

    /// Starts the witness, and connects both arrays to it.
    pub fn heal(&mut self) {
        (self.is_up, self.reaches) = (true, [true; 2]);
    }

    fn ask(&mut self, request: Request) {
        let (number, side) = (self.asks, side(request));
        self.asks += 1;
        if self.asked[side].is_none() {
            self.asked[side] = Some(Asked { number, request });
            self.requests.push((number, request));
        }
    }

    /// Injects a fault.
    fn fail(&mut self) {
        for reaches in &mut self.reaches {
            let rare = if *reaches { 3000 } else { 600 };
            *reaches ^= self.random.below(rare) == 0;
        }
        if self.is_up && self.random.below(4000) == 0 {
            self.crash();
            if self.random.below(4) == 0 {
                (self.ruling, self.forgot_grant) = (None, true);
            }
        }
        self.is_up |= self.random.below(500) == 0;
    }

    /// Makes arrays give up outstanding requests, and repeat them.
    fn give_up(&mut self) {
        for asked in &mut self.asked {
            asked.take_if(|_| self.random.below(300) == 0);
        }
    }

    /// Ends its connections; messages in transit are lost.
    fn crash(&mut self) {
        self.is_up = false;
        self.requests.clear();
        self.answers.clear();
        self.asked = [None, None];
    }

    /// Delivers a request or an answer; returns an answer that an array still waits for.
    fn deliver(&mut self, healed: bool) -> Option<(Request, Answer)> {
        if !self.is_up || self.random.below(20) != 0 {
            return None;
        }
        let arriving: Vec<usize> =
            (0..self.requests.len()).filter(|at| self.reaches[side(self.requests[*at].1)]).collect();
        if let Some(at) = self.pick(&arriving) {
            let (number, request) = self.requests.swap_remove(at);
            let (ruling, answer) = decide(self.ruling, request);
            self.ruling = ruling;
            let is_of_target = matches!(request, Request::Alone { end: End::Target, .. });
            self.forgot_grant &= !(is_of_target && answer == Answer::Granted);
            if !healed && self.random.below(50) == 0 {
                // The ruling was durable before.
                self.crash();
                return None;
            }
            self.answers.push((number, side(request), answer));
        }
        let arriving: Vec<usize> =
            (0..self.answers.len()).filter(|at| self.reaches[self.answers[*at].1]).collect();
        let at = self.pick(&arriving)?;
        let (number, side, answer) = self.answers.swap_remove(at);
        let asked = self.asked[side].take_if(|asked| asked.number == number)?;
        Some((asked.request, answer))
    }

    fn pick(&mut self, among: &[usize]) -> Option<usize> {
        let at = self.random.below(among.len().max(1) as u64) as usize;
        among.get(at).copied().filter(|_| self.random.below(3) > 0)
    }
}

impl World {
    /// One turn of the witness and of both arrays' requests.
    pub(super) fn arbitrate(&mut self) -> Check {
        let Some(mut it) = self.arbitration.take() else { return Ok(()) };
        if !self.healed {
            it.fail();
        }
        it.give_up();
        let arrived = it.deliver(self.healed);
        self.arbitration = Some(it);
        match arrived {
            Some((Request::Alone { end: End::Target, .. }, Answer::Granted)) => self.promote()?,
            Some((Request::Alone { end: End::Source, .. }, answer)) => self.hear_source(answer)?,
            Some((Request::Enroll { .. }, Answer::Granted)) => self.witness()?.enrolled = true,
            Some((Request::Join { session }, Answer::Granted)) => self.witness()?.joined = Some(session),
            Some((Request::Join { .. }, Answer::Unknown)) => {
                // A further session, known to the witness.
                self.witness()?.enrolled = false;
                self.link.iter().for_each(Link::cut);
            }
            Some((Request::Join { session }, Answer::Outdated)) => self.check_session(session)?,
            _ => {}
        }
        self.ask_as_source()?;
        self.ask_as_target()
    }

    pub(super) fn witness(&mut self) -> Result<&mut Arbitration, String> {
        self.arbitration.as_mut().ok_or_else(|| "the world has a witness".into())
    }

    fn is_due(&mut self, turns: u64) -> bool {
        self.arbitration.as_mut().is_some_and(|it| it.random.below(turns) == 0)
    }

    fn ask_as_source(&mut self) -> Check {
        if self.lost == Some(End::Source) || !self.is_due(100) || self.witness()?.fenced {
            return Ok(());
        }
        let is_apart = self.syncing.is_none() && self.mirroring.is_none();
        let state = self.mirror.state();
        let request = match state {
            MirrorState::InSync if self.witness()?.joined.is_some() => None,
            MirrorState::InSync => {
                let session = self.claim_of_source()?;
                // The session may have ended since, and the source may have crashed.
                let session = session.filter(|_| self.mirror.state() == MirrorState::InSync);
                session.map(|session| Request::Join { session })
            }
            // Also while a session begins.
            _ if !self.witness()?.enrolled => {
                let sender = self.sender.clone().ok_or("the source is up")?;
                let points = sender.points(REPLICATION).map_err(|cause| cause.to_string())?;
                let session = points.last().map_or(1, ::replication::Point::next_session);
                Some(Request::Enroll { session })
            }
            MirrorState::Held | MirrorState::Stopped if is_apart => {
                let session = self.claim_of_source()?;
                session.map(|session| Request::Alone { session, end: End::Source })
            }
            _ => None,
        };
        if let Some(request) = request {
            self.witness()?.ask(request);
        }
        Ok(())
    }

    /// Checks that the witness has no newer session, for which it would refuse this one.
    fn check_session(&mut self, session: u64) -> Check {
        let is_lasting =
            self.claim_of_source()? == Some(session) && self.mirror.state() == MirrorState::InSync;
        match is_lasting {
            true => Err(format!("the witness takes session {session}, which lasts, for an older one")),
            false => Ok(()),
        }
    }

    fn claim_of_source(&mut self) -> Result<Option<u64>, String> {
        let found = self.on_source(|engine| async move { source_claim(&engine, REPLICATION).await })?;
        found.map_err(|cause| format!("reading the session: {cause}"))
    }

    /// Handles the witness's answer to the source.
    fn hear_source(&mut self, answer: Answer) -> Check {
        match answer {
            Answer::Granted => {
                let gone = self
                    .on_source(|engine| async move { engine.put_records(vec![disarm(REPLICATION)]).await })?;
                gone.map_err(|cause| format!("disarming: {cause}"))?;
                self.look()?;
                self.go_alone();
                self.mirror.go_alone();
                self.report.consents += 1;
                Ok(())
            }
            // The target may not be informed yet: it asks again.
            Answer::Other => {
                self.mirror.refuse();
                self.witness()?.fenced = true;
                Ok(())
            }
            Answer::Outdated => Ok(()),
            Answer::Unknown => {
                self.witness()?.enrolled = false;
                Ok(())
            }
        }
    }

    fn ask_as_target(&mut self) -> Check {
        let patience = self.witness()?.patience;
        // A source with this answer takes no writes any more.
        let is_patient = self.is_reconciling && !self.witness()?.fenced;
        let may = self.lost != Some(End::Target) && !is_patient && self.serving.is_empty();
        if !may || !self.is_due(patience) || self.is_granted()? {
            return Ok(());
        }
        loop {
            let receiver = self.receiver.clone().ok_or("the target is up")?;
            let claim = async move { receiver.claim(REPLICATION).await };
            match self.target.machine.finish(claim)? {
                Some(claim) => {
                    if let Some(session) = claim.map_err(|cause| format!("claiming: {cause}"))? {
                        self.witness()?.ask(Request::Alone { session, end: End::Target });
                    }
                    return Ok(());
                }
                None => self.crash_target()?,
            }
        }
    }

    /// Whether both arrays would begin a session.
    pub(super) fn is_taking_sessions(&self) -> Result<bool, String> {
        match &self.arbitration {
            Some(it) => Ok(it.lets_begin() && !self.is_granted()?),
            None => Ok(true),
        }
    }

    /// Whether the group was granted to the target.
    pub(super) fn is_granted(&self) -> Result<bool, String> {
        let engine = self.target.engine.as_ref().ok_or("the target is up")?;
        Ok(!engine.records(GRANTED).is_empty())
    }

    /// Makes a point of the target's data.
    pub(super) fn seal_target(&mut self) -> Check {
        loop {
            let target = self.receiver.clone().ok_or("the target is up")?;
            match self.target.machine.finish(async move { target.seal(REPLICATION).await })? {
                Some(sealed) => return sealed.map(drop).map_err(|cause| format!("sealing: {cause}")),
                None => self.crash_target()?,
            }
        }
    }

    /// The volumes of the target's newest point.
    pub(super) fn newest_of_target(&mut self) -> Result<Vec<(DiskId, Content)>, String> {
        let target = self.receiver.clone().ok_or("the target is up")?;
        let point = target.points(REPLICATION).map_err(|cause| cause.to_string())?.pop();
        let point = point.ok_or("the target has no point")?;
        let mut found = Vec::new();
        for volume in &point.volumes {
            let (id, snapshot) = (DiskId(volume.source), DiskId(volume.snapshot));
            found.push((id, self.read_target(snapshot)?));
        }
        Ok(found)
    }

    /// The target continues alone: its data become volumes that hosts write to.
    fn promote(&mut self) -> Check {
        loop {
            let engine = self.target.engine.clone().ok_or("the target is up")?;
            let granted = async move { engine.put_record(GRANTED, Some(Bytes::from_static(b"1"))).await };
            match self.target.machine.finish(granted)? {
                Some(done) => break done.map_err(|cause| format!("noting the grant: {cause}"))?,
                // It asks again.
                None => {
                    self.crash_target()?;
                    if !self.is_granted()? {
                        return Ok(());
                    }
                }
            }
        }
        self.seal_target()?;
        let found = self.newest_of_target()?;
        self.report.promotions += 1;
        self.witness()?.promoted = Some(found);
        self.check_promoted().map_err(|what| format!("the promoted target lacks a write: {what}"))
    }

    /// Compares the promoted content with the acknowledged writes: it must have all of them.
    pub(super) fn check_promoted(&self) -> Check {
        let promoted = self.arbitration.as_ref().and_then(|it| it.promoted.as_ref());
        let mut volumes = promoted.into_iter().flatten();
        volumes.try_for_each(|(id, found)| compare(*id, found, &self.versions))
    }

    /// After a promotion: the source acknowledges nothing more, and is informed by a witness that has its memory.
    pub(super) fn end_promoted(&mut self) -> Check {
        for _ in 0..TURNS_AFTER_PROMOTION {
            self.turn()?;
        }
        self.heal();
        if self.lost == Some(End::Source) || self.witness()?.forgot_grant {
            return Ok(());
        }
        let mut turns = 0;
        while !self.witness()?.fenced {
            turns += 1;
            if turns > MAX_HEALED_TURNS {
                return Err(format!("the source does not hear of the promotion: {:?}", self.mirror.state()));
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Loses one of three healthy parties permanently: hosts are served again.
    pub(super) fn lose_one(&mut self) -> Check {
        let lost = match self.witness()?.random.below(3) {
            0 => Some(End::Source),
            1 => Some(End::Target),
            _ => None,
        };
        self.heal();
        let mut turns = 0;
        // Until the witness knows the current session.
        while !self.is_known_in_sync()? && !self.is_promoted() {
            if self.needs_operator() {
                return Ok(());
            }
            turns += 1;
            if turns > MAX_HEALED_TURNS {
                return Err(format!("not all three agree: {:?}", self.mirror.state()));
            }
            self.turn()?;
        }
        if self.is_promoted() {
            return self.end_promoted();
        }
        self.link.iter().for_each(Link::cut);
        self.replaced.drain(..).for_each(|link| link.cut());
        self.lost = lost;
        let it = self.witness()?;
        match lost {
            Some(end) => it.forget(end),
            None => {
                it.crash();
                it.reaches = [false; 2];
                // Until its patience ends, the session continues.
                self.is_reconciling = true;
            }
        }
        let (mut turns, mut before) = (0, None);
        while !self.is_served(before) {
            turns += 1;
            if turns > MAX_HEALED_TURNS {
                return Err(format!("no array serves without {lost:?}: {:?}", self.mirror.state()));
            }
            if self.mirror.state() != MirrorState::InSync {
                before.get_or_insert(self.report.operations);
            }
            self.turn()?;
        }
        Ok(())
    }

    fn is_known_in_sync(&mut self) -> Result<bool, String> {
        if self.mirror.state() != MirrorState::InSync {
            return Ok(false);
        }
        let joined = self.witness()?.joined;
        let known = self.arbitration.as_ref().and_then(|it| it.ruling);
        let is_known = joined.is_some_and(|session| known == Some(Ruling { session, alone: None }));
        // Also, the target has not asked before the source knows that the session is lost.
        let is_asked = self.arbitration.as_ref().is_some_and(|it| !it.requests.is_empty());
        let is_known = is_known && !is_asked && !self.serving.is_empty();
        Ok(is_known && self.claim_of_source()? == joined && self.mirror.state() == MirrorState::InSync)
    }

    /// Whether an array acknowledges writes again after the loss. `before`: number of operations until the session had
    /// ended.
    fn is_served(&self, before: Option<u64>) -> bool {
        match self.lost {
            Some(End::Source) => self.is_promoted(),
            _ => before.is_some_and(|before| self.report.operations > before),
        }
    }

    /// Whether only the source knows that the target continues alone, and the witness has lost its memory of it.
    pub(super) fn needs_operator(&self) -> bool {
        let source_alone_knows = |it: &Arbitration| it.fenced && it.forgot_grant && it.promoted.is_none();
        self.arbitration.as_ref().is_some_and(source_alone_knows)
    }

    /// Whether the target was promoted.
    pub(super) fn is_promoted(&self) -> bool {
        self.arbitration.as_ref().is_some_and(|it| it.promoted.is_some())
    }
}

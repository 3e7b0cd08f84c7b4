//! Operator requests about the scrub, and the scrub that begins by itself.

use crate::Result;
use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::request::verbs;
use crate::service::caller::Caller;
use crate::shape::view::Job;
use history::Severity;
use records::{Edit, Record};

verbs! {
    #![tag = "drives"]

    /// Start a scrub
    ///
    /// Reads and verifies all data in use, and repairs what is wrong.
    StartScrub {} -> Job, Change "start" "scrub", Operator, at POST "/scrub" 202 says "The job"
        => |tx, _| tx.start_scrub().await;
}

impl Array {
    /// Begins a scrub when it is time, and nothing is at risk: what is missing comes before what may be wrong.
    pub(crate) async fn scrub_when_due(&self) {
        if !self.scrubs.is_due() {
            return;
        }
        let begun = self.perform(&Caller::array(), StartScrub).await;
        self.scrubs.note_start(begun.is_ok());
        if let Err(error) = begun {
            let message = format!("the scrub that is due could not begin: {error}; it is tried again");
            self.log_event(Severity::Warning, "scrub.failed", None, message);
        }
    }
}

impl Transaction<'_> {
    pub async fn start_scrub(&mut self) -> Result<Job> {
        let scrub = self.array.scrubs.new_scrub(&self.caller.user)?;
        self.commit(vec![Edit::Put(Record::Scrub(scrub.clone()))]).await?;
        let job = self.array.scrubs.run(scrub);
        let message = format!("a scrub was started by {}", self.caller.user);
        self.array.log_event(Severity::Info, "scrub.started", None, message);
        Ok(job)
    }
}

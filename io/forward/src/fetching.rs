//! A command of a session, from its start to its end: the answer of the home, and data that this controller reads itself.

use block::{Data, Recipe, Resolver};
use scsi::Response;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// Progress of a command, of which the front end notifies its task.
pub enum Progress {
    /// It has ended; without a response if it was aborted.
    Ended(Option<Response>),
    /// The home was asked again, for its data.
    AskedAgain(oneshot::Receiver<Progress>),
    /// Its data are to be read here.
    Located(Fetch),
}

/// Data to be read.
pub struct Fetch {
    /// The number of the command.
    pub number: u64,
    /// Their location.
    pub recipe: Recipe,
    /// Reads them.
    pub resolver: Arc<dyn Resolver>,
    /// The further progress of the command.
    pub progress: oneshot::Receiver<Progress>,
}

/// Progress of the command or its data, whichever arrives first.
enum Race {
    Progress(Progress),
    Data(Option<Data>),
}

/// Waits for the end of a command. `fetched` gives the response to one whose data were read, or `None` if it has other progress.
/// Dropping this drops what is being read.
pub async fn follow(
    fetched: impl Fn(u64, Option<Data>) -> Option<Response>,
    mut progress: oneshot::Receiver<Progress>,
) -> Option<Response> {
    loop {
        // The sender goes with the nexus.
        let mut news = progress.await.ok()?;
        if let Progress::Located(fetch) = news {
            let (number, recipe) = (fetch.number, fetch.recipe);
            let (mut data, mut next) = (fetch.resolver.resolve(recipe), fetch.progress);
            let race = poll_fn(|context| match Pin::new(&mut next).poll(context) {
                Poll::Ready(news) => Poll::Ready(news.ok().map(Race::Progress)),
                Poll::Pending => data.as_mut().poll(context).map(|data| Some(Race::Data(data))),
            });
            news = match race.await? {
                Race::Progress(news) => news,
                Race::Data(data) => match fetched(number, data) {
                    Some(response) => return Some(response),
                    // The command has ended since, or the home was asked.
                    None => next.await.ok()?,
                },
            };
        }
        match news {
            Progress::Ended(response) => return response,
            Progress::AskedAgain(next) => progress = next,
            // Of a command that was asked again nothing is located.
            Progress::Located(_) => return None,
        }
    }
}

//! A forwarded command of a session: waits for the home's answer, or reads the data that the home has located.

use block::{Data, Recipe, Resolver};
use scsi::Response;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// Progress of a command; the front end notifies the command's task of it.
pub enum Progress {
    /// The command has ended; without a response if it was aborted.
    Ended(Option<Response>),
    /// The home was asked again for the data.
    AskedAgain(oneshot::Receiver<Progress>),
    /// This controller has to read the data.
    Located(Fetch),
}

/// Data to be read.
pub struct Fetch {
    /// The number of the command.
    pub number: u64,
    /// Location of the data.
    pub recipe: Recipe,
    /// Reader of the data.
    pub resolver: Arc<dyn Resolver>,
    /// Further progress of the command.
    pub progress: oneshot::Receiver<Progress>,
}

/// Progress of the command or its data, whichever arrives first.
enum Race {
    Progress(Progress),
    Data(Option<Data>),
}

/// Waits for the end of a command. `fetched` returns the response of a command whose data were read, or `None` if the
/// command has made other progress. Dropping the future cancels the read.
pub async fn follow(
    fetched: impl Fn(u64, Option<Data>) -> Option<Response>,
    mut progress: oneshot::Receiver<Progress>,
) -> Option<Response> {
    loop {
        // The sender is dropped with the nexus.
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
                    // The command has ended since, or the home was asked again.
                    None => next.await.ok()?,
                },
            };
        }
        match news {
            Progress::Ended(response) => return response,
            Progress::AskedAgain(next) => progress = next,
            // The data of a command that was asked again are never located.
            Progress::Located(_) => return None,
        }
    }
}

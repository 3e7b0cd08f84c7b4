//! Protocols beside the link: the end that has connected says what it wants, and the home answers.

use crate::mutual_tls::Protocol;
use anyhow::{Context, Result, bail};
use array::{Duplex, framed};
use peer::versions::{self, Versions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// One of these protocols.
pub struct SideProtocol {
    /// What TLS knows it by.
    pub tls: Protocol,
    /// Its versions.
    pub version: versions::Protocol,
    /// Longest message.
    pub max_bytes: u32,
    /// How long the other end may take to ask or to answer.
    pub patience: Duration,
}

/// The first message.
#[derive(Serialize)]
struct Hello<'a, T> {
    versions: Versions,
    #[serde(flatten)]
    wanted: &'a T,
}

/// What is read of it first: the rest may be of another version.
#[derive(Deserialize)]
struct Spoken {
    versions: Versions,
}

/// The answer to it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Refused { refused: Refusal },
    Given(T),
}

#[derive(Serialize, Deserialize)]
struct Refusal {
    text: String,
}

impl SideProtocol {
    /// Of a front end, or of another controller, that does `what`.
    pub const fn new(
        tls: Protocol,
        [other, what]: [&'static str; 2],
        max_bytes: u32,
        patience: Duration,
    ) -> Self {
        let version = versions::Protocol { name: what, other, own: "the home", versions: [1, 1] };
        Self { tls, version, max_bytes, patience }
    }

    /// Says what this end wants; returns what the home answers.
    ///
    /// # Errors
    /// It refuses or is silent, or the connection has ended.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        stream: &mut impl Duplex,
        wanted: &impl Serialize,
    ) -> Result<T> {
        let hello = Hello { versions: self.version.versions, wanted };
        let exchange = async {
            framed::send(stream, &hello).await?;
            framed::receive(stream, self.max_bytes).await
        };
        match timeout(self.patience, exchange).await.context("it does not answer")?? {
            Answer::Given(answer) => Ok(answer),
            Answer::Refused { refused } => bail!("{}", framed::shown(&refused.text)),
        }
    }

    /// What the other end wants. One with which no version is in common is refused.
    ///
    /// # Errors
    /// Why there is nothing to answer.
    pub async fn asked<T: DeserializeOwned>(&self, stream: &mut impl Duplex) -> Result<T> {
        let hello = timeout(self.patience, framed::read(stream, self.max_bytes));
        let hello = hello.await.context("it does not ask in time")??;
        let Spoken { versions } = framed::decode(&hello)?;
        if let Err(error) = self.version.agree(versions) {
            self.refuse(stream, &error.to_string()).await?;
            bail!(error);
        }
        Ok(framed::decode(&hello)?)
    }

    /// Answers.
    ///
    /// # Errors
    /// The connection has ended, or the other end does not take the answer in time.
    pub async fn answer(&self, stream: &mut impl Duplex, answer: &impl Serialize) -> Result<()> {
        let answer = Answer::Given(answer);
        let sent = timeout(self.patience, framed::send(stream, &answer));
        Ok(sent.await.context("it does not take the answer in time")??)
    }

    /// Refuses, and waits until the other end has read why.
    ///
    /// # Errors
    /// The connection has ended, or the other end does not read.
    pub async fn refuse(&self, stream: &mut impl Duplex, why: &str) -> Result<()> {
        let refused = Refusal { text: why.to_owned() };
        let refusing = async {
            framed::send(stream, &Answer::<()>::Refused { refused }).await?;
            // It closes the connection when it has read that.
            _ = stream.read(&mut [0]).await;
            Ok(())
        };
        timeout(self.patience, refusing).await.context("it does not read why it is refused")?
    }
}

#[cfg(test)]
#[path = "message_test.rs"]
mod tests;

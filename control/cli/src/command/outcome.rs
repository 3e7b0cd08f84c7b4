//! What the commands of all nouns share: choices of options, conditions, and the outcome.

use crate::client::Answer;
use crate::show::Shown;
use ::client::Choice;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// What was created; with a note if it existed already.
pub fn created<A>(answer: Answer<A>) -> Shown {
    if answer.existed {
        eprintln!("It existed already with these properties: nothing was changed.");
    }
    answer.into()
}

/// Does the same with several objects, one after the other, up to the first with which it fails.
pub fn each(names: Vec<String>, one: impl Fn(String) -> Result<Shown>) -> Result<Shown> {
    let count = names.len();
    let mut done: Vec<Shown> = Vec::new();
    for name in names {
        match one(name.clone()) {
            Ok(shown) => done.push(shown),
            Err(error) if done.is_empty() => return Err(error),
            Err(error) => {
                let so_far: String = done.iter().map(Shown::table).collect();
                return Err(error.context(format!("{so_far}{name} and what follows it is unchanged")));
            }
        }
    }
    Ok(if count == 1 { done.remove(0) } else { Shown::several(done) })
}

/// The condition of a list that a field is a text, whatever the text is.
pub fn equal(field: &str, text: &str) -> String {
    let quoted = text.replace('\\', r"\\").replace(',', r"\,").replace('*', r"\*");
    format!("{field}={quoted}")
}

impl<A> From<Answer<A>> for Shown {
    fn from(answer: Answer<A>) -> Self {
        Shown::of(answer.value, answer.schema)
    }
}

/// A value of an enumeration of the API.
pub fn choice<T>() -> impl TypedValueParser<Value = T>
where
    T: Choice<Err: std::error::Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::CHOICES).try_map(|text| text.parse::<T>())
}

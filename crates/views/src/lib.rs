//! Projections of a journal onto the shapes of the protocol: runs, sessions, traces, the audit log, waits. Nothing here
//! writes to a journal or decides about a run (state comes from the engine's own fold), and nothing lays a shape out
//! for people.

pub mod approvals;
pub mod audit;
mod background;
pub mod beside;
pub mod budget;
mod caching;
pub mod context;
pub mod deliveries;
mod error;
pub mod events;
mod explain;
pub mod files;
mod fold;
mod interrupted;
mod label;
pub mod lookup;
mod owner;
mod plan;
pub mod questions;
pub mod reply;
pub mod run;
#[cfg(any(test, feature = "scene"))]
pub mod scene;
pub mod search;
mod sentence;
pub mod session;
mod session_key;
mod terminal_text;
mod trace;
pub mod usage;
mod vocabulary;
pub mod waiting;

use std::cell::Cell;
use std::path::Path;

use engine::{Body, LaneWait, RunId};
use journal::Read;

use crate::events::wait;

pub use background::{Unrecorded, background, overlap, started_calls, unrecorded};
pub use error::Error;
pub use explain::explain;
pub use interrupted::interrupted;
pub use owner::owner;
pub use plan::open_plan;
pub use reply::{reply, waited};
pub use sentence::name;
pub use sentence::{SettingsOf, settings_of};
pub use session::fold_branch;
pub use session_key::SessionKey;
pub use terminal_text::{AnswerText, PrintableAnswer, is_unsafe, printable, printable_line};
pub use trace::trace;
pub use vocabulary::{count, excerpt, never_began, tokens};

/// A home that is read.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub home: &'a Path,
    pub read: &'a dyn Read,
    /// Whether it cannot be written, so that the last entries of its owner may be missing.
    pub immutable: bool,
    /// The maximum text of a response, in bytes.
    pub most_bytes: u64,
    /// The runs that wait for a lane, as their owner knows them.
    pub waits: &'a [LaneWait],
    /// The names of the configured agents, for a method that lists them.
    pub agents: &'a [String],
    /// The keys of the sessions that wait for space on the disk, as their owner knows them.
    pub full: &'a [String],
}

/// The source of the text of a body.
pub type Texts<'a> = &'a dyn Fn(&Body) -> Result<String, Error>;

/// The texts of a journal. Invalid UTF-8 is replaced; an erased text is reported as erased.
pub fn texts(read: &dyn Read) -> impl Fn(&Body) -> Result<String, Error> {
    move |body| {
        let bytes = read.body(&body.hash)?;
        Ok(bytes.map_or_else(|| "[erased]".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl<'a> Source<'a> {
    /// This journal, without a folder.
    #[cfg(any(test, feature = "scene"))]
    pub fn of(read: &'a dyn Read) -> Self {
        let most_bytes = u64::MAX;
        Self { home: Path::new("/nowhere"), read, immutable: false, most_bytes, waits: &[], full: &[], agents: &[] }
    }

    /// The wait of this run for a lane, if it waits.
    pub fn lane_wait(&self, run: RunId) -> Option<protocol::show::LaneWait> {
        self.waits.iter().find(|wait| wait.request.run == run).map(wait::shape)
    }

    /// The texts of this home, up to the maximum of a response: the size is checked before they are read.
    pub fn texts(&self) -> impl Fn(&Body) -> Result<String, Error> + use<'a> {
        let (texts, left) = (texts(self.read), Cell::new(self.most_bytes));
        move |body| {
            left.set(left.get().checked_sub(body.bytes).ok_or(Error::TooLarge)?);
            texts(body)
        }
    }
}

//! Projections of a journal onto the shapes of the protocol: runs, sessions, traces, the audit log, what is waited for.
//! What may not live here: anything that writes to a journal, any rule about what a run does (state comes from the engine's
//! own fold), and how a shape is laid out for people.

pub(crate) mod audit;
pub(crate) mod budget;
pub(crate) mod context;
mod explain;
pub(crate) mod fold;
pub mod lookup;
mod owner;
pub(crate) mod run;
#[cfg(any(test, feature = "scene"))]
pub mod scene;
mod sentence;
pub(crate) mod session;
mod trace;
pub(crate) mod usage;
mod vocabulary;
pub(crate) mod waiting;

use std::cell::Cell;
use std::path::Path;

use engine::{Body, LaneWait, RunId};
use journal::Read;

use crate::error::Error;
use crate::events::wait;

pub(crate) use explain::explain;
pub use owner::owner;
pub use sentence::name;
pub(crate) use sentence::names;
pub use session::fold_branch;
pub use trace::trace;
pub use vocabulary::{count, excerpt, never_began, printable, tokens};

/// A home that is read.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Its folder.
    pub home: &'a Path,
    /// Its journal.
    pub read: &'a dyn Read,
    /// Whether it cannot be written, so that what its owner wrote last may be missing.
    pub immutable: bool,
    /// How much text an answer may have, bytes.
    pub most_bytes: u64,
    /// The runs that wait for a place in a lane, as its owner knows.
    pub waits: &'a [LaneWait],
}

/// Where the text of a body comes from.
pub type Texts<'a> = &'a dyn Fn(&Body) -> Result<String, Error>;

/// The texts of a journal. What is not UTF-8 is replaced; what was erased says so.
pub fn texts(read: &dyn Read) -> impl Fn(&Body) -> Result<String, Error> {
    move |body| {
        let bytes = read.body(&body.hash)?;
        Ok(bytes.map_or_else(|| "[erased]".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl<'a> Source<'a> {
    /// This journal, of a home that is nowhere.
    #[cfg(any(test, feature = "scene"))]
    pub fn of(read: &'a dyn Read) -> Self {
        Self { home: Path::new("/nowhere"), read, immutable: false, most_bytes: u64::MAX, waits: &[] }
    }

    /// The wait of this run for its place, if it waits.
    pub(crate) fn lane_wait(&self, run: RunId) -> Option<protocol::show::LaneWait> {
        self.waits.iter().find(|wait| wait.request.run == run).map(wait::shape)
    }

    /// The texts of this home, until there are more than an answer may have: that is seen before they are read.
    pub(crate) fn texts(&self) -> impl Fn(&Body) -> Result<String, Error> + use<'a> {
        let (texts, left) = (texts(self.read), Cell::new(self.most_bytes));
        move |body| {
            left.set(left.get().checked_sub(body.bytes).ok_or(Error::TooLarge)?);
            texts(body)
        }
    }
}

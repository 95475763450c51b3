//! A history made shorter: written out for a model that summarises it, or in extract where there is none; long results cut
//! to their beginning and end. What may not live here: when that happens, and what becomes of it (`engine`).

mod ask;
mod cut;
mod extract;
mod told;

pub(crate) use ask::{PieceRequest, chunks, completed, question};
pub(crate) use cut::cut;
pub(crate) use extract::extract;
pub(crate) use told::{Told, told};

/// What stands before a summary where the model reads it.
pub(crate) const OPENING: &str = "[The conversation before this point was summarised to make room. The summary follows; the messages \
                                  after it are as they were.]\n\n";

//! Compacts a history: written out for a model that summarises it, as an extract without a model, or with long results
//! truncated. When that happens, and what follows from it, is decided in `engine`.

mod ask;
mod extract;
mod history;
mod truncate;

pub(crate) use ask::{PieceRequest, chunks, completed, question};
pub(crate) use extract::extract;
pub(crate) use history::{HistoryItem, history_items};
pub(crate) use truncate::truncate;

/// The heading of a summary, as the model reads it.
pub(crate) const OPENING: &str = "[The conversation before this point was summarised to make room. The summary follows; the messages \
                                  after it are as they were.]\n\n";

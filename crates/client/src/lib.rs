//! The client's side of a home: finds the owner or becomes it (`owner_client`, `here`, `claim`; a service: `taking`), follows
//! sessions and goes on with the next owner after the last line (`subscriber`, `reopening`, `progress`), and reads the same
//! lines from the journal where no owner responds (`stream`). What may not live here: printing, questions and signals. A
//! caller receives what happened and decides what to say.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod claim;
mod error;
mod here;
mod owner_client;
mod progress;
mod reopening;
mod stream;
mod subscriber;
mod taking;

pub use claim::Claim;
pub use error::Error;
pub use owner_client::{NOTES, Opening, OpeningNotice, OwnerClient, adopt, hang_up, is_gone, look};
pub use reopening::Reopened;
pub use stream::{StreamReader, StreamTarget};
pub use subscriber::{Arrival, HOME, Subscriber};
pub use taking::{Taken, TakingNotice, take};

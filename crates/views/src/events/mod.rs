//! What subscribers read: committed batches as lines and as chat, and what a resuming reader has missed. Who is notified
//! does not belong here.

mod batch_position;
mod catch_up;
mod chat;
mod lines;
mod missed;
mod position;
mod projection;
mod resume;
mod shows;
pub mod wait;

pub use batch_position::{BatchPosition, LinePosition};
pub use catch_up::CatchUp;
pub use chat::Chats;
pub use lines::{Lines, rewound};
pub use position::{InvalidCursor, StreamPosition, StreamScope};
pub use projection::{Line, text_bytes};
pub use resume::Resume;

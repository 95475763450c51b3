//! What subscribers read: committed batches as lines, what a resuming reader has missed, and the hub that notifies
//! them. Transport and access rules do not belong here.

mod batch_position;
mod catch_up;
mod chat;
mod hub;
mod lines;
mod missed;
mod position;
mod projection;
mod resume;
mod short_runs;
mod shows;
mod subscription;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

pub use batch_position::LinePosition;
pub use catch_up::CatchUp;
pub(crate) use chat::Chats;
pub(crate) use hub::{End, Hub, Waiting, is_over};
pub use lines::{Lines, rewound};
pub use position::{InvalidCursor, StreamPosition, StreamScope};
pub use projection::Line;
pub use resume::Resume;
pub(crate) use subscription::{Target, split};

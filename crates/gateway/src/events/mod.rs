//! What subscribers read: committed batches as lines, what one that comes back has missed, who is told of them. What may
//! not live here: who may read, and by which way it gets there.

mod catch_up;
mod chat;
mod hub;
mod lines;
mod missed;
mod place;
mod position;
mod resume;
mod shows;
mod subscription;
mod telling;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

pub use catch_up::CatchUp;
pub(crate) use chat::Chats;
pub(crate) use hub::{End, Hub, Waiting, is_over};
pub use lines::{Lines, rewound};
pub use place::LinePosition;
pub use position::{InvalidCursor, StreamPosition, StreamScope};
pub use resume::Resume;
pub(crate) use subscription::{Target, split};
pub use telling::Line;

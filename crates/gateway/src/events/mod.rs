//! What subscribers read: committed batches as lines, what one that comes back has missed, who is told of them. What may
//! not live here: who may read, and by which way it gets there.

mod catch_up;
mod chat;
mod cursor;
mod home;
mod home_cursor;
mod hub;
mod lines;
mod shows;
mod spot;
mod subscription;
mod telling;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

pub use catch_up::{CatchUp, before_run, catch_up};
pub(crate) use chat::Chats;
pub use cursor::{Cursor, InvalidCursor, Place, Since};
pub use home::HomeReading;
pub use home_cursor::HomeCursor;
pub(crate) use hub::{End, Hub, Waiting, is_over};
pub use lines::{Lines, rewound};
pub(crate) use subscription::{CaughtUp, Target, split};
pub use telling::Line;

//! What subscribers read: committed batches as lines, and what one that comes back has missed. What may not live here:
//! who may read, and by which way it gets there.

mod catch_up;
mod cursor;
mod lines;
mod telling;

pub use catch_up::{CatchUp, catch_up};
pub use cursor::{Cursor, InvalidCursor, Place, Since};
pub use lines::{Lines, rewound};
pub use telling::{Line, run_end};

//! Draws a run for a person: the answer on stdout, everything else on stderr. Nothing is printed twice.

mod calls;
mod rows;
mod screen;
mod vocabulary;

pub(crate) use screen::{SPINNER, Screen, Style};

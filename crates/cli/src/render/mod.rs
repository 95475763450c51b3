//! Draws a run for a person: the answer on stdout, everything else on stderr. Nothing is printed twice.

mod call_output;
mod call_text;
mod colours;
mod diff;
mod live_output;
mod markdown;
mod plan;
mod rows;
mod screen;
mod style;
mod vocabulary;

pub(crate) use call_text::call_in_words;
pub(crate) use diff::coloured;
pub(crate) use plan::plan_lines;
pub(crate) use screen::{Asks, SPINNER, Screen};
pub(crate) use style::{MarkdownMode, Style, set_markdown};

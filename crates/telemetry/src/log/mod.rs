//! Log lines: who may read them decides how they look, as text or as one JSON object a line. They have ids, names, classes and times,
//! and no text of a conversation, no arguments and no output of a call.

mod queue;
mod story;

use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{FilterFn, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

use queue::{Lines, Queue};

pub(crate) use story::Story;

/// What the targets of our own lines begin with. Those of libraries may show what is sent, and are left out.
const OWN: &str = "limulus";

/// The longest time that the end of the process waits for a slow reader.
const FLUSH: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// The target of spans. They say where a line belongs, so there are lines without them only if there are none at all.
const SPANS: &str = "limulus::spans";

/// How a line looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Time, level, spans and fields.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// A filter that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFilter {
    filter: String,
    why: String,
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LIMULUS_LOG is `{}`: {}", self.filter.escape_debug(), self.why)
    }
}

impl std::error::Error for BadFilter {}

/// Sends the log lines of this process to `write`, from a thread of their own: a reader that is slow delays nothing. What it cannot
/// take is left out, and counted in a line. `filter` is a level (`off`, `error`, `warn`, `info`, `debug`, `trace`), or several for
/// parts of the program, as in `info,limulus::http=debug`. To be called once.
pub fn install(filter: &str, format: Format, write: impl FnMut(&str) + Send + 'static) -> Result<(), BadFilter> {
    let lines = Queue::new(write).map_err(|error| bad(filter, &error.to_string()))?;
    let subscriber = subscriber(filter, format, lines.clone())?;
    tracing::subscriber::set_global_default(subscriber).map_err(|error| bad(filter, &error.to_string()))?;
    // There was none: a second subscriber would have been refused.
    let _ = QUEUE.set(lines);
    Ok(())
}

/// Waits until the lines so far are written, unless their reader is slow: for the end of the process.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH);
    }
}

fn bad(filter: &str, why: &str) -> BadFilter {
    BadFilter { filter: filter.to_owned(), why: why.to_owned() }
}

fn subscriber<W>(filter: &str, format: Format, lines: W) -> Result<impl Subscriber + Send + Sync, BadFilter>
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let targets = targets(filter)?;
    let own = FilterFn::new(|metadata: &Metadata<'_>| is_own(metadata.target()));
    let layer = tracing_subscriber::fmt::layer().with_writer(lines).with_ansi(false);
    let layer = match format {
        Format::Text => layer.boxed(),
        Format::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    Ok(tracing_subscriber::registry().with(layer.with_filter(targets).with_filter(own)))
}

/// Like the filters of other programs, but what is no level and no target is an error, not a target that never comes.
fn targets(filter: &str) -> Result<Targets, BadFilter> {
    for part in filter.split(',').map(str::trim) {
        let (target, level) = part.split_once('=').map_or((None, part), |(target, level)| (Some(target), level));
        // An empty one would be `error`.
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            let why = format!("`{}` is none of off, error, warn, info, debug, trace", level.escape_debug());
            return Err(bad(filter, &why));
        }
        if target.is_some_and(|target| !is_own(target)) {
            return Err(bad(filter, "a part of the program is called limulus::NAME"));
        }
    }
    let parsed: Result<Targets, _> = filter.parse();
    let targets = parsed.map_err(|error| bad(filter, &error.to_string()))?;
    Ok(targets.with_target(SPANS, LevelFilter::ERROR))
}

fn is_own(target: &str) -> bool {
    target.strip_prefix(OWN).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Queue {
    type Writer = Lines<'a>;

    fn make_writer(&'a self) -> Lines<'a> {
        self.lines()
    }
}

/// A line that this process says to its user, where lines are to be JSON.
pub fn note(text: &str) {
    tracing::info!(target: "limulus", "{text}");
}

impl io::Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! The tool `grep`: searches a regular expression in the files of a folder, in the order of their paths.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use engine::{ToolClass, ToolSpec};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::files::FileOpener;
use crate::limits::{GREP_BATCH, GREP_HEAP_BYTES, GREP_LINE_BYTES, GREP_MATCHES, GREP_THREADS, PATTERN_BYTES};
use crate::paths::{ResolvedPath, Workspace};
use crate::tool::{Act, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};
use crate::walk::{self, Hidden};

/// The tool.
pub(crate) struct Grep;

impl Tool for Grep {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            "grep",
            ToolClass::ReadOnly,
            "Search text in files, as `path:line: text`. Leaves out hidden, binary and git-ignored files. At most 200 matches.",
            &json!({
                "pattern": { "type": "string", "minLength": 1, "description": "A regular expression (Rust syntax)." },
                "path": { "type": "string", "minLength": 1, "description": "File or folder; the workspace if left out." },
                "glob": { "type": "string", "minLength": 1, "description": "Only files that match, for example `*.rs`." },
                "ignore_case": { "type": "boolean", "description": "Whether upper and lower case are the same." },
            }),
            &["pattern"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<GrepArguments>("grep", arguments)?))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct GrepArguments {
    pattern: String,
    #[serde(default = "tool_set::here")]
    path: String,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
}

impl FileCall for GrepArguments {
    fn acts(&self, workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Read { verb: "search", path: workspace.resolve(&self.path)? }])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        run(&at.workspace()?, self, cancel).map(ToolText::from)
    }
}

fn run(workspace: &Workspace, arguments: &GrepArguments, cancel: &Cancel) -> Result<String, ToolError> {
    let path = workspace.reach(&arguments.path)?;
    let search = Search { matcher: matcher(arguments)?, cancel };
    let found = Found::default();
    let seen = path.look().map_err(ToolError::file("search", path.shown.clone()))?;
    if seen.kind == FileType::RegularFile {
        found.add(0, search.batch(&mut searcher(), &[Ok(path.clone())]));
    } else {
        let entries = walk::entries(workspace, &path, arguments.glob.as_deref(), Hidden::LeftOut, cancel)?;
        // Links are not followed, so the search stays in the folder; pipes and devices are not opened.
        let is_file = |entry: &Result<walk::Entry, ToolError>| entry.as_ref().map_or(true, |entry| entry.is_file);
        let below = |entry: walk::Entry| workspace.below(&path, &entry.real);
        search.all(entries.filter(is_file).map(|entry| entry.map(below)), &found);
    }
    cancel.check()?;
    Ok(found.into_text())
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(GREP_HEAP_BYTES))
        .build()
}

/// A file to search, or an entry that cannot be read.
type File = Result<ResolvedPath, ToolError>;

/// What is searched for.
struct Search<'a> {
    matcher: RegexMatcher,
    cancel: &'a Cancel,
}

impl Search<'_> {
    /// Searches all of these files, on several threads if they are many. What is found is in their order.
    fn all(&self, mut files: impl Iterator<Item = File>, found: &Found) {
        let first: Vec<File> = files.by_ref().take(GREP_BATCH).collect();
        let is_last = first.len() < GREP_BATCH;
        if is_last {
            return found.add(0, self.batch(&mut searcher(), &first));
        }
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(GREP_THREADS);
        let (give, take) = mpsc::sync_channel::<(usize, Vec<File>)>(threads * 2);
        let take = Arc::new(Mutex::new(take));
        thread::scope(|scope| {
            for _ in 0..threads {
                let take = Arc::clone(&take);
                scope.spawn(move || {
                    let mut searcher = searcher();
                    // Each takes the next one as soon as it has done its last. The lock is only held while it waits for it.
                    while let Ok((at, batch)) = next(&take) {
                        if !found.is_full() && !self.cancel.is_set() {
                            found.add(at, self.batch(&mut searcher, &batch));
                        }
                    }
                });
            }
            // If all of them have panicked, nobody takes anything any more.
            drop(take);
            let mut batch = first;
            for at in 0.. {
                if batch.is_empty() || found.is_full() || self.cancel.is_set() || give.send((at, batch)).is_err() {
                    break;
                }
                batch = files.by_ref().take(GREP_BATCH).collect();
            }
            drop(give);
        });
    }

    /// Searches files in order, until there are as many matches as are shown.
    fn batch(&self, searcher: &mut Searcher, files: &[File]) -> Vec<Item> {
        let mut matches = Matches { cancel: self.cancel, shown: String::new(), items: vec![], count: 0 };
        let mut opener = FileOpener::default();
        for file in files {
            if self.cancel.is_set() || matches.is_full() {
                break;
            }
            let is_own = match file {
                Ok(file) => {
                    let result = opener.open(file, "search").and_then(|opened| {
                        matches.shown.clone_from(&file.shown);
                        let outcome = searcher.search_file(&self.matcher, &opened, &mut matches);
                        outcome.map_err(ToolError::file("search", file.shown.clone()))
                    });
                    result.is_ok() || result.is_err_and(|error| error.is_own())
                }
                Err(error) => error.is_own(),
            };
            // What belongs to limulus is left out, not reported: an error would say what is there.
            if !is_own {
                matches.items.push(Item::Unread);
            }
        }
        matches.items
    }
}

/// The next work; an error once there is no more.
fn next(take: &Mutex<mpsc::Receiver<(usize, Vec<File>)>>) -> Result<(usize, Vec<File>), mpsc::RecvError> {
    take.lock().unwrap_or_else(PoisonError::into_inner).recv()
}

fn matcher(arguments: &GrepArguments) -> Result<RegexMatcher, ToolError> {
    if arguments.pattern.len() > PATTERN_BYTES {
        return Err(ToolError::Pattern { reason: format!("it has more than {PATTERN_BYTES} bytes") });
    }
    let mut builder = RegexMatcherBuilder::new();
    let builder = builder.case_insensitive(arguments.ignore_case).line_terminator(Some(b'\n'));
    builder.build(&arguments.pattern).map_err(|error| ToolError::Pattern { reason: error.to_string() })
}

/// What a search comes to.
enum Item {
    Match(String),
    /// A file or folder that cannot be read.
    Unread,
}

/// What was found so far, in the order of the files, whichever thread finds it.
#[derive(Default)]
struct Found {
    ordered: Mutex<Ordered>,
    is_full: AtomicBool,
}

#[derive(Default)]
struct Ordered {
    /// The batch whose items come next.
    next: usize,
    /// Batches that were done before an earlier one.
    ahead: BTreeMap<usize, Vec<Item>>,
    text: String,
    count: usize,
    unread: usize,
}

impl Ordered {
    fn take_next(&mut self) -> Option<Vec<Item>> {
        let items = self.ahead.remove(&self.next)?;
        self.next += 1;
        Some(items)
    }
}

impl Found {
    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn add(&self, at: usize, items: Vec<Item>) {
        let mut ordered = self.ordered.lock().unwrap_or_else(PoisonError::into_inner);
        ordered.ahead.insert(at, items);
        while let Some(items) = ordered.take_next() {
            for item in items {
                match item {
                    _ if ordered.count >= GREP_MATCHES => break,
                    Item::Match(line) => {
                        ordered.text += &line;
                        ordered.count += 1;
                    }
                    Item::Unread => ordered.unread += 1,
                }
            }
            if ordered.count >= GREP_MATCHES {
                self.is_full.store(true, Ordering::Relaxed);
            }
        }
    }

    fn into_text(self) -> String {
        let Ordered { text, count, unread, .. } = self.ordered.into_inner().unwrap_or_else(PoisonError::into_inner);
        let none = if count == 0 { "no matches\n" } else { "" };
        let stopped = if count >= GREP_MATCHES {
            format!("[stopped after {GREP_MATCHES} matches; narrow the pattern, the path or the glob]\n")
        } else {
            String::new()
        };
        let missed =
            if unread > 0 { format!("[{unread} files or folders could not be read]\n") } else { String::new() };
        text + none + &stopped + &missed
    }
}

/// The matches in a few files.
struct Matches<'a> {
    cancel: &'a Cancel,
    /// The file that is being searched.
    shown: String,
    items: Vec<Item>,
    count: usize,
}

impl Matches<'_> {
    fn is_full(&self) -> bool {
        self.count >= GREP_MATCHES
    }
}

impl Sink for Matches<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let line = String::from_utf8_lossy(found.bytes());
        let line = line.trim_end_matches(['\r', '\n']);
        let shown = &line[..line.floor_char_boundary(GREP_LINE_BYTES)];
        let rest = if shown.len() < line.len() { " […]" } else { "" };
        let number = found.line_number().unwrap_or(0);
        self.items.push(Item::Match(format!("{}:{number}: {shown}{rest}\n", self.shown)));
        self.count += 1;
        Ok(!self.is_full() && !self.cancel.is_set())
    }
}

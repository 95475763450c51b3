//! The tools `memory_search` and `memory_get`: passages and lines of `MEMORY.md` and of the files below `memory/`, in the workspace
//! and in the user's own folder. The files are the memory; an index of their words is made from them and can be thrown away.

mod files;
mod get;
mod index;
mod passages;
mod scan;
mod search;
mod words;

use engine::{ToolClass, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::ToolError;
use crate::limits::{PASSAGES_FOUND, PASSAGES_FOUND_DEFAULT, QUERY_CHARS, READ_LINES};
use crate::tool::{Needs, ParsedCall, Tool};
use crate::tool_set::{self, spec};

pub use files::has_memory;
pub use index::{
    FileWords, FoundPassages, IndexedFile, MemoryContext, MemoryIndex, MemoryQuery, MemorySearch, PassageHit,
};

const SEARCH: &str = "memory_search";
const GET: &str = "memory_get";

/// The tool `memory_search`.
pub(crate) struct SearchMemory;

impl Tool for SearchMemory {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            SEARCH,
            ToolClass::ReadOnly,
            "Search what was written down to be remembered (MEMORY.md, memory/**/*.md): passages with these words, best first, \
             as `path:first-last`. Search before you answer about earlier work, decisions, dates, people or preferences.",
            &json!({
                "query": { "type": "string", "minLength": 1, "description": "A few words, 400 characters at most." },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": PASSAGES_FOUND,
                    "description": "How many passages; the default is 6.",
                },
            }),
            &["query"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        let call = tool_set::arguments::<SearchArguments>(SEARCH, arguments)?;
        let misfit = |violations: String| Err(ToolError::Arguments { tool: SEARCH.to_owned(), violations });
        if call.query.chars().nth(QUERY_CHARS).is_some() {
            return misfit(format!("`query`: {QUERY_CHARS} characters are the most; search for fewer words"));
        }
        match words::query(&call.query) {
            Some(query) => Ok(ParsedCall::files(search::Search { query, most: call.limit })),
            None => misfit("`query`: there is no word in it; say what to search for".to_owned()),
        }
    }

    fn needs(&self) -> Needs {
        Needs::Memory
    }
}

#[derive(Debug, Deserialize)]
struct SearchArguments {
    query: String,
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    PASSAGES_FOUND_DEFAULT
}

/// The tool `memory_get`.
pub(crate) struct GetMemory;

impl Tool for GetMemory {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            GET,
            ToolClass::ReadOnly,
            "Read lines of a file that `memory_search` found; no other file.",
            &json!({
                "path": { "type": "string", "minLength": 1, "description": "As `memory_search` shows it." },
                "from": { "type": "integer", "minimum": 1, "description": "The first line to read, from 1." },
                "lines": { "type": "integer", "minimum": 1, "maximum": READ_LINES, "description": "How many lines." },
            }),
            &["path"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<get::GetArguments>(GET, arguments)?))
    }

    fn needs(&self) -> Needs {
        Needs::Memory
    }
}

#[cfg(test)]
mod tests;

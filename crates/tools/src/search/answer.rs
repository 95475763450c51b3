//! Reads the answer of a search engine. Nothing in it is taken for granted: fields may be missing, long, or hold markup.

use html5gum::{Token, Tokenizer};
use reqwest::Url;
use serde_json::Value;

use super::{Masks, SearchApi, failed};
use crate::error::ToolError;
use crate::limits::{RESULT_SNIPPET_CHARS, RESULT_TITLE_CHARS, RESULT_URL_CHARS};

/// The results as the model receives them.
pub(super) fn shown(api: SearchApi, body: &[u8], count: usize, masks: &Masks) -> Result<String, ToolError> {
    let answer = serde_json::from_slice::<Value>(body).map_err(|error| not_read(api, &format!("no JSON: {error}")))?;
    let results = match api {
        SearchApi::Brave => &answer["web"]["results"],
        SearchApi::Tavily | SearchApi::Searxng => &answer["results"],
    };
    let results = match results {
        Value::Array(results) => results.as_slice(),
        // Brave leaves out what it found nothing for.
        Value::Null if api == SearchApi::Brave && answer.is_object() && answer["web"].is_null() => &[],
        _ => return Err(not_read(api, "without a list of results")),
    };
    let mut text = String::new();
    let snippet = if api == SearchApi::Brave { "description" } else { "content" };
    for (number, (address, result)) in results.iter().filter_map(with_address).take(count).enumerate() {
        let field = |name: &str, most: usize| {
            // Masked before it is shortened: a part of a secret would not be known.
            let text = masks.mask(&plain(result[name].as_str().unwrap_or_default()));
            shortened(&text, most)
        };
        let title = field("title", RESULT_TITLE_CHARS);
        let title = if title.is_empty() { "(no title)" } else { &title };
        let (number, address) = ((number + 1).to_string(), shortened(&masks.mask(&address), RESULT_URL_CHARS));
        text.extend([&number, ". ", title, "\n   ", &address, "\n"]);
        let snippet = field(snippet, RESULT_SNIPPET_CHARS);
        if !snippet.is_empty() {
            text.extend(["   ", &snippet, "\n"]);
        }
    }
    Ok(if text.is_empty() { "no results\n".to_owned() } else { text })
}

fn not_read(api: SearchApi, what: &str) -> ToolError {
    let hint = match api {
        SearchApi::Searxng => {
            "check that tools.web_search.url is the address of a searxng, and that its format json is enabled"
        }
        SearchApi::Brave | SearchApi::Tavily => "check tools.web_search.url, or try again later",
    };
    failed(format!("the answer cannot be read: it is {what}; {hint}"))
}

/// A result with its address. One without an address of the web is of no use.
fn with_address(result: &Value) -> Option<(String, &Value)> {
    let url = Url::parse(result["url"].as_str()?.trim()).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| (String::from(url), result))
}

/// The text without markup, in one line.
pub(super) fn plain(html: &str) -> String {
    let mut text = String::new();
    for token in Tokenizer::new(html) {
        let Ok(token) = token;
        match token {
            Token::String(piece) => text.push_str(&String::from_utf8_lossy(&piece)),
            // The words around them stay apart.
            Token::StartTag(tag) if BREAKS.contains(&&**tag.name) => text.push(' '),
            Token::EndTag(tag) if BREAKS.contains(&&**tag.name) => text.push(' '),
            Token::StartTag(_) | Token::EndTag(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    let is_blank = |c: char| c.is_whitespace() || c.is_control();
    text.split(is_blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

const BREAKS: &[&[u8]] = &[b"br", b"p", b"div", b"li", b"td", b"tr"];

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text[..end].to_owned() + "…",
        None => text.to_owned(),
    }
}

//! What is decided before a request and around a call, and what is made of a history, from the tables that the program obeys.

use engine::tables::chain::{AROUND_CALL, BEFORE_REQUEST};
use engine::tables::history;
use serde::Serialize;

use super::human::{Page, columns, heading};
use crate::language::word;

/// The chains and the rules for a history, as `--json` prints them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownChain {
    before_request: Vec<ShownLink>,
    around_call: Vec<ShownLink>,
    history: Vec<ShownRule>,
}

#[derive(Debug, Serialize)]
struct ShownLink {
    name: &'static str,
    does: &'static str,
    /// The kinds of events with which it decides.
    decides: &'static [&'static str],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRule {
    name: &'static str,
    does: &'static str,
    /// The kind of event at which the trace of a run shows what it changed.
    shown_at: &'static str,
}

pub(crate) fn chain() -> ShownChain {
    let of_request = BEFORE_REQUEST.iter().map(|row| (row.name, row.does, row.decides));
    let of_call = AROUND_CALL.iter().map(|row| (row.name, row.does, row.decides));
    let link = |(name, does, decides)| ShownLink { name, does, decides };
    let rule = |row: history::HistoryRow| ShownRule { name: row.name, does: row.does, shown_at: row.shown_at };
    ShownChain {
        before_request: of_request.map(link).collect(),
        around_call: of_call.map(link).collect(),
        history: history::BEFORE_REQUEST.map(rule).into(),
    }
}

pub(crate) fn lay_out() -> String {
    let ShownChain { before_request, around_call, history } = chain();
    let mut page = Page::default();
    for (title, links) in [("before a request", before_request), ("around a call", around_call)] {
        page.line(title);
        let rows = links.iter().map(|link| [link.name.to_owned(), word(link.does), link.decides.join(", ")]);
        let rows: Vec<_> = std::iter::once(heading(["LINK", "DOES", "DECIDES WITH"])).chain(rows).collect();
        page.line_as_it_is(columns(&rows));
    }
    page.line("of the history of a request");
    let rows = history.iter().map(|rule| [rule.name.to_owned(), word(rule.does), rule.shown_at.to_owned()]);
    let rows: Vec<_> = std::iter::once(heading(["RULE", "DOES", "SHOWN AT"])).chain(rows).collect();
    page.line_as_it_is(columns(&rows));
    page.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R65: every kind of event with which a link decides is one of the journal.
    #[test]
    fn r65_the_chains_name_events_that_there_are() {
        let ShownChain { before_request, around_call, history } = chain();
        for rule in &history {
            assert!(engine::Event::KINDS.contains(&rule.shown_at), "{}: {}", rule.name, rule.shown_at);
        }
        for link in before_request.iter().chain(&around_call) {
            for kind in link.decides {
                assert!(engine::Event::KINDS.contains(kind), "{}: {kind}", link.name);
            }
        }
        assert!(lay_out().contains("compaction_guard"));
    }
}

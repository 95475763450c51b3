//! What is decided before a request and around a call, from the tables that the machine obeys.

use engine::tables::chain::{AROUND_CALL, BEFORE_REQUEST};
use serde::Serialize;

use super::human::{Page, columns, heading};
use crate::language::word;

/// Both chains, as `--json` prints them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownChain {
    before_request: Vec<ShownLink>,
    around_call: Vec<ShownLink>,
}

#[derive(Debug, Serialize)]
struct ShownLink {
    name: &'static str,
    does: &'static str,
    /// The kinds of events with which it decides.
    decides: &'static [&'static str],
}

pub(crate) fn chain() -> ShownChain {
    let of_request = BEFORE_REQUEST.iter().map(|row| (row.name, row.does, row.decides));
    let of_call = AROUND_CALL.iter().map(|row| (row.name, row.does, row.decides));
    let link = |(name, does, decides)| ShownLink { name, does, decides };
    ShownChain { before_request: of_request.map(link).collect(), around_call: of_call.map(link).collect() }
}

pub(crate) fn lay_out() -> String {
    let ShownChain { before_request, around_call } = chain();
    let mut page = Page::default();
    for (title, links) in [("before a request", before_request), ("around a call", around_call)] {
        page.line(title);
        let rows = links.iter().map(|link| [link.name.to_owned(), word(link.does), link.decides.join(", ")]);
        let rows: Vec<_> = std::iter::once(heading(["LINK", "DOES", "DECIDES WITH"])).chain(rows).collect();
        page.line_as_it_is(columns(&rows));
    }
    page.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R65: every kind of event with which a link decides is one of the journal.
    #[test]
    fn r65_the_chains_name_events_that_there_are() {
        let ShownChain { before_request, around_call } = chain();
        for link in before_request.iter().chain(&around_call) {
            for kind in link.decides {
                assert!(engine::Event::KINDS.contains(kind), "{}: {kind}", link.name);
            }
        }
        assert!(lay_out().contains("compaction_guard"));
    }
}

//! Lays out the report of a check on one page: what was checked, what is wrong and where, what it means, and its
//! repair.

use config::size;
use engine::Timestamp;
use journal::Collected;
use journal::check::{CheckReport, Counts, Finding, Repair, Where};
use serde::Serialize;

use protocol::show::Owner;

use super::human::{Page, Zone, columns, printable};
use crate::commands::doctor::Look;
use crate::language::word;

/// Findings on the page; of further ones the page has only the number.
const SHOWN: usize = 12;

/// The report as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<'a> {
    pub(crate) home: String,
    /// What was looked at beside the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checks: Option<&'a [Look]>,
    /// What the repair of this command did, one line each.
    pub(crate) did: &'a [String],
    pub(crate) healthy: bool,
    pub(crate) owner: Option<&'a Owner>,
    pub(crate) checked: Counts,
    /// The content that `--repair collect` would remove from the journal.
    pub(crate) collectable: Collected,
    pub(crate) findings: &'a [Finding],
    pub(crate) notes: &'a [String],
}

/// Lays out what was looked at beside the data, each section under its name; only what is wrong if asked.
pub(crate) fn surroundings_page(looks: &[Look], only_wrong: bool) -> String {
    let mut page = Page::default();
    let mut section = "";
    for look in looks.iter().filter(|look| !only_wrong || look.level.is_wrong()) {
        if look.section != section {
            if !section.is_empty() {
                page.line("");
            }
            section = look.section;
            page.line(section);
        }
        page.line(format!("  {} {}", look.level.mark(), printable(&look.text)));
        if let Some(hint) = &look.hint {
            page.line(format!("    hint: {}", printable(hint)));
        }
    }
    page.text()
}

/// Lays out the page of the data.
pub(crate) fn lay_out(home: &str, owner: Option<&Owner>, report: &CheckReport, zone: &Zone) -> String {
    let counts = &report.counts;
    let owner = owner.map_or_else(|| word("none"), |owner| word(format!("pid {}", owner.pid)));
    let mut page = Page::default();
    page.line_as_it_is(
        columns(&[
            [word("home"), home.to_owned()],
            [word("owner"), owner],
            [word("looked at"), word(looked_at(counts))],
            [word("files"), word(files(counts))],
            [word("ends at"), word(ends(counts))],
        ])
        .trim_end(),
    );
    let mut promised = vec![];
    for (number, finding) in report.findings.iter().take(SHOWN).enumerate() {
        page.line(format!("\n✗ {}. {}", number + 1, finding.what));
        lay_out_finding(&mut page, finding, zone);
        // What a repair does is printed once.
        let promise = finding.repair.as_ref().map(promise).filter(|promise| !promised.contains(promise));
        for line in promise.into_iter().flatten() {
            page.line(format!("          {line}"));
        }
        promised.extend(promise);
    }
    if report.findings.len() > SHOWN {
        page.line(format!("\n… and {} more; `limulus doctor --json` has all", report.findings.len() - SHOWN));
    }
    if !report.notes.is_empty() {
        page.line("");
    }
    for note in &report.notes {
        page.line(format!("· {}", printable(note)));
    }
    if report.findings.is_empty() {
        page.line("\n✓ nothing is wrong");
    }
    page.text()
}

fn looked_at(counts: &Counts) -> String {
    let number = |number: u64, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    [
        number(counts.sessions, "session", "sessions"),
        number(counts.entries, "entry", "entries"),
        number(counts.bodies, "body", "bodies"),
        number(counts.snapshots, "snapshot", "snapshots"),
    ]
    .join(", ")
}

fn files(counts: &Counts) -> String {
    let [database, wal, free] = [counts.database_bytes, counts.wal_bytes, counts.free_bytes].map(size);
    format!("journal.db {database}, journal.db-wal {wal}, {free} free")
}

fn ends(counts: &Counts) -> String {
    let position = |position: u64| if position == 0 { "none known".to_owned() } else { format!("position {position}") };
    format!("{}; acknowledged: {}", position(counts.head), position(counts.mark))
}

fn lay_out_finding(page: &mut Page, finding: &Finding, zone: &Zone) {
    let repair = match &finding.repair {
        Some(repair) => format!("limulus doctor --repair {}", shell_word(&repair.to_string())),
        None => word(without(finding)),
    };
    let rows = [
        [format!("  {}", word("where")), place(&finding.place, zone)],
        [format!("  {}", word("what")), word(printable(&finding.detail))],
        [format!("  {}", word("means")), word(printable(&finding.effect.to_string()))],
        [format!("  {}", word("repair")), repair],
    ];
    page.line_as_it_is(columns(&rows).trim_end());
}

fn place(place: &Where, zone: &Zone) -> String {
    let time = |at: Timestamp| zone.time_ms(at);
    let parts = [
        place.file.map(str::to_owned),
        place.session.as_ref().map(|key| word(format!("session {key}"))),
        place.checkpoint.as_ref().map(|checkpoint| word(format!("entry {checkpoint}"))),
        place.kind.as_ref().map(|kind| format!("`{kind}`")),
        place.position.map(|position| word(format!("position {position}"))),
        place.at.filter(|at| at.0 != 0).map(time),
        place.body.map(|body| word(format!("body {body}"))),
    ];
    printable(&parts.into_iter().flatten().collect::<Vec<_>>().join(", ")).into_owned()
}

/// What a repair does and does not do, one line each.
pub(crate) fn promise(repair: &Repair) -> &'static [&'static str] {
    match repair {
        Repair::Snapshots(_) => &["removes corrupt snapshots; the state is folded from the entries again"],
        Repair::Session(_) => &[
            "starts a new branch at the last good entry; the damaged branch stays and can be audited.",
            "Later entries are not in it; an unfinished run needs a human, and nothing is executed again.",
            "A session without an intact entry is quarantined: readable text is saved, and its key is free",
        ],
        Repair::Ledger => &[
            "starts a new branch of the ledger at its last good entry; the damaged branch stays and can be audited.",
            "Later cooldowns and preferences are lost: a refused profile may be tried once more;",
            "set a preferred profile again",
        ],
        Repair::Loss => &[
            "accepts the loss: sets the mark to the journal's end and keeps a copy of the old mark.",
            "If you have a newer copy of journal.db or its WAL, put it back instead",
        ],
        Repair::Wal => &["renames the WAL; the journal continues from journal.db"],
        Repair::Export => &[
            "copies every readable row into a new file and keeps the old file under another name;",
            "sessions that miss entries are salvaged, and lost entries are listed",
        ],
        Repair::Views => &["rebuilds the rows of every list and of the table of sessions from the entries"],
        Repair::Dictionaries => &["writes the dictionaries of this limulus into the journal again"],
        Repair::Collect => &[
            "removes unused content: bodies, output of what has ended, folders of calls that no run waits for.",
            "No copy is kept; content that an entry, a list or a snapshot names stays",
        ],
    }
}

fn without(finding: &Finding) -> &'static str {
    use journal::check::What;
    match finding.what {
        What::Newer => "none here: use the newer limulus that wrote it",
        What::Foreign => "none here: move the file away if it is not yours, and restore the journal from a backup",
        What::State => "none: report it, if possible with the output of `limulus audit --json` for the session",
        What::Gone => "none here: restore journal.db from a backup; to start anew, move the home away",
        What::Truncated
        | What::Pages
        | What::Tables
        | What::StaleWal
        | What::Lost
        | What::Replaced
        | What::Mark
        | What::Entry
        | What::Body
        | What::Branch
        | What::Rows
        | What::Snapshot
        | What::Ledger
        | What::Views => "none here: restore the home from a backup; other sessions keep working",
    }
}

/// Quotes a word for a shell if necessary.
fn shell_word(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || ":-_./@".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", printable(word).replace('\'', r"'\''")) }
}

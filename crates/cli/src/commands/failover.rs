//! `limulus failover`: prints what follows each class of failure, from the table that the runtime obeys.

use clap::Args;
use engine::tables::failover::{FailureCategory, RULES};
use engine::tables::limits::{BACKOFF_BASE_MS, BACKOFF_MOST_MS, COOLDOWNS_MS};
use engine::{FailureClass, Limits};
use serde::Serialize;

use crate::error::CliError;
use crate::show::human::Page;
use crate::show::{json, print};

/// Print what follows each class of failure: the failover table that the runtime obeys
#[derive(Debug, Args)]
pub(crate) struct FailoverArgs {
    /// Print the table; this is also the default
    #[arg(long)]
    table: bool,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Prints the table.
pub(crate) fn run(args: &FailoverArgs) -> Result<(), CliError> {
    let FailoverArgs { table: _, json: as_json } = args;
    print(&if *as_json { json(&rows()) } else { table() })
}

#[derive(Serialize)]
struct Row {
    class: FailureClass,
    #[serde(flatten)]
    category: FailureCategory,
    first: &'static str,
    then: &'static str,
    at_end: &'static str,
    #[serde(rename = "others_leave_alone")]
    cooldown: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |rule: &engine::tables::failover::Rule| Row {
        class: rule.class,
        category: FailureCategory::of(rule.class),
        first: rule.first.name(),
        then: rule.then.name(),
        at_end: rule.at_end.name(),
        cooldown: rule.cools.name(),
    };
    RULES.iter().map(row).collect()
}

fn table() -> String {
    let mut page = Page::default();
    let line = |[class, kind, category, first, then, at_end, cooldown]: [&str; 7]| {
        let of_r24 = format!("{kind:<23}{category:<15}");
        format!("{class:<21}{of_r24}{first:<16}{then:<14}{at_end:<12}{cooldown}").trim_end().to_owned()
    };
    page.line_as_it_is(line(["class", "kind", "category", "first", "then", "at the end", "cooldown"]));
    for Row { class, category: FailureCategory { kind, recoverability }, first, then, at_end, cooldown } in rows() {
        page.line_as_it_is(line([&class.name(), kind.name(), recoverability.name(), first, then, at_end, cooldown]));
    }
    let minutes = COOLDOWNS_MS.map(|ms| (ms / 60_000).to_string()).join(", ");
    page.line("");
    page.line("recoverable    the failure can pass: the run tries again or waits");
    page.line(
        "unrecoverable  the same request would fail the same way, so it is not sent again unchanged; if no other candidate, \
         token or thinking level is left, the run fails",
    );
    page.line("escalate       nothing can be said of the failure, so a human must look at it");
    page.line(format!(
        "retry          the same request after the wait that the provider asks for, else after up to {} s, \
         doubled each time up to {} s; `requests.retries` times (default {}); \
         a longer wait is not taken if another candidate can be tried, or if the row waits",
        BACKOFF_BASE_MS / 1000,
        BACKOFF_MOST_MS / 1000,
        Limits::default().retries
    ));
    page.line("refresh        the same request at once with a new access token, where the profile is logged in (kind = \"oauth\")");
    page.line(format!(
        "wait           until the first candidate leaves its cooldown: as long as the provider asks for, at least \
         {minutes} minutes, longer each time; all waits together within `requests.max_wait_s` (default {})",
        Limits::default().max_wait_ms / 1000
    ));
    page.line("fail           the run ends with this failure, unless another candidate is only in cooldown");
    page.line(
        "cooldown       what no session of this home tries from then on: `limulus profiles list` shows it, and until when",
    );
    page.line("end            the run ends with this failure");
    page.line("hold           the run waits for a human: `limulus resume KEY --force` resumes it");
    page.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r24_r54_the_printed_table_is_the_one_that_the_engine_obeys() {
        let text = table();
        assert!(
            text.contains("\nrate_limit           rate_limit             recoverable    retry once      next profile  wait        model with"),
            "{text}"
        );
        assert!(
            text.contains(
                "\nmodel_not_found      not_found              unrecoverable                  next model    fail\n"
            ),
            "{text}"
        );
        let printed: Vec<serde_json::Value> = serde_json::from_str(&json(&rows())).unwrap();
        assert_eq!(printed.len(), RULES.len());
        assert_eq!((&printed[0]["class"], &printed[0]["at_end"]), (&"rate_limit".into(), &"wait".into()));
        assert_eq!(
            (&printed[2]["kind"], &printed[2]["recoverability"]),
            (&"authentication_failed".into(), &"unrecoverable".into())
        );
    }

    /// `UPDATE=1` writes it.
    #[test]
    fn r24_the_page_has_the_table() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/failures.md");
        let mut page = std::fs::read_to_string(&file).unwrap();
        if std::env::var_os("UPDATE").is_some() {
            let (before, rest) = page.split_once("```text\n$ limulus failover --table\n").unwrap();
            let (_, after) = rest.split_once("```\n").unwrap();
            page = format!("{before}```text\n$ limulus failover --table\n{}```\n{after}", table());
            std::fs::write(&file, &page).unwrap();
        }
        assert!(page.contains(&format!("```text\n$ limulus failover --table\n{}```\n", table())), "UPDATE=1 writes it");
    }
}

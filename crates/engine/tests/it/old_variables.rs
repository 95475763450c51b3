//! The table of old variables in `docs/internals/loop.md`: what it names exists where it says.

use std::path::Path;

/// Variables of the two loops that the table must answer.
const VARIABLES: &str = "
    compactionInFlight isCompacting pendingCompactionRetry waitForCompactionRetry timedOut timedOutDuringCompaction
    toolResultTruncationAttempted assistantTexts attemptedThinking profileIndex isStreaming _agent_running
    _pending_steer transition set_flag
";
/// The same without a name of their own.
const OTHERS: [&str; 12] = [
    "overflow-compaction count",
    "payloads",
    "attempt and retry counters",
    "stream buffer",
    "block buffer",
    "partial block",
    "pending calls",
    "tool metas",
    "last error",
    "usage accumulator",
    "handles of active runs",
    "started and last-activity times",
];

#[test]
fn r05_the_table_of_old_variables_names_what_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals");
    let page = std::fs::read_to_string(folder.join("loop.md")).expect("the page");
    let (_, table) = page.split_once("| there | here | file |\n|---|---|---|\n").expect("the table");
    let rows: Vec<Vec<&str>> = table.lines().take_while(|line| line.starts_with('|')).map(columns).collect();
    let there: Vec<&str> = rows.iter().map(|row| row[1]).collect();
    let there = there.join("\n");
    for variable in VARIABLES.split_whitespace() {
        assert!(there.contains(&format!("`{variable}`")), "no row answers `{variable}`");
    }
    for variable in OTHERS {
        assert!(there.contains(variable), "no row answers {variable}");
    }
    for row in rows {
        let links = row[3].split("](").skip(1).filter_map(|link| link.split_once(')'));
        let sources: String =
            links.map(|(file, _)| std::fs::read_to_string(folder.join(file)).expect("a file of the row")).collect();
        assert!(!sources.is_empty(), "{row:?}");
        let quoted = row[2].split('`').skip(1).step_by(2).filter(|name| name.starts_with(char::is_uppercase));
        for part in quoted.flat_map(|name| name.split("::")) {
            assert!(words(&sources).any(|word| word == part), "`{part}` is not in the files of {row:?}");
        }
    }
}

fn columns(line: &str) -> Vec<&str> {
    line.split('|').map(str::trim).collect()
}

fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|char: char| !char.is_alphanumeric() && char != '_')
}

//! `limulus sessions list`: one line for each session, at most 80 columns, whatever the terminal has.

use clap::Args;
use config::Globals;
use engine::Timestamp;
use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use protocol::method::{SessionsList, SessionsListParams, SessionsListed};
use protocol::show::Listed;

use crate::args::PageArgs;
use crate::cells::{cells, cut, cut_start};
use crate::commands::conversation::below_user;
use crate::error::CliError;
use crate::language::word;
use crate::reading::ask;
use crate::show::human::{heading, now, price, printable_line, session_name};
use crate::show::{json, worded};

/// Cells of a line.
const LINE_CELLS: usize = 80;
/// Sessions of a list without `--limit`.
const SESSIONS: usize = 50;
/// At most so many cells for a name and for a folder, which leaves at least 8 for a title.
const NAME_CELLS: usize = 18;
const FOLDER_CELLS: usize = 14;
const TITLE_CELLS: usize = 8;
/// Cells of a title beside what a search found.
const FOUND_TITLE_CELLS: usize = 20;

/// List the sessions by their last activity: title, folder, messages, cost, state, age.
#[derive(Debug, Args)]
#[command(after_help = "A line has at most 80 columns. `limulus sessions show NAME` shows a session; with --json all \
                        sessions are printed, in the order in which they were created.")]
pub(super) struct ListArgs {
    /// List the sessions in which all of these words were said, each with the place of the latest such text
    #[arg(long, value_name = "WORDS", conflicts_with = "after")]
    search: Option<String>,
    /// List the archived sessions
    #[arg(long)]
    archived: bool,
    #[command(flatten)]
    page: PageArgs,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// The list.
pub(super) fn read(args: &ListArgs, globals: &Globals) -> Result<String, CliError> {
    let page = &args.page;
    let limit = page.limit().or((!args.json).then_some(SESSIONS));
    let is_search = args.search.is_some() && !args.json;
    let params = SessionsListParams {
        // One more of a search says whether there are more.
        limit: limit.map(|limit| limit + usize::from(is_search)),
        after: page.after.clone(),
        by_activity: !args.json,
        archived: args.archived,
        search: args.search.clone(),
    };
    let SessionsListed { sessions, next, more } = ask::<SessionsList>(globals, params)?;
    let command = if args.archived { "sessions list --archived" } else { "sessions list" };
    if args.json {
        return Ok(page.with_next(json(&sessions), command, next, true));
    }
    if let Some(words) = &args.search {
        let shown = sessions.len().min(limit.unwrap_or(usize::MAX));
        return Ok(lay_out_found(&sessions[..shown], words, shown < sessions.len()));
    }
    let now = now();
    let list = lay_out(&sessions, now, globals.environment.get("HOME"));
    let more = more.unwrap_or_default();
    let limit = limit.unwrap_or_default();
    Ok(match next {
        Some(next) => list + &worded(format!("{more} more: limulus {command} --limit {limit} --after {next}\n")),
        None => list,
    })
}

/// A line for each session, under a heading.
fn lay_out(sessions: &[Listed], now: Timestamp, user: Option<&str>) -> String {
    let heading = heading(["SESSION", "TITLE", "FOLDER", "MSGS", "COST", "STATE", "AGE"]);
    let rows = sessions.iter().map(|session| {
        let name = session_name(&session.key);
        let folder = session.folder.as_deref().map(|folder| below_user(folder, user)).unwrap_or_default();
        let cost = if session.cost == 0 { String::new() } else { price(session.cost) };
        [
            cut_start(&printable_line(name), NAME_CELLS),
            printable_line(session.title.as_deref().unwrap_or_default()).into_owned(),
            cut_start(&printable_line(&folder), FOLDER_CELLS),
            session.messages.to_string(),
            cost,
            word(state(session)),
            word(age(now.since(session.last_activity))),
        ]
    });
    let rows: Vec<_> = std::iter::once(heading).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| cells(&row[column])).max().unwrap_or(0);
    let mut widths: [usize; 7] = std::array::from_fn(width);
    let others = widths.iter().sum::<usize>() - widths[TITLE] + 2 * (widths.len() - 1);
    widths[TITLE] = widths[TITLE].min(LINE_CELLS.saturating_sub(others).max(TITLE_CELLS));
    let mut list = String::new();
    for row in &rows {
        let line: Vec<_> =
            row.iter().zip(widths).enumerate().map(|(at, (cell, width))| fitted(at, cell, width)).collect();
        list.push_str(cut(&line.join("  "), LINE_CELLS).trim_end());
        list.push('\n');
    }
    list
}

/// The column of the title.
const TITLE: usize = 1;
/// The columns whose numbers stand under each other.
const NUMBERS: [usize; 2] = [3, 4];

/// A line for each session in which something was found.
fn lay_out_found(sessions: &[Listed], words: &str, more: bool) -> String {
    if sessions.is_empty() {
        return worded(format!("no session holds “{}”\n", printable_line(words)));
    }
    let mut list = String::new();
    for session in sessions {
        let name = session_name(&session.key);
        let title = printable_line(session.title.as_deref().unwrap_or_default());
        let snippet = printable_line(session.snippet.as_deref().unwrap_or_default());
        let (name, title) = (cut_start(&printable_line(name), NAME_CELLS), cut(&title, FOUND_TITLE_CELLS));
        let blanks = |text: &str, width: usize| " ".repeat(width.saturating_sub(cells(text)));
        let (after_name, after_title) = (blanks(&name, NAME_CELLS), blanks(&title, FOUND_TITLE_CELLS));
        let line = format!("{name}{after_name}  {title}{after_title}  {snippet}");
        list.push_str(cut(&line, LINE_CELLS).trim_end());
        list.push('\n');
    }
    if more {
        list.push_str(&worded("there are more: --limit N\n"));
    }
    list
}

/// A cell of this width.
fn fitted(column: usize, cell: &str, width: usize) -> String {
    let cell = cut(cell, width);
    let blanks = " ".repeat(width.saturating_sub(cells(&cell)));
    if NUMBERS.contains(&column) { blanks + &cell } else { cell + &blanks }
}

/// What a session is doing, in a word.
fn state(session: &Listed) -> &'static str {
    match session.lifecycle {
        LifecycleKind::Initializing | LifecycleKind::Ready | LifecycleKind::Idle => "idle",
        LifecycleKind::Suspended => "paused",
        LifecycleKind::Error => "held",
        LifecycleKind::Recovering => "repair",
        LifecycleKind::Terminated => "ended",
        LifecycleKind::Active => match session.run_state {
            RunState::Awaiting | RunState::Retry => "waiting",
            RunState::Idle
            | RunState::Preparing
            | RunState::Streaming
            | RunState::ToolExec
            | RunState::Compacting
            | RunState::Error
            | RunState::Paused
            | RunState::Completed => "running",
        },
    }
}

/// How long ago, in its largest unit.
fn age(ms: u64) -> String {
    let minutes = ms / 60_000;
    match (minutes / 1_440, minutes / 60, minutes) {
        (0, 0, 0) => "now".to_owned(),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, _) => format!("{hours}h"),
        (days, ..) => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use gateway::methods::reading::Reads as _;
    use views::Source;
    use views::scene::Scene;

    use super::*;

    fn listed() -> Vec<Listed> {
        let mut scene = Scene::new();
        scene.start("fix the test\nof the parser");
        scene.stream("Hi.");
        SessionsList::read(&Source::of(&scene.journal), SessionsListParams::default()).unwrap().sessions
    }

    #[test]
    fn r09_a_list_has_a_line_for_each_session() {
        let sessions = listed();
        let text = lay_out(&sessions, Timestamp(sessions[0].last_activity.0 + 3 * 3_600_000), Some("/home/u"));
        let expected = "\
SESSION  TITLE                       FOLDER  MSGS  COST  STATE    AGE
main     fix the test of the parser  /w         1        running  3h\n";
        assert_eq!(text, expected);
        let shown = serde_json::to_value(&sessions).unwrap();
        assert!(shown[0]["run"].get("text").is_none(), "lists have no text: {shown}");
        assert!(shown[0].get("transcript").is_none());
    }

    #[test]
    fn r61_a_list_in_chinese_has_its_columns_under_each_other() {
        let mut sessions = listed();
        sessions.push(Listed { title: Some("修复解析器".to_owned()), ..sessions[0].clone() });
        let now = Timestamp(sessions[0].last_activity.0);
        let text = crate::language::in_chinese(|| lay_out(&sessions, now, Some("/home/u")));
        let expected = "\
会话  标题                        文件夹  消息  费用  状态    时间
main  fix the test of the parser  /w         1        运行中  刚刚
main  修复解析器                  /w         1        运行中  刚刚\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn r09_a_line_has_at_most_80_columns_and_cannot_repaint() {
        let mut sessions = listed();
        let session = &mut sessions[0];
        session.key = "agent:main:a-very-long-name-of-a-project-1f6ab2".to_owned();
        session.title = Some("余额不足 \u{1b}[2J".repeat(20));
        session.folder = Some("/home/u/somewhere/deep/in/the/tree/proj".to_owned());
        (session.messages, session.cost) = (12_345, 123_456_789_000);
        let text = lay_out(&sessions, Timestamp(sessions[0].last_activity.0 + 9_999 * 86_400_000), Some("/home/u"));
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| cells(line) <= 80), "{text}");
        assert!(
            !text.contains('\u{1b}') && text.contains("…-a-project-1f6ab2") && text.contains("…the/tree/proj"),
            "{text}"
        );
    }
}

//! `limulus sessions export`: the conversation of a session as Markdown or JSON, to read, to keep or to pass on.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use config::Globals;
use protocol::method::{SessionParams, SessionsShow};
use protocol::show::{ItemStory, Role, Shown};

use crate::error::{CliError, Exit};
use crate::reading::ask;
use crate::show::choice::SessionChoice;
use crate::show::human::Zone;
use crate::show::{json, print};

/// Write the conversation of a session as Markdown or JSON.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub(super) choice: SessionChoice,
    /// Write Markdown, as without a format
    #[arg(long, conflicts_with = "json")]
    md: bool,
    /// Write one JSON object, in the form of `sessions show --json`
    #[arg(long)]
    json: bool,
    /// Write it into this file, which must not exist [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &ExportArgs, globals: &Globals) -> Result<(), CliError> {
    let session =
        ask::<SessionsShow>(globals, SessionParams { session_key: args.choice.key.clone(), limit: None, whole: true })?;
    let text = if args.json { json(&session) } else { markdown(&session, &Zone::local()) };
    let Some(path) = &args.output else { return print(&text) };
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| CliError::Failed {
        exit: Exit::Usage,
        what: format!("{} was not written: {error}", path.display()),
        hint: "name a file that does not exist, in a folder that you can write".to_owned(),
    })
}

/// The conversation as Markdown: what was said as it was written, calls and results as folded blocks.
fn markdown(session: &Shown, zone: &Zone) -> String {
    let mut page = String::new();
    let title = session.title.as_deref().unwrap_or(&session.key);
    let folder = session.folder.as_deref().map(|folder| format!(" · {folder}")).unwrap_or_default();
    let (from, until) = (zone.time(session.created_at), zone.time(session.last_activity));
    let _ = writeln!(page, "# {}\n\n{}{folder} · {from} to {until}", title.replace('\n', " "), session.key);
    let items = session.transcript.as_deref().unwrap_or_default();
    let mut last = None;
    for item in items {
        if item.role != Role::Tool && last != Some(item.role) {
            let _ = writeln!(page, "\n## {}", heading(item.role));
            last = Some(item.role);
        }
        lay_out(&mut page, item, items);
    }
    page
}

fn heading(role: Role) -> &'static str {
    match role {
        Role::User => "User",
        Role::Assistant | Role::Tool => "Assistant",
        Role::Summary => "Summary of what came before",
        Role::Note => "Note to the model",
    }
}

fn lay_out(page: &mut String, item: &ItemStory, items: &[ItemStory]) {
    if item.role == Role::Tool {
        // It stands under its call, unless that is not in the conversation any more.
        let has_call = items.iter().flat_map(|item| &item.calls).any(|call| Some(call.id) == item.call);
        if !has_call {
            folded(page, "result", &[("", &item.text)]);
        }
        return;
    }
    if !item.text.trim().is_empty() {
        let _ = writeln!(page, "\n{}", item.text.trim_end());
    }
    for file in &item.attachments {
        let _ = writeln!(page, "\n*Attached: {} ({}, {})*", file.name, file.media_type, tools::size(file.bytes));
    }
    for call in &item.calls {
        let result = items.iter().find(|item| item.call == Some(call.id));
        let failed = if result.is_some_and(|result| result.is_error == Some(true)) { " (failed)" } else { "" };
        let result = result.map_or("no result yet", |result| result.text.as_str());
        folded(page, &format!("{}{failed}", call.tool), &[("json", &call.arguments), ("", result)]);
    }
}

/// A block that opens on request. A fence is longer than any in its text.
fn folded(page: &mut String, summary: &str, texts: &[(&str, &str)]) {
    let summary = summary.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(page, "\n<details><summary>{summary}</summary>");
    for (language, text) in texts {
        let fence = fence(text);
        let _ = writeln!(page, "\n{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'));
    }
    page.push_str("\n</details>\n");
}

fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

#[cfg(test)]
mod tests {
    use gateway::methods::reading::Reads as _;
    use views::Source;
    use views::scene::Scene;

    use super::*;

    #[test]
    fn r09_a_conversation_is_exported_as_markdown() {
        let mut scene = Scene::new();
        scene.start("list it");
        scene.call("ls", "{}");
        scene.end_stream();
        scene.allow_and_start();
        scene.settle("a.txt\n```\nb.txt\n````");
        scene.stream("Two *files*.");
        let session = SessionsShow::read(&Source::of(&scene.journal), SessionParams::default()).unwrap();
        insta::assert_snapshot!(markdown(&session, &Zone::utc()));
    }

    #[test]
    fn r09_a_fence_is_longer_than_any_in_its_text() {
        assert_eq!([fence("a"), fence("``"), fence("a```b"), fence("`````")].map(|fence| fence.len()), [3, 3, 4, 6]);
    }
}

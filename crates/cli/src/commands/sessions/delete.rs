//! `limulus sessions delete`: erases what was said in a session.

use clap::Args;
use config::{Globals, size};
use journal::Reader;
use protocol::Client;
use protocol::method::{DeleteParams, SessionDeleted, SessionsDelete};
use serde_json::json as object;
use views::lookup;

use crate::args::WriterArgs;
use crate::commands::change::{Changed, change};
use crate::error::{CliError, Exit};
use crate::prompt;
use crate::show::choice::SessionName;
use crate::show::human::{count, printable_line};
use crate::show::{json, print, worded};

/// Delete the conversation of a session: erase all of its texts and outputs, and what was kept of its files.
#[derive(Debug, Args)]
#[command(
    after_help = "It cannot be taken back. What other sessions hold as well stays there, and so do the entries of \
                        the audit log: times, names of tools, paths, costs and messages of errors. The next message to \
                        the session begins a new conversation."
)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(super) name: SessionName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

impl Changed for SessionDeleted {
    fn session_key(&self) -> Option<&str> {
        Some(&self.session_key)
    }
}

pub(super) async fn run(args: DeleteArgs, globals: &Globals) -> Result<(), CliError> {
    // An owner would create a journal only to find nothing in it.
    let row = lookup::session(&Reader::open(&globals.home)?, Some(args.name.key()))?;
    confirm(&args, &row.key)?;
    let params = DeleteParams { session_key: row.key };
    let call = async |client: &Client| client.call::<SessionsDelete>(params.clone()).await;
    let SessionDeleted { session_key, bodies, bytes, files } = change(globals, &args.writer, call).await?;
    if args.writer.json {
        let deleted = object!({ "session": session_key, "bodies": bodies, "bytes": bytes, "files": files });
        return print(&json(&deleted));
    }
    let texts = if bodies == 1 { "1 text or output".to_owned() } else { format!("{bodies} texts and outputs") };
    let files = if files == 0 { String::new() } else { format!(", {}", count(files as usize, "kept file content")) };
    print(&worded(format!("{session_key} is deleted: {texts} ({}){files} erased\n", size(bytes))))
}

/// Asks on a terminal. Without one nobody is asked, so the answer is on the command line.
fn confirm(args: &DeleteArgs, key: &str) -> Result<(), CliError> {
    let refused = |what: String, hint: &str| Err(CliError::Refused { exit: Exit::Usage, what, hint: hint.to_owned() });
    let key = printable_line(key);
    if args.yes {
        return Ok(());
    }
    if !prompt::is_possible() {
        return refused(
            format!("{key} was not deleted: nobody can be asked"),
            "give --yes to delete it without a question",
        );
    }
    let answer = prompt::ask(&format!("? erase everything that was said in {key}, for ever"), " [y/N] ");
    if answer.is_some_and(|answer| prompt::is_yes(&answer)) {
        return Ok(());
    }
    refused(format!("{key} was not deleted"), "answer with y to delete it")
}

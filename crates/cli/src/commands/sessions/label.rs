//! `limulus sessions rename` and `limulus sessions archive`.

use clap::Args;
use config::Globals;
use journal::Reader;
use protocol::Client;
use protocol::method::{LabelParams, Labelled, SessionsLabel};
use views::lookup;

use crate::args::WriterArgs;
use crate::commands::change::{Changed, change};
use crate::error::CliError;
use crate::show::choice::SessionName;
use crate::show::human::printable_line;
use crate::show::{json, print, worded};
use crate::unnamed::SessionArgument;

/// Give a session a title.
#[derive(Debug, Args)]
#[command(
    after_help = "The name of the session stays. With an empty title it has the first words of its first message again."
)]
pub(crate) struct RenameArgs {
    /// The session, and its title: several words are one title; with --session the title alone
    #[arg(required = true, num_args = 1.., value_names = ["KEY", "TITLE"])]
    words: Vec<String>,
    /// The same as KEY
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    #[command(flatten)]
    writer: WriterArgs,
}

/// Hide a session from the list until its next message.
#[derive(Debug, Args)]
#[command(after_help = "Nothing is erased: `limulus sessions list --archived` shows it.")]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    pub(super) name: SessionName,
    /// List it again
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

impl RenameArgs {
    /// Where it has its session; none if it has no title.
    pub(super) fn session(&mut self) -> Option<SessionArgument<'_>> {
        if self.session.is_none() && self.words.len() > 1 {
            self.session = Some(self.words.remove(0));
        }
        self.session.is_some().then_some(SessionArgument::of(&mut self.session))
    }
}

impl Changed for Labelled {
    fn session_key(&self) -> Option<&str> {
        Some(&self.session_key)
    }
}

pub(super) async fn rename(args: RenameArgs, globals: &Globals) -> Result<(), CliError> {
    let Some(session_key) = args.session else {
        let what = "there is no title for the session".to_owned();
        return Err(CliError::Usage { what, hint: "give KEY and TITLE, or `--session KEY` and TITLE".to_owned() });
    };
    let title = args.words.join(" ");
    let params = LabelParams { session_key, title: Some(title.clone()), archived: None };
    let Labelled { session_key } = label(params, &args.writer, globals).await?;
    let title = title.trim();
    say(
        &args.writer,
        &session_key,
        &match title {
            "" => format!("{session_key} has the first words of its first message as its title\n"),
            title => format!("{session_key} has the title “{}”\n", printable_line(title)),
        },
    )
}

pub(super) async fn archive(args: ArchiveArgs, globals: &Globals) -> Result<(), CliError> {
    let params = LabelParams { session_key: args.name.key().to_owned(), title: None, archived: Some(!args.undo) };
    let Labelled { session_key } = label(params, &args.writer, globals).await?;
    let what = if args.undo { "is listed again" } else { "is archived; its next message lists it again" };
    say(&args.writer, &session_key, &format!("{session_key} {what}\n"))
}

async fn label(params: LabelParams, writer: &WriterArgs, globals: &Globals) -> Result<Labelled, CliError> {
    // An owner would create a journal only to find nothing in it.
    lookup::session(&Reader::open(&globals.home)?, Some(&params.session_key))?;
    let call = async |client: &Client| client.call::<SessionsLabel>(params.clone()).await;
    change(globals, writer, call).await
}

fn say(writer: &WriterArgs, session_key: &str, text: &str) -> Result<(), CliError> {
    if writer.json {
        return print(&json(&serde_json::json!({ "session": session_key })));
    }
    print(&worded(text))
}

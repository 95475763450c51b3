//! `limulus approvals`: the calls that wait for approval, their answers, and what was allowed once and for all.

use clap::{Args, Subcommand, ValueEnum};
use config::Globals;
use protocol::method::{
    AlwaysParams, AlwaysScope, AnswerParams, ApprovalParams, ApprovalShown, ApprovalsGrants, ApprovalsList,
    ApprovalsListParams, ApprovalsListed, ApprovalsResolve, ApprovalsRevoke, ApprovalsShow, GrantPatterns, GrantShown,
    NoParams, RevokeParams,
};
use serde_json::Value;

use super::change::{change, change_and_owner};
use crate::args::{PageArgs, WriterArgs};
use crate::editor;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::reading::ask;
use crate::show::choice::SessionFilter;
use crate::show::human::{Page, Zone, columns, count, duration, excerpt, heading, now, printable_line, session_name};
use crate::show::{json, json_line, print, worded};
use crate::unnamed::SessionArgument;
use crate::wait_for;

/// List and answer the calls that wait for approval; list and revoke what was allowed for good.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// List the calls that wait for approval, oldest first
    List {
        #[command(flatten)]
        choice: SessionFilter,
        /// List those that have been answered or closed instead
        #[arg(long)]
        closed: bool,
        #[command(flatten)]
        page: PageArgs,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show one of them whole, with the patterns that --always would remember
    Show {
        /// The id of the request, or a unique beginning of it
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let calls run
    Approve {
        /// The ids of the requests, or unique beginnings of them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Let all such calls run from now on, in this session, of this agent or in this home
        #[arg(long, value_name = "SCOPE")]
        always: Option<Scope>,
        /// What --always remembers instead of what `show` shows: a command, file or host with `*`; may be repeated
        #[arg(long, value_name = "PATTERN", requires = "always")]
        pattern: Vec<String>,
        /// Change the arguments in $VISUAL or $EDITOR first
        #[arg(long, conflicts_with_all = ["always", "arguments"])]
        edit: bool,
        /// Run it with these arguments instead, JSON
        #[arg(long, value_name = "JSON", conflicts_with = "always")]
        arguments: Option<String>,
        #[command(flatten)]
        writer: WriterArgs,
    },
    /// Let calls not run
    Deny {
        /// The ids of the requests, or unique beginnings of them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Why, for the model
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        writer: WriterArgs,
    },
    /// List what was allowed for good, with how much each grant has allowed so far
    Grants {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Revoke a grant: such calls need approval again
    Revoke {
        /// The id of the grant, or a unique beginning of it
        id: String,
        #[command(flatten)]
        writer: WriterArgs,
    },
}

/// For whose calls a grant is.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    Session,
    Agent,
    Home,
}

impl From<Scope> for AlwaysScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Session => Self::Session,
            Scope::Agent => Self::Agent,
            Scope::Home => Self::Home,
        }
    }
}

impl ApprovalsArgs {
    /// Where it has its session; none if it needs none.
    pub(crate) fn session(&mut self) -> Option<SessionArgument<'_>> {
        match &mut self.command {
            ApprovalsCommand::List { choice, .. } => Some(choice.session()),
            _ => None,
        }
    }

    /// Whether the command writes, so that it needs the owner.
    fn writes(&self) -> bool {
        match self.command {
            ApprovalsCommand::List { .. } | ApprovalsCommand::Show { .. } | ApprovalsCommand::Grants { .. } => false,
            ApprovalsCommand::Approve { .. } | ApprovalsCommand::Deny { .. } | ApprovalsCommand::Revoke { .. } => true,
        }
    }
}

pub(crate) fn run(args: ApprovalsArgs, globals: &Globals) -> Result<(), CliError> {
    if args.writes() { wait_for(write(args, globals)) } else { read(args, globals) }
}

fn read(args: ApprovalsArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        ApprovalsCommand::List { choice, closed, page, json: as_json } => {
            let params = ApprovalsListParams {
                session: choice.key.clone(),
                closed,
                limit: page.limit(),
                after: page.after.clone(),
            };
            let listed = match ask::<ApprovalsList>(globals, params) {
                // A home without a journal has no requests.
                Err(error) if error.exit() == Exit::NotFound && choice.key.is_none() => ApprovalsListed::default(),
                listed => listed?,
            };
            let list = if as_json { json(&listed.approvals) } else { lay_out(&listed.approvals, &Zone::local()) };
            print(&page.with_next(list, "approvals list", listed.next, as_json))
        }
        ApprovalsCommand::Show { id, json: as_json } => {
            let shown = ask::<ApprovalsShow>(globals, ApprovalParams { id })?;
            print(&if as_json { json(&shown) } else { lay_out_one(&shown, &Zone::local()) })
        }
        ApprovalsCommand::Grants { json: as_json } => {
            let grants = match ask::<ApprovalsGrants>(globals, NoParams {}) {
                Err(error) if error.exit() == Exit::NotFound => vec![],
                listed => listed?.grants,
            };
            print(&if as_json { json(&grants) } else { lay_out_grants(&grants, &Zone::local()) })
        }
        ApprovalsCommand::Approve { .. } | ApprovalsCommand::Deny { .. } | ApprovalsCommand::Revoke { .. } => {
            Err(CliError::bug("`approvals` was taken for a command that reads"))
        }
    }
}

async fn write(args: ApprovalsArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        ApprovalsCommand::Approve { ids, always, pattern, edit, arguments, writer } => {
            let always = always.map(|scope| AlwaysParams { scope: scope.into(), patterns: pattern });
            let arguments = arguments.map(|text| parsed(&text)).transpose()?;
            for asked in requests(globals, ids).await? {
                let arguments = if edit { edited(globals, &asked)? } else { arguments.clone() };
                let of = |params| AnswerParams { always: always.clone(), arguments, ..params };
                answer(globals, &writer, &asked, of(params(&asked, true)?)).await?;
            }
            Ok(())
        }
        ApprovalsCommand::Deny { ids, reason, writer } => {
            for asked in requests(globals, ids).await? {
                let params = AnswerParams { reason: reason.clone(), ..params(&asked, false)? };
                answer(globals, &writer, &asked, params).await?;
            }
            Ok(())
        }
        ApprovalsCommand::Revoke { id, writer } => {
            let params = RevokeParams { id };
            let revoked = change(globals, &writer, async |client| client.call::<ApprovalsRevoke>(params.clone()).await);
            let revoked = revoked.await?;
            print(&if writer.json {
                json(&revoked)
            } else {
                worded(format!("revoked: {} needs approval again\n", allows(&revoked.patterns)))
            })
        }
        ApprovalsCommand::List { .. } | ApprovalsCommand::Show { .. } | ApprovalsCommand::Grants { .. } => {
            Err(CliError::bug("`approvals` was taken for a command that writes"))
        }
    }
}

/// All of these requests, before any is answered: a mistyped id answers none.
async fn requests(globals: &Globals, ids: Vec<String>) -> Result<Vec<ApprovalShown>, CliError> {
    let mut found = vec![];
    for id in ids {
        // It has a runtime of its own.
        let globals = globals.clone();
        let asking = tokio::task::spawn_blocking(move || ask::<ApprovalsShow>(&globals, ApprovalParams { id }));
        let asked = asking.await.map_err(|error| CliError::bug(&error.to_string()))??;
        found.push(asked);
    }
    Ok(found)
}

fn params(asked: &ApprovalShown, allow: bool) -> Result<AnswerParams, CliError> {
    // A closed request is refused by the owner, with who answered.
    let fingerprint = asked.fingerprint.ok_or_else(|| CliError::Refused {
        exit: Exit::Refused,
        what: format!("the request {} is no longer open", asked.id),
        hint: "`limulus approvals list` shows the open ones".to_owned(),
    })?;
    Ok(AnswerParams::once(asked.call, fingerprint, allow))
}

async fn answer(
    globals: &Globals,
    writer: &WriterArgs,
    asked: &ApprovalShown,
    params: AnswerParams,
) -> Result<(), CliError> {
    let (allow, grants) = (params.allow, params.always.is_some());
    let resolving =
        change_and_owner(globals, writer, async |client| client.call::<ApprovalsResolve>(params.clone()).await);
    let (_, is_owner) = resolving.await?;
    if writer.json {
        let closed = requests(globals, vec![asked.call.to_string()]).await?;
        return print(&closed.first().map(json_line).unwrap_or_default());
    }
    let (what, session) = (excerpt(&asked.what, WHAT), session_name(&asked.session));
    let mut page = Page::default();
    page.line(if allow { format!("approved: {what} ({session})") } else { format!("denied: {what} ({session})") });
    if grants {
        let listed = tokio::task::spawn_blocking({
            let globals = globals.clone();
            move || ask::<ApprovalsGrants>(&globals, NoParams {})
        });
        let listed = listed.await.map_err(|error| CliError::bug(&error.to_string()))??;
        for grant in listed.grants.iter().filter(|grant| grant.id == asked.id) {
            let id = &grant.id;
            page.line(format!("from now on: {}; `limulus approvals revoke {id}` revokes it", allows(&grant.patterns)));
        }
    }
    if is_owner {
        page.line(format!("no process runs it now: `limulus resume {}` does, or `limulus serve`", asked.session));
    }
    print(&page.text())
}

/// Characters of what a call would do, in a line.
const WHAT: usize = 100;

fn parsed(text: &str) -> Result<Value, CliError> {
    let value: Value = serde_json::from_str(text).map_err(|error| CliError::Usage {
        what: format!("the arguments are no JSON: {error}"),
        hint: "such as --arguments '{\"command\": \"ls\"}'; `limulus approvals show ID --json` shows those of the call"
            .into(),
    })?;
    if value.is_object() {
        return Ok(value);
    }
    Err(CliError::Usage { what: "the arguments are no JSON object".into(), hint: "give { … }".into() })
}

/// The arguments as the user has changed them; none if they are the same.
pub(super) fn edited(globals: &Globals, asked: &ApprovalShown) -> Result<Option<Value>, CliError> {
    let before = serde_json::to_string_pretty(&asked.arguments).unwrap_or_default() + "\n";
    let after = editor::edit(globals, &before, ".json", &format!("limulus approvals approve {} --edit", asked.id))?;
    let value = parsed(&after)?;
    Ok(Some(value).filter(|value| *value != asked.arguments))
}

fn lay_out(approvals: &[ApprovalShown], zone: &Zone) -> String {
    if approvals.is_empty() {
        return worded("nothing waits for approval\n");
    }
    let now = now();
    let mut rows = vec![heading(["ID", "SESSION", "SINCE", "UNTIL", "WHAT"])];
    rows.extend(approvals.iter().map(|asked| {
        let until = match (asked.allowed, asked.expires_at) {
            (Some(true), _) => word("approved"),
            (Some(false), _) => word("denied"),
            (None, Some(at)) if at <= now => word("overdue"),
            (None, Some(at)) => zone.short(at, now),
            (None, None) => String::new(),
        };
        let session = printable_line(session_name(&asked.session)).into_owned();
        let what = printable_line(&excerpt(&asked.what, WHAT)).into_owned();
        [asked.id.clone(), session, duration(now.since(asked.asked_at)), until, what]
    }));
    let open = approvals.iter().any(|asked| asked.allowed.is_none());
    let hint = if open {
        worded("`limulus approvals approve ID` or `limulus approvals deny ID` answers one\n")
    } else {
        String::new()
    };
    columns(&rows) + &hint
}

fn lay_out_one(asked: &ApprovalShown, zone: &Zone) -> String {
    let mut page = Page::default();
    page.line(format!("request {} of {}", asked.id, asked.session));
    page.line(format!("  run {}", asked.run));
    page.line(format!("  asked {}", zone.time(asked.asked_at)));
    match (asked.allowed, &asked.by, asked.closed_at) {
        (Some(allowed), by, at) => {
            let how = if allowed { "approved" } else { "denied" };
            let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            let at = at.map(|at| format!(", {}", zone.time(at))).unwrap_or_default();
            page.line(format!("  {how}{by}{at}"));
        }
        (None, ..) => match asked.expires_at {
            Some(at) if at <= now() => page.line(format!("  overdue since {}", zone.time(at))),
            Some(at) => page.line(format!("  waits until {}", zone.time(at))),
            None => page.line("  waits for an answer"),
        },
    }
    page.line("  wants to");
    page.indented("    ", &asked.what);
    page.line(format!("  {} with", asked.tool));
    let arguments = match &asked.arguments {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    page.indented("    ", &arguments);
    if asked.allowed.is_none() {
        match &asked.always {
            Some(patterns) => page.line(format!("  --always would allow {}", allows(patterns))),
            None => page.line("  no pattern is offered for --always; --pattern may name one"),
        }
    }
    page.text()
}

/// What patterns allow, in a line.
pub(super) fn allows(patterns: &GrantPatterns) -> String {
    let all: Vec<String> = patterns.patterns().map(|pattern| format!("`{}`", printable_line(pattern))).collect();
    if all.is_empty() {
        format!("all calls of {}", patterns.tool)
    } else {
        format!("{} {}", patterns.tool, all.join(", "))
    }
}

fn lay_out_grants(grants: &[GrantShown], zone: &Zone) -> String {
    if grants.is_empty() {
        return worded("nothing was allowed for good\n");
    }
    let mut rows = vec![heading(["ID", "FOR", "ALLOWS", "SO FAR", "GIVEN"])];
    rows.extend(grants.iter().map(|grant| {
        let of = match (grant.scope, &grant.of) {
            (AlwaysScope::Session, Some(key)) => format!("session {}", session_name(key)),
            (AlwaysScope::Agent, Some(agent)) => format!("agent {agent}"),
            _ => "home".to_owned(),
        };
        let so_far = count(grant.allowed as usize, "call");
        [grant.id.clone(), word(of), allows(&grant.patterns), word(so_far), zone.time(grant.at)]
    }));
    columns(&rows)
}

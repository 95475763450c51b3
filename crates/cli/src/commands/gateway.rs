//! `limulus gateway`: where a service is reached over HTTP and WebSocket, and with which token.

mod devices;
mod tokens;

use clap::{Args, Subcommand};
use gateway::http::AccessError;
use protocol::Scope;
use protocol::method::{HealthGet, NoParams};
use serde::Serialize;

use std::path::Path;

use crate::error::{CliError, Exit, failed};
use crate::show::human::{Page, duration, printable_line};
use crate::show::{json, print};

/// Show where `limulus serve` is reached over HTTP and WebSocket, and the token for it.
#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    #[command(subcommand)]
    command: GatewayCommand,
}

#[derive(Debug, Subcommand)]
enum GatewayCommand {
    /// Show whether a service is there, and where it is reached
    Status {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print your token alone or make a new one; create, list and revoke tokens that may do less
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
        /// Print it as JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// List, approve and revoke the devices of OpenClaw's clients
    Devices {
        #[command(subcommand)]
        command: DevicesCommand,
        /// Print it as JSON
        #[arg(long, global = true)]
        json: bool,
    },
}

use devices::DevicesCommand;
use tokens::TokenCommand;

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    /// Whether somebody owns the home and responds.
    running: bool,
    pid: Option<u32>,
    /// Where it serves HTTP and WebSocket.
    listens_at: Option<&'a str>,
    /// Whether that is encrypted.
    tls: bool,
    socket: String,
    connections: Option<u32>,
    open_sessions: Option<u32>,
    uptime_ms: Option<u64>,
    /// What prevents it from recording what it accepts.
    trouble: Option<&'a str>,
}

pub(crate) async fn run(args: GatewayArgs, globals: &config::Globals) -> Result<(), CliError> {
    match args.command {
        GatewayCommand::Status { json } => status(globals, json).await,
        GatewayCommand::Token { command, json } => tokens::run(command.unwrap_or_default(), json, &globals.home),
        GatewayCommand::Devices { command, json } => devices::run(command, json, &globals.home),
    }
}

/// Parses a scope.
fn scope(text: &str) -> Result<Scope, String> {
    let known = Scope::ALL.into_iter().find(|scope| scope.name() == text);
    known.ok_or_else(|| "there are: read, write, approve, admin".to_owned())
}

/// The names of scopes.
fn names(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", ")
}

/// Refuses what lets others in to a command of an agent: it would outlive what the agent was allowed.
fn must_be_outside(home: &Path) -> Result<(), CliError> {
    if !::tools::is_here_in_call_of(&home.join("calls")) {
        return Ok(());
    }
    Err(CliError::Refused {
        exit: Exit::Refused,
        what: "a process inside a tool call may not let others in to the home that the call belongs to".to_owned(),
        hint: "run it outside of the agent, for example in a terminal".to_owned(),
    })
}

fn refused_access(error: &AccessError) -> CliError {
    let exit = match error {
        AccessError::Io { .. } | AccessError::Open { .. } | AccessError::Invalid { .. } => Exit::Store,
        AccessError::Unknown { .. } => Exit::NotFound,
        AccessError::Name { .. } | AccessError::Expired => Exit::Usage,
        AccessError::Taken { .. } | AccessError::Full { .. } | AccessError::Ambiguous { .. } => Exit::Refused,
    };
    CliError::Refused { exit, what: error.to_string(), hint: error.hint().to_owned() }
}

async fn status(globals: &config::Globals, as_json: bool) -> Result<(), CliError> {
    let owner = client::look(&globals.home, false).await.transpose().map_err(failed)?;
    let health = match &owner {
        Some(owner) => Some(owner.client.call::<HealthGet>(NoParams {}).await.map_err(failed)?),
        None => None,
    };
    let socket = globals.home.join(gateway::socket::NAME).display().to_string();
    let of = health.as_ref();
    if as_json {
        return print(&json(&Shown {
            running: owner.is_some(),
            pid: owner.as_ref().map(|owner| owner.pid),
            listens_at: of.and_then(|health| health.listens_at.as_deref()),
            tls: of.is_some_and(|health| health.tls),
            socket,
            connections: of.map(|health| health.connections),
            open_sessions: of.map(|health| health.open_sessions),
            uptime_ms: of.map(|health| health.uptime_ms),
            trouble: of.and_then(|health| health.trouble.as_deref()),
        }));
    }
    let mut page = Page::default();
    if let (Some(owner), Some(health)) = (owner, health) {
        page.line(format!("pid {} serves {socket} for {}", owner.pid, duration(health.uptime_ms)));
        match &health.listens_at {
            Some(address) if health.tls => page.line(format!("HTTP and WebSocket: https://{address}")),
            Some(address) => page.line(format!("HTTP and WebSocket: http://{address}")),
            None => page.line("HTTP and WebSocket: off"),
        }
        page.line(format!("clients: {}", health.connections));
        if let Some(trouble) = &health.trouble {
            page.line(format!("it cannot record what it accepts: {}", printable_line(trouble)));
        }
    } else {
        page.line("no service runs; `limulus serve` starts one");
    }
    print(&page.text())
}

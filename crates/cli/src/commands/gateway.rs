//! `limulus gateway`: where a service is reached over HTTP and WebSocket, and with which token.

use clap::{Args, Subcommand};
use gateway::http::{Token, TokenError};
use protocol::method::{HealthGet, NoParams};
use serde::Serialize;

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
    /// Print the token alone, or make a new one
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
        /// Print it as JSON
        #[arg(long, global = true)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum TokenCommand {
    /// Print it; the first time it is made
    Show,
    /// Make a new one: the old one opens nothing any more
    Rotate,
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    /// Whether somebody owns the home and responds.
    running: bool,
    pid: Option<u32>,
    /// Where it serves HTTP and WebSocket.
    listens_at: Option<&'a str>,
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
        GatewayCommand::Token { command, json: as_json } => {
            let token = match command {
                None | Some(TokenCommand::Show) => Token::open(&globals.home),
                Some(TokenCommand::Rotate) => Token::rotate(&globals.home),
            };
            let token = token.map_err(|error| refused(&error))?;
            let token = token.expose();
            print(&if as_json { json(&serde_json::json!({ "token": token })) } else { format!("{token}\n") })
        }
    }
}

fn refused(error: &TokenError) -> CliError {
    CliError::Refused { exit: Exit::Store, what: error.to_string(), hint: error.hint().to_owned() }
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

//! `limulus deliveries`: lists what goes out of sessions and has not arrived, sends it again, gives it up.

use clap::{Args, Subcommand};
use config::Globals;
use engine::RunId;
use protocol::method::{
    DeliveriesDrop, DeliveriesList, DeliveriesListParams, DeliveriesRetry, DeliveryChanged, DeliveryParams,
    DeliveryShown, DeliveryStage,
};
use views::name;

use super::change::change;
use crate::args::WriterArgs;
use crate::error::CliError;
use crate::language::word;
use crate::reading::ask;
use crate::show::choice::SessionFilter;
use crate::show::human::{Zone, columns, excerpt, heading};
use crate::show::{json, print, worded};
use crate::unnamed::SessionArgument;

/// Characters of a reason in the list.
const WHY_CHARS: usize = 60;

/// List what goes out of sessions and has not arrived; send it again, or give it up.
#[derive(Debug, Args)]
pub(crate) struct DeliveriesArgs {
    #[command(subcommand)]
    command: DeliveriesCommand,
}

#[derive(Debug, Subcommand)]
enum DeliveriesCommand {
    /// List what has not arrived, oldest first
    List {
        #[command(flatten)]
        choice: SessionFilter,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Send what did not arrive again, with another key
    Retry {
        /// The id of the delivery, or a unique beginning of it
        id: String,
        #[command(flatten)]
        writer: WriterArgs,
    },
    /// Give a delivery up
    Drop {
        /// The id of the delivery, or a unique beginning of it
        id: String,
        #[command(flatten)]
        writer: WriterArgs,
    },
}

impl DeliveriesArgs {
    /// Whether the command writes, so that it needs the owner.
    pub(crate) fn writes(&self) -> bool {
        match self.command {
            DeliveriesCommand::List { .. } => false,
            DeliveriesCommand::Retry { .. } | DeliveriesCommand::Drop { .. } => true,
        }
    }

    /// The same with the whole id of the delivery. It may block.
    pub(crate) fn with_whole_id(mut self, globals: &Globals) -> Result<Self, CliError> {
        if let DeliveriesCommand::Retry { id, .. } | DeliveriesCommand::Drop { id, .. } = &mut self.command {
            *id = whole_id(globals, id)?;
        }
        Ok(self)
    }

    /// Where it has its session; none if it needs none.
    pub(crate) fn session(&mut self) -> Option<SessionArgument<'_>> {
        match &mut self.command {
            DeliveriesCommand::List { choice, .. } => Some(choice.session()),
            DeliveriesCommand::Retry { .. } | DeliveriesCommand::Drop { .. } => None,
        }
    }
}

pub(crate) fn read(args: DeliveriesArgs, globals: &Globals) -> Result<(), CliError> {
    let DeliveriesCommand::List { choice, json: as_json } = args.command else {
        return Err(CliError::bug("`deliveries` was taken for a command that only reads"));
    };
    let deliveries = ask::<DeliveriesList>(globals, DeliveriesListParams { session: choice.key })?.deliveries;
    print(&if as_json { json(&deliveries) } else { lay_out(&deliveries, &Zone::local()) })
}

pub(crate) async fn write(args: DeliveriesArgs, globals: &Globals) -> Result<(), CliError> {
    let (changed, text, as_json) = match args.command {
        DeliveriesCommand::Retry { id, writer } => {
            let params = DeliveryParams { id };
            let call = async |client: &protocol::Client| client.call::<DeliveriesRetry>(params.clone()).await;
            (change(globals, &writer, call).await?, "is sent again", writer.json)
        }
        DeliveriesCommand::Drop { id, writer } => {
            let params = DeliveryParams { id };
            let call = async |client: &protocol::Client| client.call::<DeliveriesDrop>(params.clone()).await;
            (change(globals, &writer, call).await?, "is given up", writer.json)
        }
        DeliveriesCommand::List { .. } => {
            return Err(CliError::bug("`deliveries list` was taken for a command that writes"));
        }
    };
    let DeliveryChanged { id, session_key: session } = &changed;
    print(&if as_json { json(&changed) } else { worded(format!("delivery {id} of {session} {text}\n")) })
}

/// The delivery whose id begins so.
fn whole_id(globals: &Globals, beginning: &str) -> Result<String, CliError> {
    if beginning.is_empty() {
        let hint = "`limulus deliveries list` shows the ids".to_owned();
        return Err(CliError::Usage { what: "the id of the delivery is empty".to_owned(), hint });
    }
    // `RUN-1` is also what `RUN-10` begins with.
    if beginning.rsplit_once('-').is_some_and(|(run, _)| run.parse::<RunId>().is_ok()) {
        return Ok(beginning.to_owned());
    }
    let known = ask::<DeliveriesList>(globals, DeliveriesListParams::default())?.deliveries;
    let mut found = known.into_iter().filter(|delivery| delivery.id.starts_with(beginning));
    let hint = "`limulus deliveries list` shows the ids".to_owned();
    match (found.next(), found.next()) {
        (Some(delivery), None) => Ok(delivery.id),
        (Some(_), Some(_)) => Err(CliError::Usage { what: format!("several deliveries begin with {beginning}"), hint }),
        // It may be one of a session that is not listed, or none.
        (None, _) => Ok(beginning.to_owned()),
    }
}

fn lay_out(deliveries: &[DeliveryShown], zone: &Zone) -> String {
    if deliveries.is_empty() {
        return worded("everything that went out of sessions has arrived\n");
    }
    let mut rows = vec![heading(["DELIVERY", "WHAT", "TO", "STATE", "TRIES", "SINCE", "WHY"])];
    for delivery in deliveries {
        let DeliveryShown { id, kind, to, state, tries, why, until, wanted_at, .. } = delivery;
        let state = match (state, until) {
            (DeliveryStage::Waiting, Some(until)) => format!("{} {}", word("tried again at"), zone.clock(*until)),
            (state, _) => word(name(state)),
        };
        let why = why.as_deref().map(|why| excerpt(why, WHY_CHARS)).unwrap_or_default();
        let what = word(kind.name());
        rows.push([id.clone(), what, to.to_string(), state, tries.to_string(), zone.clock(*wanted_at), why]);
    }
    columns(&rows)
}

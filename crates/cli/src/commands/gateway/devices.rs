//! `limulus gateway devices`: the devices of OpenClaw's clients.

use std::path::Path;

use clap::Subcommand;
use gateway::http::{Access, PairedDevice};
use protocol::Scope;

use super::{must_be_outside, names, refused_access, scope};
use crate::error::CliError;
use crate::show::human::{Zone, columns, heading, now, printable_line};
use crate::show::{json, print, worded};

/// Digits of the id of a device that stand for it.
const SHOWN_DIGITS: usize = 12;

#[derive(Debug, Subcommand)]
pub(super) enum DevicesCommand {
    /// List the devices that are approved, and those that ask
    List,
    /// Approve what a device asks for, or say what a device may do
    Approve {
        /// The request, as the list shows it; with --scope the device, or the beginning of its id
        #[arg(value_name = "REQUEST")]
        id: String,
        /// What the device may do from now on, whatever it asks for: read, write, approve, admin; several are separated by commas
        #[arg(long, value_name = "SCOPES", value_delimiter = ',', value_parser = scope)]
        scope: Vec<Scope>,
    },
    /// Revoke a device, or refuse what it asks for: what it has opened is closed
    Revoke {
        /// Its id, the beginning of it, or the id of its request
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(super) fn run(command: DevicesCommand, as_json: bool, home: &Path) -> Result<(), CliError> {
    match command {
        DevicesCommand::List => list(&Access::read(home).map_err(|error| refused_access(&error))?.devices, as_json),
        DevicesCommand::Approve { id, scope } => {
            must_be_outside(home)?;
            let scopes = (!scope.is_empty()).then_some(scope);
            let approved = Access::change(home, |access| {
                let id = access.approve_device(&id, scopes, now().0)?;
                let device = access.devices.iter().find(|device| device.id == id).cloned();
                Ok((id, device.map(|device| device.scopes).unwrap_or_default()))
            });
            let (id, scopes) = approved.map_err(|error| refused_access(&error))?;
            if as_json {
                return print(&json(&serde_json::json!({ "device": id, "scopes": scopes })));
            }
            print(&worded(format!("device {} may now: {}\n", short(&id), names(&scopes))))
        }
        DevicesCommand::Revoke { id } => {
            must_be_outside(home)?;
            let id =
                Access::change(home, |access| access.revoke_device(&id)).map_err(|error| refused_access(&error))?;
            if as_json {
                return print(&json(&serde_json::json!({ "revoked": id })));
            }
            print(&worded(format!("device {} opens nothing any more\n", short(&id))))
        }
    }
}

fn short(id: &str) -> String {
    id.chars().take(SHOWN_DIGITS).collect()
}

fn list(devices: &[PairedDevice], as_json: bool) -> Result<(), CliError> {
    if as_json {
        return print(&json(devices));
    }
    if devices.is_empty() {
        return print(&worded("no device has connected yet\n"));
    }
    let (zone, now) = (Zone::local(), now());
    let rows = devices.iter().map(|device| {
        let (asks, request) = device
            .request
            .as_ref()
            .map_or_else(Default::default, |request| (names(&request.scopes), request.id.clone()));
        let since = device.approved_at.or(device.request.as_ref().map(|request| request.at));
        [
            short(&device.id),
            printable_line(&device.name).into_owned(),
            printable_line(&device.platform).into_owned(),
            names(&device.scopes),
            asks,
            request,
            since.map(|at| zone.short(engine::Timestamp(at), now)).unwrap_or_default(),
        ]
    });
    let rows: Vec<_> = std::iter::once(heading(["device", "name", "platform", "may", "asks for", "request", "since"]))
        .chain(rows)
        .collect();
    print(&worded(columns(&rows)))
}

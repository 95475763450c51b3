//! `GET /metrics`: what those who watch a service collect of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use engine::Timestamp;
use journal::Read;
use protocol::Scope;
use telemetry::metrics::{Now, Rest};

use super::App;
use super::gate::Caller;
use super::problem::Problem;
use crate::error::Error;
use crate::methods;
use crate::service::Service;

/// The files of the journal in a home.
const DATABASE: &str = "journal.db";
const WAL: &str = "journal.db-wal";

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    caller.must(Scope::Read)?;
    let service = &app.service;
    let (home, at) = (Arc::clone(service.home()), service.runtime.clock().now());
    let counted = methods::reading(service, move |journal| of_journal(&home, journal, at)).await;
    let counted = counted.map_err(|error| Problem::from(error.shape()))?;
    let text = service.telemetry().text(&of_service(service, counted));
    Ok(([(CONTENT_TYPE, telemetry::metrics::CONTENT_TYPE)], text).into_response())
}

/// What the journal knows. It reads the rows of unfinished sessions alone: there may be any number of others.
fn of_journal(home: &Path, read: &dyn Read, at: Timestamp) -> Result<Now, Error> {
    let mut now = Now { approvals: read.approvals(None)?.len() as u64, ..Now::default() };
    for row in read.unfinished()? {
        *now.sessions.entry(row.lifecycle.name().to_owned()).or_default() += 1;
        now.queued += u64::from(row.queued);
        if row.run.is_some() {
            *now.runs.entry(row.run_state.name().to_owned()).or_default() += 1;
        }
    }
    let ledger = runtime::ledger(read)?;
    for (of, cooldown) in ledger.cooldowns().filter(|(_, cooldown)| cooldown.until > at) {
        let (provider, profile, model) = (of.provider.clone(), of.profile.clone(), of.model.clone());
        let rest = Rest { provider, profile, model, class: cooldown.class, rest_ms: cooldown.until.since(at) };
        now.cooldowns.push(rest);
    }
    let bytes = |name: &str| home.join(name).metadata().map_or(0, |file| file.len());
    (now.database, now.wal) = (bytes(DATABASE), bytes(WAL));
    Ok(now)
}

/// What the owner knows.
fn of_service(service: &Service, counted: Now) -> Now {
    let mut lanes = BTreeMap::new();
    for wait in service.runtime.waits() {
        *lanes.entry(wait.request.lane.name().to_owned()).or_default() += 1;
    }
    Now {
        version: service.version.clone(),
        uptime_ms: service.uptime_ms(),
        clients: service.connections() as u64,
        disk_full: service.runtime.disk_full_waits().borrow().len() as u64,
        lanes,
        ..counted
    }
}

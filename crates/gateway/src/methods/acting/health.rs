//! `health`: whether the owner works.

use protocol::method::Health;

use crate::service::Service;

pub(crate) fn health(service: &Service) -> Health {
    let broken = service.runtime.broken().borrow().as_ref().map(ToString::to_string);
    let parked = || service.runtime.disk_full_waits().borrow().values().next().map(|parked| parked.error.to_string());
    let trouble = broken.or_else(parked);
    Health {
        ok: trouble.is_none(),
        trouble,
        uptime_ms: service.uptime_ms(),
        connections: service.connections() as u32,
        open_sessions: *service.runtime.actors().borrow() as u32,
        listens_at: service.listens_at().map(|(address, _)| address.to_string()),
        tls: service.listens_at().is_some_and(|(_, is_encrypted)| is_encrypted),
    }
}

//! `agents.list`: the agents of a home, each with its state over its sessions.

use std::collections::BTreeMap;

use engine::tables::lifecycle::{LifecycleKind, worst};
use engine::{Flags, SessionRow};
use protocol::method::{AgentsList, AgentsListed, NoParams};
use protocol::show::AgentSummary;
use views::{Source, session};

use super::Reads;
use crate::error::Error;

impl Reads for AgentsList {
    fn read(source: &Source<'_>, _: NoParams) -> Result<AgentsListed, Error> {
        let mut agents: BTreeMap<String, Vec<(SessionRow, Flags)>> = BTreeMap::new();
        for row in source.read.sessions()? {
            // One unreadable session must not hide the others.
            let flags = session::flags(source.read, &row).unwrap_or_else(|_| session::idle_flags(&row));
            let is_full = source.full.contains(&row.key);
            let flags = if is_full { flags.with_full_store(row.lifecycle) } else { flags };
            agents.entry(row.agent.clone()).or_default().push((row, flags));
        }
        Ok(listed(source.agents, agents))
    }
}

/// The configured agents of a home without a journal.
pub fn agents_without_journal(configured: &[String]) -> AgentsListed {
    listed(configured, BTreeMap::new())
}

fn listed(configured: &[String], mut agents: BTreeMap<String, Vec<(SessionRow, Flags)>>) -> AgentsListed {
    for name in configured {
        agents.entry(name.clone()).or_default();
    }
    let summary = |(agent, sessions): (String, Vec<_>)| {
        let is_configured = configured.contains(&agent);
        summary(agent, is_configured, &sessions)
    };
    AgentsListed { agents: agents.into_iter().map(summary).collect() }
}

fn summary(agent: String, configured: bool, sessions: &[(SessionRow, Flags)]) -> AgentSummary {
    let states = || sessions.iter().map(|(row, _)| row.lifecycle);
    let of = |state: LifecycleKind| states().filter(|is| *is == state).count();
    let counts = LifecycleKind::ALL.iter().map(|state| (state.name().to_owned(), of(*state)));
    AgentSummary {
        agent,
        configured,
        state: worst(states()),
        sessions: counts.filter(|(_, count)| *count > 0).collect(),
        blocked: sessions.iter().filter(|(_, flags)| flags.is_blocked).count(),
        waiting: sessions.iter().filter(|(_, flags)| flags.is_waiting).count(),
        queued: sessions.iter().map(|(row, _)| u64::from(row.queued)).sum(),
        last_activity: sessions.iter().map(|(row, _)| row.last_activity).max(),
    }
}

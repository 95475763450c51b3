//! What is measured when it is asked for.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use engine::FailureClass;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{Cooled, File, Lane, State, Version};
use super::process::Process;

/// The state of a home at one moment. Sessions that have nothing to do are not counted: there may be any number of them.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone, Default)]
pub struct Now {
    pub version: String,
    pub uptime_ms: u64,
    /// Unfinished sessions by lifecycle.
    pub sessions: BTreeMap<String, u64>,
    /// Unfinished runs by state.
    pub runs: BTreeMap<String, u64>,
    /// Messages that wait for a run.
    pub queued: u64,
    /// Runs that wait for a slot, by lane.
    pub lanes: BTreeMap<String, u64>,
    /// Open approval requests and questions.
    pub approvals: u64,
    /// The cooldowns that are on.
    pub cooldowns: Vec<Rest>,
    pub clients: u64,
    /// Sessions that wait for space on the disk.
    pub disk_full: u64,
    /// Bytes of the database and of its log.
    pub database: u64,
    pub wal: u64,
}

/// A cooldown that is on.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone)]
pub struct Rest {
    pub provider: String,
    pub profile: Option<String>,
    /// None = all models.
    pub model: Option<String>,
    pub class: FailureClass,
    pub rest_ms: u64,
}

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Debug, Default)]
pub(super) struct Gauges {
    build: Family<Version, Gauge>,
    uptime: Seconds,
    sessions: Family<State, Gauge>,
    runs: Family<State, Gauge>,
    queued: Gauge,
    lanes: Family<Lane, Gauge>,
    approvals: Gauge,
    cooldowns: Family<Cooled, Seconds>,
    clients: Gauge,
    disk_full: Gauge,
    journal: Family<File, Gauge>,
    process: Process,
}

impl Gauges {
    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        macro_rules! register {
            ($($field:ident $name:literal $help:literal;)*) => { $(registry.register($name, $help, self.$field.clone());)* };
        }
        register! {
            build "build_info" "The version of the program";
            sessions "unfinished_sessions" "Sessions with unfinished work, by lifecycle";
            runs "unfinished_runs" "Unfinished runs, by state";
            queued "messages_queued" "Messages that wait for a run";
            lanes "lane_waiting" "Runs that wait for a slot, by lane";
            approvals "approvals_pending" "Approval requests and questions that wait for a person";
            clients "clients" "Connected clients";
            disk_full "disk_full_sessions" "Sessions that wait for space on the disk";
        }
        registry.register_with_unit(
            "uptime",
            "How long this owner has had the home",
            Unit::Seconds,
            self.uptime.clone(),
        );
        registry.register_with_unit(
            "cooldown_remaining",
            "How long candidates still rest, by class of the failure",
            Unit::Seconds,
            self.cooldowns.clone(),
        );
        registry.register_with_unit(
            "journal_size",
            "Size of the files of the journal",
            Unit::Bytes,
            self.journal.clone(),
        );
    }

    pub(super) fn set(&self, now: &Now) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.build.get_or_create(&Version { version: now.version.clone() }).set(1);
        self.uptime.set(super::seconds(now.uptime_ms));
        self.queued.set(number(now.queued));
        self.approvals.set(number(now.approvals));
        self.clients.set(number(now.clients));
        self.disk_full.set(number(now.disk_full));
        for (family, counts) in [(&self.sessions, &now.sessions), (&self.runs, &now.runs)] {
            family.clear();
            for (state, count) in counts {
                family.get_or_create(&State { state: state.clone() }).set(number(*count));
            }
        }
        self.lanes.clear();
        for (lane, count) in &now.lanes {
            self.lanes.get_or_create(&Lane { lane: lane.clone() }).set(number(*count));
        }
        self.cooldowns.clear();
        for rest in &now.cooldowns {
            let Rest { provider, profile, model, class, rest_ms } = rest.clone();
            let (profile, model) = (profile.unwrap_or_default(), model.unwrap_or_default());
            let cooled = Cooled { provider, profile, model, class: crate::name(class) };
            self.cooldowns.get_or_create(&cooled).set(super::seconds(rest_ms));
        }
        self.journal.get_or_create(&File { file: "database" }).set(number(now.database));
        self.journal.get_or_create(&File { file: "wal" }).set(number(now.wal));
        self.process.set();
    }
}

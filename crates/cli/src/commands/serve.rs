//! `limulus serve`: owns the home without a terminal.

mod http;
mod notify;
mod observe;
mod unit;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::{NOTES, Taken, TakingNotice, hang_up};
use config::{Config, ConfigResolver, FlagValues, Globals};
use gateway::http::DEFAULT_ADDRESS;
use gateway::socket::{self, Listener};
use gateway::{RecoveredSessions, Service, ServiceOptions, Tenure};
use journal::{Journal as _, Sqlite};
use runtime::IdlePolicy;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::opening::say_damage;
use crate::output::say;
use crate::show::print;
use crate::signals::{self, Insists};
use crate::{idle, retention, search_index, upgrade};

/// Own the home without a terminal: resume unfinished runs, serve clients on its socket.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM or Ctrl-C stops it in order: streaming answers may finish within serve.drain_s, commands \
                        continue under their supervisors, and the next owner resumes everything.\n\
                        A command that owns the home hands it over to a service that starts."
)]
pub(crate) struct ServeArgs {
    /// Print the file that starts it with the system, and do nothing else
    #[arg(long, value_name = "SYSTEM")]
    unit: Option<UnitOf>,
    /// Serve HTTP and WebSocket at this address, with port 0 at a free one [default: gateway.listen]
    #[arg(long, value_name = "IP:PORT", conflicts_with = "no_listen")]
    listen: Option<SocketAddr>,
    /// Serve on the socket alone
    #[arg(long)]
    no_listen: bool,
    /// Log to stderr what the sessions and the clients do, in this form; LIMULUS_LOG says how much [default level: info]
    #[arg(long, value_name = "FORMAT")]
    log: Option<observe::LogFormat>,
    #[command(flatten)]
    writer: WriterArgs,
}

impl ServeArgs {
    /// Whether it is to serve, not only to print something.
    pub(crate) fn serves(&self) -> bool {
        self.unit.is_none()
    }
}

/// Time that a service manager is asked for after the home was handed over, to resume the sessions.
const START: Duration = Duration::from_secs(90);

/// The service managers for which `serve --unit` prints a unit.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum UnitOf {
    /// A unit for `systemctl --user`
    Systemd,
    /// The unit of its socket, at which systemd listens while the service is started again
    SystemdSocket,
    /// A property list for `launchctl`
    Launchd,
}

pub(crate) async fn run(args: ServeArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Arc::new(deprecation::load(
        globals,
        FlagValues { is_service: true, is_unattended: false, ..args.writer.flags() },
    )?);
    config.check_workspace()?;
    if let Some(note) = upgrade::notes(&config, &globals.home) {
        say!("limulus: {note}");
    }
    let drain = config.drain();
    let program =
        std::env::current_exe().map_err(|error| CliError::bug(&format!("no path of this program: {error}")))?;
    if let Some(system) = args.unit {
        let listens_at = args.listen.or_else(|| config.listen()).unwrap_or(DEFAULT_ADDRESS);
        return print(&unit::unit(system, &program, &globals.home, (drain, listens_at))?);
    }
    observe::start(args.log, globals)?;
    // Installed before the home is owned, so that an early signal stops in order too.
    let mut signals = Signals::new()?;
    let _counting = signals::count(Insists::Any)?;
    let reporter = Reporter { json: args.writer.json };
    notify::report("STATUS=opening the home");
    let report = |notice: TakingNotice<'_>| reporter.taking(notice);
    let taken = tokio::select! {
        taken = client::take(&globals.home, drain, args.writer.wait, &report) => taken?,
        // It owns nothing yet.
        () = signals.next() => return Ok(()),
    };
    let Taken { journal, claim } = taken;
    let web = http::bind(&config, globals, (args.listen, args.no_listen)).await?;
    let epoch = journal.epoch();
    client::adopt(&globals.home)?;
    let (service, mut notes) = start(journal, program, config, globals)?;
    watch()?;
    let (keeper, filler) = (Arc::clone(&service), Arc::clone(&service));
    let fill = move || filler.fill_search();
    let erase = move |days| keeper.erase(days).map_err(CliError::from);
    say_damage(&service);
    socket::raise_file_limit();
    let listener = bind(&globals.home)?;
    let mut broken = service.runtime().broken();
    let (socket, mut listening) = (listener.path().to_owned(), vec![]);
    let address = web.as_ref().map(|web| (web.address(), web.is_encrypted()));
    let serving = async {
        notify::report("STATUS=resuming sessions");
        let recovered = service.resume().await?;
        // An unread terminal blocks only these lines, not the clients.
        listening.push(listener.spawn(Arc::clone(&service)));
        listening.extend(web.map(|web| web.spawn(Arc::clone(&service))));
        // From here on a command that looks for the owner finds it.
        drop(claim);
        reporter.ready(globals, (&socket, address), epoch.0, &recovered);
        notify::report("READY=1\nSTATUS=serving");
        tokio::select! {
            () = signals.next() => {}
            Ok(error) = broken.wait_for(Option::is_some) => {
                return Err(CliError::from(error.clone().expect("waited for")));
            }
            () = reporter.notes(&mut notes) => {}
            () = idle::supervise(&service, globals, |note| say!("limulus: {note}")) => {}
            () = search_index::supervise(fill) => {}
            () = retention::supervise(erase, globals, |note| say!("limulus: {note}")) => {}
        }
        Ok::<(), CliError>(())
    };
    let served = serving.await;
    notify::report("STOPPING=1");
    reporter.stopping(drain, served.is_ok());
    // During the shutdown no client is accepted; connected clients receive what happens.
    for listening in listening {
        hang_up(listening).await;
    }
    let left = service.leave(drain).await;
    served.and(left.map_err(CliError::from))
}

/// The socket of the home.
fn bind(home: &Path) -> Result<Listener, CliError> {
    Listener::bind(home).map_err(|error| {
        let text = error.to_string();
        let (what, hint) = text.split_once(": ").unwrap_or((&text, ""));
        CliError::Refused { exit: Exit::Store, what: what.to_owned(), hint: hint.to_owned() }
    })
}

/// The service, and the notes about its configuration.
fn start(
    journal: Arc<Sqlite>,
    program: PathBuf,
    config: Arc<Config>,
    globals: &Globals,
) -> Result<(Arc<Service>, mpsc::Receiver<String>), CliError> {
    let collector = observe::collector(&config, globals)?;
    let (notes_in, notes) = mpsc::channel(NOTES);
    let logins = models::Logins::default();
    let options = ServiceOptions {
        home: globals.home.clone(),
        supervisor: program,
        models: models::ModelSet::new()
            .with_offline(models::Offline::with_pace(config.offline_pace()))
            .with_logins(logins.clone()),
        resolver: Box::new(ConfigResolver::new(config, logins, notes_in.clone())),
        idle: IdlePolicy::default(),
        tenure: Tenure::Service,
        holds_runs: false,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        notes: notes_in,
    };
    let service = Service::start(journal, options);
    if let Some(collector) = collector {
        service.telemetry().trace_to(collector);
    }
    Ok((service, notes))
}

/// Says it on stderr when one task holds the thread of all sessions.
fn watch() -> Result<(), CliError> {
    runtime::watchdog::watch(|stall| say!("limulus: {stall}"))
        .map_err(|error| CliError::bug(&format!("no thread: {error}")))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, CliError> {
        let signal = |kind| signal(kind).map_err(|error| CliError::bug(&format!("no signals: {error}")));
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Reports what the service does: on stderr for people, or on stdout as one JSON object a line.
struct Reporter {
    json: bool,
}

impl Reporter {
    /// What happens until the home is taken.
    fn taking(&self, notice: TakingNotice<'_>) {
        match notice {
            TakingNotice::HandedOver { pid, most } => self.waiting(pid, most),
            TakingNotice::Waiting { owned } => {
                say!("limulus: {owned}; waiting");
                notify::report("STATUS=waiting for the owner of the home");
            }
        }
    }

    /// A command owns the home and hands it over. `most` is the longest time that this takes.
    fn waiting(&self, pid: u32, most: Duration) {
        say!("limulus: pid {pid} owns the home and hands it over; waiting for it");
        self.line(&json!({ "type": "waiting", "pid": pid }));
        // The manager's limit for a start would end before a long drain.
        let extended = most.saturating_add(START).as_micros();
        notify::report(&format!("STATUS=waiting for pid {pid} to hand the home over\nEXTEND_TIMEOUT_USEC={extended}"));
    }

    fn ready(
        &self,
        globals: &Globals,
        (socket, address): (&Path, Option<(SocketAddr, bool)>),
        epoch: u64,
        taken: &RecoveredSessions,
    ) {
        let (home, pid) = (globals.home.display(), std::process::id());
        let up = match taken.sessions.len() {
            0 => String::new(),
            1 => ", 1 session resumed".to_owned(),
            many => format!(", {many} sessions resumed"),
        };
        for (key, error) in &taken.unreadable {
            let shape = error.shape();
            let hint = shape.details.map(|details| details.hint).unwrap_or_default();
            say!("limulus: {key} is not resumed: {}\n  hint: {hint}", shape.message);
        }
        say!("limulus: serving {home} at {}, pid {pid}{up}", socket.display());
        let (address, is_encrypted) = address.map_or((None, false), |(address, is)| (Some(address), is));
        if let Some(address) = address {
            let scheme = if is_encrypted { "https" } else { "http" };
            say!("limulus: HTTP and WebSocket at {scheme}://{address}; `limulus gateway token` prints the token");
        }
        self.line(&json!({
            "type": "ready", "home": globals.home, "socket": socket, "pid": pid, "epoch": epoch, "listensAt": address,
            "tls": is_encrypted, "sessions": taken.sessions, "unreadable": taken.unreadable.iter().map(|(key, _)| key).collect::<Vec<_>>(),
        }));
    }

    fn stopping(&self, drain: Duration, in_order: bool) {
        if in_order {
            let seconds = drain.as_secs();
            say!(
                "limulus: stopping; answers may finish within {seconds} s, commands continue; a second signal quits at once"
            );
        }
        self.line(&json!({ "type": "stopping", "drain_s": drain.as_secs() }));
    }

    /// Prints notes about a changed configuration for as long as the future is polled.
    async fn notes(&self, notes: &mut mpsc::Receiver<String>) {
        while let Some(note) = notes.recv().await {
            say!("limulus: {note}");
        }
        std::future::pending::<()>().await;
    }

    fn line(&self, line: &Value) {
        if self.json {
            // The service does not end because nobody reads its lines.
            let _ = print(&format!("{line}\n"));
        }
    }
}

//! `limulus sandbox`: what of the sandbox for commands holds here, and a command in it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;

use clap::{Args, Subcommand};
use config::{FlagValues, Globals, Subject, today};
use engine::{Overrides, Sandbox, SandboxMode, SandboxRoot, Settings};
use serde::Serialize;
use tools::{LayerState, SandboxLayers, Tier};

use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::say_lines;
use crate::show::human::{Page, columns, printable_line};
use crate::show::{json, print};

/// Parses where a run is to work.
pub(super) fn root(text: &str) -> Result<SandboxRoot, String> {
    let all = [SandboxRoot::Workspace, SandboxRoot::Copy, SandboxRoot::Worktree];
    all.into_iter().find(|root| root.name() == text).ok_or_else(|| "there are: workspace, copy, worktree".to_owned())
}

/// Show what of the sandbox for commands holds here, and try it.
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
enum SandboxCommand {
    /// Try each layer of the sandbox, and show what holds on this machine
    Check {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command in the sandbox that commands of this folder get
    Run {
        /// Of this agent
        #[arg(long, value_name = "NAME", default_value = "main")]
        agent: String,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        words: Vec<OsString>,
    },
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    /// What the configuration wants.
    settings: &'a Sandbox,
    /// What holds: `A` (all layers), `B` (no namespaces), `C` (nothing).
    tier: Tier,
    layers: &'a SandboxLayers,
    /// Whether the memory of all processes of a command is limited.
    memory: LayerState,
    /// How much it is, MiB.
    memory_mib: Option<u64>,
    /// The hosts that commands reach without a question.
    hosts: Vec<String>,
}

pub(crate) fn run(args: SandboxArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        SandboxCommand::Check { json: as_json } => {
            let settings = settings(globals, "main")?;
            let support = tools::sandbox_support_here().map_err(|what| CliError::Refused {
                exit: Exit::Refused,
                what,
                hint: "commands are asked about until that is repaired".into(),
            })?;
            let layers = &support.layers;
            let hosts = tools::reachable_hosts(&settings);
            let limited = tools::limited_memory_mib(&settings.sandbox);
            let memory_mib = limited.as_ref().ok().copied();
            let memory = limited.map_or_else(|reason| LayerState::Absent { reason }, |_| LayerState::Enforced);
            let checked = Checked { settings: &settings.sandbox, tier: layers.tier, layers, memory, memory_mib, hosts };
            print(&if as_json { json(&checked) } else { lay_out(&checked) })
        }
        SandboxCommand::Run { agent, words } => {
            let settings = settings(globals, &agent)?;
            let network = deprecation::load(globals, FlagValues::default())?.network_policy();
            if settings.sandbox.mode == SandboxMode::Off {
                return Err(CliError::Refused {
                    exit: Exit::Refused,
                    what: "there is no sandbox: sandbox.mode is off".into(),
                    hint: "`limulus config set sandbox.mode workspace` switches it on".into(),
                });
            }
            let missing = |what: String| CliError::Refused {
                exit: Exit::Refused,
                what,
                hint: "`limulus sandbox check` shows what holds here".into(),
            };
            let own = vec![globals.home.clone()];
            let (ended, refused) = tools::run_sandboxed(&settings, (own, network), &words).map_err(missing)?;
            for sentence in refused {
                say_lines(&word(sentence));
            }
            // The end of the command is the end of this one, as a shell hands it on.
            std::process::exit(ended.code().or_else(|| Some(128 + ended.signal()?)).unwrap_or(1));
        }
    }
}

fn settings(globals: &Globals, agent: &str) -> Result<Settings, CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let (overrides, session) = (Overrides::default(), runtime::SessionContext::default());
    Ok(config.resolve(Subject { agent, overrides: &overrides, session, date: &today() })?.settings)
}

fn lay_out(checked: &Checked<'_>) -> String {
    let Checked { settings, layers, hosts, .. } = checked;
    let mut page = Page::default();
    page.line(match settings.mode {
        SandboxMode::Workspace => "commands write in the workspace and in a temporary folder of their own",
        SandboxMode::ReadOnly => "commands write in a temporary folder of their own only",
        SandboxMode::Off => "commands run without a sandbox: sandbox.mode is off",
    });
    match (settings.mode, settings.network) {
        (SandboxMode::Off, _) => {}
        (_, true) => page.line("they reach the network"),
        (_, false) if layers.tier != Tier::A => page.line("they reach no network"),
        (_, false) if hosts.is_empty() => page.line("they reach no hosts: no rule allows any"),
        (_, false) => {
            page.line(format!("they reach the hosts that rules allow: {}", printable_line(&hosts.join(", "))));
        }
    }
    page.line(match layers.tier {
        Tier::A if !matches!(checked.memory, LayerState::Enforced) => {
            "this machine holds all of it but the limit of memory"
        }
        Tier::A => "this machine holds all of it",
        Tier::B => "this machine holds a part of it, without namespaces: each command is asked about",
        Tier::C => "this machine holds nothing of it: each command is asked about",
    });
    let rows = [
        ("user", &layers.user),
        ("mounts", &layers.mounts),
        ("processes", &layers.processes),
        ("network", &layers.network),
        ("ipc", &layers.ipc),
        ("landlock", &layers.landlock),
        ("seccomp", &layers.seccomp),
        ("memory", &checked.memory),
    ];
    let rows = rows.map(|(name, state)| {
        let (holds, why) = match state {
            LayerState::Enforced if name == "memory" => ("holds", most_memory(checked.memory_mib)),
            LayerState::Enforced => ("holds", String::new()),
            LayerState::Partial { reason } => ("in part", printable_line(reason).into_owned()),
            LayerState::Absent { reason } => ("does not hold", printable_line(reason).into_owned()),
        };
        [format!("  {name}"), word(holds), why]
    });
    page.text() + &columns(&rows)
}

/// What all processes of a command may use together.
fn most_memory(mib: Option<u64>) -> String {
    mib.map(|mib| word(format!("{mib} MiB for all processes of a command"))).unwrap_or_default()
}

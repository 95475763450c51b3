//! The program `limulus`: parses the command line, runs one command and ends with its exit code. It is a library so that it
//! is compiled beside the crates that it names; `main.rs` only links it.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod allocator;
mod args;
mod cells;
mod commands;
mod deprecation;
mod editor;
mod ended_program;
mod error;
mod home_size;
mod idle;
mod inherited;
mod input;
mod keyboard;
mod language;
mod notifier;
mod opening;
mod other_tools;
mod output;
mod probes;
mod progress_line;
mod prompt;
mod reading;
mod render;
mod retention;
mod search_index;
mod shorthand;
mod show;
mod signals;
mod unnamed;
mod upgrade;
mod wrap;

use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::thread;

use clap::Parser as _;
use tokio::sync::oneshot;

use args::{Cli, Command};
use commands::deliveries::DeliveriesArgs;
use commands::runs::{Following, RunsArgs};
use commands::serve::ServeArgs;
use commands::undo::Way;
use config::Globals;
use error::{CliError, ErrorStyle};

/// The hidden subcommand of a supervisor. `main` checks for it first, so that a supervisor uses little memory.
const SUPERVISE: &str = "supervise";
/// The default stack size of a main thread: reserved address space, not memory.
const STACK_BYTES: usize = 8 << 20;

/// Runs the program with the arguments of the process. Returns its exit code (`args.rs` lists them for `--help`).
pub fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == SUPERVISE => return tools::supervise_main(words),
        Some(word) if word == tools::CONFINE => return tools::confine_main(words),
        Some(word) if word == ended_program::NOTIFICATION => return ended_program::notification(words),
        Some(word) if word == config::KEY_COMMAND_HELPER => return ended_program::key_command(words),
        Some(word) if word == tools::SCHEMA_CHECK => return tools::schema_check_main(),
        _ => {}
    }
    // A command of the model runs as the same user, and the environment may hold keys.
    tools::hide_from_commands();
    plant_mutant();
    output::escape_panics();
    let words = deprecation::arguments();
    // Every command with `--json` means by it that a program reads what it prints.
    let is_json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let style = if is_json { ErrorStyle::Json } else { ErrorStyle::Text };
    let words = match shorthand::completed(words) {
        Ok(words) => words,
        Err(error) => return failed(&error, style),
    };
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return args::refused(error, &words, style),
    };
    output::set_color(cli.color);
    let exit = match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, style),
    };
    telemetry::log::flush();
    exit
}

fn failed(error: &CliError, style: ErrorStyle) -> ExitCode {
    error.print(style);
    error.exit().into()
}

fn run(mut command: Command) -> Result<(), CliError> {
    // Some commands need no home.
    let globals = Globals::of_process();
    let home = globals.as_ref().ok().map(|globals| globals.home.clone());
    let unnamed = globals.as_ref().ok().and_then(|globals| unnamed::fill_in(&mut command, globals));
    carry_out(command, globals).map_err(|error| match (home, unnamed) {
        (Some(home), Some(key)) => unnamed::explained(error, &key, &home),
        (Some(home), None) => unnamed::with_nearest(error, &home),
        (None, _) => error,
    })
}

fn carry_out(command: Command, globals: Result<Globals, config::ConfigError>) -> Result<(), CliError> {
    match command {
        Command::Agent(args) => wait_for(commands::agent::run(*args, &globals?)),
        Command::Send(args) => wait_for(commands::send::run(args, &globals?)),
        Command::Queue(args) if args.writes() => wait_for(commands::queue::write(args, &globals?)),
        Command::Queue(args) => commands::queue::read(args, &globals?),
        Command::Deliveries(args) => read_or_change(args, &globals?),
        Command::Resume(args) => wait_for(commands::resume::run(args, &globals?)),
        Command::Serve(args) => serve(args, &globals?),
        Command::Runs(args) => follow_or_read(args, &globals?),
        Command::Events(args) => wait_for(commands::events::run(args, &globals?)),
        Command::Status(args) => commands::status::run(args, &globals?),
        Command::Policy(args) => commands::policy::run(args, &globals?),
        Command::Prompt(args) => commands::prompt::run(args, &globals?),
        Command::Skills(args) => commands::skills::run(args, &globals?),
        Command::Agents(args) => commands::agents::run(&args, &globals?),
        Command::Sessions(args) => match args.writing() {
            Ok(writing) => wait_for(commands::sessions::write(writing, &globals?)),
            Err(args) => commands::sessions::run(args, &globals?),
        },
        Command::Diff(args) => {
            let globals = globals?;
            if let Some(act) = args.copy_act() {
                return wait_for(commands::diff::decide(args, act, &globals));
            }
            if commands::background::has_unrecorded(&globals.home) {
                // Who may only read the home, or finds it in use, sees what is recorded so far.
                let _ = wait_for(commands::diff::record(&globals));
            }
            commands::diff::run(args, &globals)
        }
        Command::Undo(args) => wait_for(commands::undo::run(args, Way::Undo, &globals?)),
        Command::Redo(args) => wait_for(commands::undo::run(args, Way::Redo, &globals?)),
        Command::Receipt(args) => commands::receipt::run(args, &globals?),
        Command::Audit(args) => commands::audit::run(args, &globals?),
        Command::Doctor(args) => {
            let (globals, mut answers) = (globals?, vec![]);
            if args.asks_models() {
                wait_for(async {
                    answers = commands::doctor::ask(&globals).await;
                    Ok(())
                })?;
            }
            commands::doctor::run(&args, answers, &globals)
        }
        Command::Setup(args) => wait_for(commands::setup::run(args, &globals?)),
        Command::Models(args) => wait_for(commands::models::run(args, &globals?)),
        Command::Backup(args) => commands::backup::run(&args, &globals?),
        Command::Restore(args) => commands::backup::restore(&args, &globals?),
        Command::Gateway(args) => wait_for(commands::gateway::run(args, &globals?)),
        Command::Sandbox(args) => commands::sandbox::run(args, &globals?),
        Command::Answer(args) => commands::answer::run(&args, &globals?),
        Command::Approvals(args) => commands::approvals::run(args, &globals?),
        Command::Profiles(args) if args.writes() => wait_for(commands::profiles::write(args, &globals?)),
        Command::Profiles(args) => commands::profiles::read(&args, &globals?),
        Command::Budget(args) if args.writes() => wait_for(commands::budget::write(args, &globals?)),
        Command::Budget(args) => commands::budget::read(args, &globals?),
        Command::Usage(args) => commands::usage::run(args, &globals?),
        Command::Config(args) => commands::config::run(args, &globals?),
        Command::Failover(args) => commands::failover::run(&args),
        Command::Graph(args) => commands::graph::run(args, &globals?),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::run(&args),
    }
}

/// A command on runs: those that follow one need the owner.
fn serve(args: ServeArgs, globals: &Globals) -> Result<(), CliError> {
    if args.serves() {
        // It may begin this program anew, for which the socket stays in the environment.
        allocator::gives_memory_back();
        inherited::take();
    }
    wait_for(commands::serve::run(args, globals))
}

fn read_or_change(args: DeliveriesArgs, globals: &Globals) -> Result<(), CliError> {
    if !args.writes() {
        return commands::deliveries::read(args, globals);
    }
    // The look-up blocks, so that it is done before.
    let args = args.with_whole_id(globals)?;
    wait_for(commands::deliveries::write(args, globals))
}

fn follow_or_read(args: RunsArgs, globals: &Globals) -> Result<(), CliError> {
    match args.following() {
        Ok(Following::Abort(abort)) => wait_for(commands::abort::run(abort, globals)),
        Ok(Following::Pause(pause)) => wait_for(commands::hold::pause(pause, globals)),
        Ok(Following::Resume(resume)) => wait_for(commands::hold::run_resume(resume, globals)),
        Ok(Following::Break(place)) => wait_for(commands::hold::break_at(place, globals)),
        Ok(Following::Steer(steer)) => wait_for(commands::send::steer(steer, globals)),
        Ok(Following::Watch(watch)) => wait_for(commands::watch::run(watch, globals)),
        Ok(Following::Wait(wait)) => wait_for(commands::wait::run(wait, globals)),
        Err(args) => commands::runs::run(args, globals),
    }
}

/// Runs an asynchronous command on the main thread. A second thread drives the tasks that the command spawns, such as the
/// service of a home and connections to it. So a terminal that nobody reads blocks only the command, not the clients of
/// this process. Both threads share one runtime.
fn wait_for(command: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    drive(pin!(command))
}

/// One function for all commands: the runtime is compiled once.
fn drive(command: Pin<&mut dyn Future<Output = Result<(), CliError>>>) -> Result<(), CliError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime::watchdog::announce(&mut builder).enable_all().build();
    let runtime = runtime.map_err(|error| CliError::bug(&format!("no runtime: {error}")))?;
    let handle = runtime.handle().clone();
    let (running, ended) = oneshot::channel::<()>();
    let tasks = move || {
        // Nothing is ever sent: the thread ends when the command drops its sender.
        let _ = runtime.block_on(ended);
        // A thread that still reads the terminal must not keep the process alive.
        runtime.shutdown_background();
    };
    let tasks = thread::Builder::new().name("tasks".to_owned()).stack_size(STACK_BYTES).spawn(tasks);
    let tasks = tasks.map_err(|error| CliError::bug(&format!("no thread: {error}")))?;
    let result = handle.block_on(command);
    drop(running);
    // A panicked thread has already printed its message.
    let _ = tasks.join();
    result
}

/// In a build with mutants, `LIMULUS_MUTANT=NAME` enables one.
#[cfg(feature = "faults")]
fn plant_mutant() {
    use engine::mutants::{Mutant, plant};
    if let Ok(name) = std::env::var("LIMULUS_MUTANT") {
        plant(Mutant::ALL.iter().find(|(_, known)| *known == name).map(|(mutant, _)| *mutant));
    }
}

#[cfg(not(feature = "faults"))]
fn plant_mutant() {}

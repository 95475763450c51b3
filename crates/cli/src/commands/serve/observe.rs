//! The log of a service, and the collector of its traces.

use clap::ValueEnum;
use config::{Config, Globals};
use telemetry::log::{Format, install};
use telemetry::traces::Collector;

use crate::error::{CliError, Exit};
use crate::output::{self, Output};

/// The variable that says what is logged.
const FILTER: &str = "LIMULUS_LOG";

/// The variable with headers for the collector, which may be secret. Other programs take them from there too.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// How the lines of a log look.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, spans and fields; what the service says to its user stays as it is
    Text,
    /// One JSON object a line, also what the service says to its user
    Json,
}

/// Logs to stderr from here on, if the flag or the variable asks for it.
pub(super) fn start(format: Option<LogFormat>, globals: &Globals) -> Result<(), CliError> {
    let filter = globals.environment.get(FILTER).map(str::trim).filter(|filter| !filter.is_empty());
    if filter.is_none() && format.is_none() {
        return Ok(());
    }
    let looks = match format {
        None | Some(LogFormat::Text) => Format::Text,
        Some(LogFormat::Json) => Format::Json,
    };
    // A closed stderr is not an error.
    let write = |line: &str| drop(Output::Stderr.write(line));
    install(filter.unwrap_or("info"), looks, write).map_err(|error| CliError::Refused {
        exit: Exit::Config,
        what: error.to_string(),
        hint: "a level, as in LIMULUS_LOG=debug, or levels for parts, as in LIMULUS_LOG=info,limulus::http=debug"
            .to_owned(),
    })?;
    if looks == Format::Json {
        output::log_notes();
    }
    Ok(())
}

/// Who receives the traces, if anybody does.
pub(super) fn collector(config: &Config, globals: &Globals) -> Result<Option<Collector>, CliError> {
    let Some(address) = config.otlp() else { return Ok(None) };
    let collector = Collector::new(address, globals.environment.get(HEADERS), env!("CARGO_PKG_VERSION"));
    collector.map(Some).map_err(|error| CliError::Refused {
        exit: Exit::Config,
        what: error.to_string(),
        hint: "set telemetry.otlp to the address of the collector, such as http://127.0.0.1:4318".to_owned(),
    })
}

//! W5: the whole process, from its cold start to the finished answer of the built-in offline model, a fresh home each
//! time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Problem;
use super::table::{Line, Row, Samples, Target};

/// The number of measurements.
const STARTS: usize = 30;

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    let starts = (0..STARTS).map(|at| start(binary, &folder.join(format!("cold-{at}"))));
    Ok(vec![
        Row {
            what: "W5: cold start to a finished offline answer, whole process",
            target: Target::AtMost(20.0),
            measured: Samples::new("ms", starts.collect::<Result<_, _>>()?),
        }
        .into(),
    ])
}

fn start(binary: &Path, folder: &Path) -> Result<f64, Problem> {
    std::fs::create_dir_all(folder)?;
    let mut command = Command::new(binary);
    command.args(["agent", "-m", "hello"]).env_clear().env("HOME", folder).env("LIMULUS_HOME", folder.join("home"));
    command.current_dir(folder).stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output()?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() || output.stdout.is_empty() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`limulus agent` ended with {}: {stderr}", output.status).into());
    }
    Ok(ms)
}

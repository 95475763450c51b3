//! W5: the whole process, from its cold start to the finished answer of the built-in offline model, a fresh home each
//! time; and the same in a workspace with many skills and bootstrap files, which its prompt is made of.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Problem;
use super::table::{Line, Row, Samples, Target};

/// The number of measurements.
const STARTS: usize = 30;
/// Starts whose CPU time is measured together: the kernel says the time of ended processes in steps of 10 ms.
const STARTS_TOGETHER: usize = 10;
const SKILLS: usize = 100;
/// The folder that the agent works in, below that of the user.
const WORKSPACE: &str = "harbour";
/// The files of the workspace; two more are in the home.
const FILES: [&str; 8] =
    ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md"];

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    let starts = (0..STARTS).map(|at| start(binary, &folder.join(format!("cold-{at}"))));
    let starts = starts.collect::<Result<_, _>>()?;
    let (mut bare, mut furnished) = (vec![], vec![]);
    for at in 0..STARTS / STARTS_TOGETHER {
        for (name, furnish, cpu) in [("bare", false, &mut bare), ("furnished", true, &mut furnished)] {
            let folders = (0..STARTS_TOGETHER).map(|of| folder.join(format!("cold-{name}-{at}-{of}")));
            let folders: Vec<_> = folders.collect();
            if furnish {
                folders.iter().try_for_each(|folder| self::furnish(folder))?;
            }
            let before = ms_of_ended_processes()?;
            folders.iter().try_for_each(|folder| start(binary, folder).map(drop))?;
            cpu.push((ms_of_ended_processes()? - before) / STARTS_TOGETHER as f64);
        }
    }
    Ok(vec![
        Row {
            what: "W5: cold start to a finished offline answer, whole process",
            target: Target::AtMost(20.0),
            measured: Samples::new("ms", starts),
        }
        .into(),
        Row { what: "W5: the same: CPU", target: Target::None, measured: Samples::new("ms", bare) }.into(),
        Row {
            what: "W5: the same with 100 skills and 10 bootstrap files: CPU",
            target: Target::AtMost(20.0),
            measured: Samples::new("ms", furnished),
        }
        .into(),
    ])
}

/// Makes a workspace with skills of 2 KiB and files of 4 KiB.
fn furnish(folder: &Path) -> Result<(), Problem> {
    let workspace = folder.join(WORKSPACE);
    fs::create_dir_all(workspace.join(".git"))?;
    let line = "The harbour office counts in fathoms and writes down who came in when.\n";
    for at in 0..SKILLS {
        let name = format!("harbour-{at}");
        let skill = workspace.join(".agents/skills").join(&name);
        fs::create_dir_all(&skill)?;
        let head =
            format!("---\nname: {name}\ndescription: Looks after quay {at}. Use it when a ship comes in there.\n---\n");
        fs::write(skill.join("SKILL.md"), head + &line.repeat(28))?;
    }
    let home = folder.join("home");
    fs::create_dir_all(&home)?;
    let of_workspace = FILES.iter().map(|name| workspace.join(name));
    for file in of_workspace.chain(["SOUL.md", "USER.md"].iter().map(|name| home.join(name))) {
        fs::write(file, line.repeat(58))?;
    }
    Ok(())
}

/// The CPU time of all processes that this one started and that have ended, ms.
fn ms_of_ended_processes() -> Result<f64, Problem> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has no name in it")?;
    // Behind the name the state is the first field; those of children are the 14th and the 15th, in steps of 10 ms.
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    let ticks: Vec<f64> = ticks.collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() * 10.0)
}

fn start(binary: &Path, folder: &Path) -> Result<f64, Problem> {
    let workspace = folder.join(WORKSPACE);
    fs::create_dir_all(&workspace)?;
    let mut command = Command::new(binary);
    command.args(["agent", "-m", "hello"]).env_clear().env("HOME", folder).env("LIMULUS_HOME", folder.join("home"));
    command.current_dir(workspace).stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output()?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() || output.stdout.is_empty() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`limulus agent` ended with {}: {stderr}", output.status).into());
    }
    Ok(ms)
}

//! `grep`, `find`, `ls` and `read` of the tools beside `rg` and `fd`, on the same tree of 100,000 files, one after the other in each
//! round. A program that is missing is named, and the rest is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use engine::{CallId, EffectId, EffectKind, RunId};
use serde_json::{Value, json};
use tools::{CallRequest, Context};
use uuid::Uuid;

use super::Problem;
use super::table::{Line, Row, Samples, Target};

const FOLDERS: usize = 100;
const FOLDERS_BELOW: usize = 10;
const FILES: usize = 100;

/// Lines of a file: about two kilobytes, as much as many sources have.
const LINES: usize = 50;

const ROUNDS: usize = 15;

/// The names under which distributions install a program.
const RG: &[&str] = &["rg"];
const FD: &[&str] = &["fd", "fdfind"];

/// Something that a tool and a program do.
struct Contest {
    what: &'static str,
    ratio: &'static str,
    tool: &'static str,
    arguments: Value,
    programs: &'static [&'static str],
    words: &'static [&'static str],
}

fn contests() -> Vec<Contest> {
    vec![
        Contest {
            what: "`grep` of a word that is in no file, of 100,000",
            ratio: "the same, times as long as `rg`",
            tool: "grep",
            arguments: json!({ "pattern": "nowhere_to_be_seen" }),
            programs: RG,
            words: &["--line-number", "--no-heading", "nowhere_to_be_seen", "."],
        },
        Contest {
            what: "`grep` of a word that is in 100 of 100,000 files",
            ratio: "the same, times as long as `rg`",
            tool: "grep",
            arguments: json!({ "pattern": "needle_[0-9]+" }),
            programs: RG,
            words: &["--line-number", "--no-heading", "needle_[0-9]+", "."],
        },
        Contest {
            what: "`grep` in 10,000 files of a glob",
            ratio: "the same, times as long as `rg`",
            tool: "grep",
            arguments: json!({ "pattern": "nowhere_to_be_seen", "glob": "*7.rs" }),
            programs: RG,
            words: &["--line-number", "--no-heading", "--glob", "*7.rs", "nowhere_to_be_seen", "."],
        },
        Contest {
            what: "`find` of 100 of 100,000 files",
            ratio: "the same, times as long as `fd`",
            tool: "find",
            arguments: json!({ "pattern": "f_3_42.rs" }),
            programs: FD,
            words: &["--glob", "f_3_42.rs"],
        },
        Contest {
            what: "`ls` of a folder with 100 files",
            ratio: "the same, times as long as `fd`",
            tool: "ls",
            arguments: json!({ "path": "d_7/e_3" }),
            programs: FD,
            words: &["--max-depth", "1", "", "d_7/e_3"],
        },
        Contest {
            what: "`read` of a file",
            ratio: "the same, times as long as `rg` printing it",
            tool: "read",
            arguments: json!({ "path": "d_7/e_3/f_3_42.rs" }),
            programs: RG,
            words: &["--line-number", "", "d_7/e_3/f_3_42.rs"],
        },
    ]
}

/// Measures; it makes the tree in this folder.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let workspace = folder.join("tree");
    make(&workspace)?;
    let context = context(folder, &workspace)?;
    let mut lines = vec![];
    for contest in contests() {
        lines.extend(compare(&context, &contest)?);
    }
    Ok(lines)
}

fn compare(context: &Context, of: &Contest) -> Result<Vec<Line>, Problem> {
    let program = of.programs.iter().find(|program| is_there(program));
    let (mut own, mut other) = (vec![], vec![]);
    // The first round reads the tree from the disk.
    for round in 0..=ROUNDS {
        let ms = run(context, of)?;
        let other_ms = program.map(|program| run_program(context, program, of.words)).transpose()?;
        if round > 0 {
            own.push(ms);
            other.extend(other_ms);
        }
    }
    let ratios: Vec<f64> = own.iter().zip(&other).map(|(own, other)| own / other).collect();
    let figure = |what, target, samples| Line::from(Row { what, target, measured: samples });
    let mut lines = vec![figure(of.what, Target::None, Samples::new("ms", own))];
    lines.push(if program.is_some() {
        figure(of.ratio, Target::AtMost(2.0), Samples::new("×", ratios))
    } else {
        let found = format!("{} is not installed", of.programs.join(" or "));
        Line::Words { what: of.ratio, asked: "", found, is_met: true }
    });
    Ok(lines)
}

/// How long a call of a tool takes, from its check to its result.
fn run(context: &Context, of: &Contest) -> Result<f64, Problem> {
    let run = RunId(Uuid::now_v7());
    let request = CallRequest {
        id: EffectId { run, kind: EffectKind::RunCall, ordinal: 1, try_no: 1 },
        call: CallId { run, step: 1, index: 0 },
        tool: of.tool.to_owned(),
        arguments: serde_json::to_vec(&of.arguments)?.into(),
        evidence: None,
        timeout_ms: None,
        already: 0,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    let result = runtime.block_on(tools::run(context, &request, |_, _| {}));
    let ms = started.elapsed().as_secs_f64() * 1e3;
    if result.outcome != engine::CallOutcome::Done {
        return Err(format!("{}: {}", of.tool, String::from_utf8_lossy(&result.output.bytes)).into());
    }
    Ok(ms)
}

fn run_program(context: &Context, program: &str, words: &[&str]) -> Result<f64, Problem> {
    let mut command = Command::new(program);
    command.args(words).current_dir(&context.workspace).stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output()?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    // Without a match it ends with 1.
    if output.status.code().is_none_or(|code| code > 1) {
        return Err(
            format!("{program} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into()
        );
    }
    Ok(ms)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A tree of sources in a repository, with rules on what is left out.
fn make(root: &Path) -> Result<(), Problem> {
    fs::create_dir_all(root.join(".git"))?;
    fs::write(root.join(".gitignore"), "target/\n*.log\n/build\n!keep.log\n")?;
    for top in 0..FOLDERS {
        for below in 0..FOLDERS_BELOW {
            let folder = root.join(format!("d_{top}/e_{below}"));
            fs::create_dir_all(&folder)?;
            for file in 0..FILES {
                fs::write(folder.join(format!("f_{below}_{file}.rs")), source(top, below, file))?;
            }
        }
    }
    Ok(())
}

fn source(top: usize, below: usize, file: usize) -> String {
    let line = |line: usize| format!("    let value_{line} = compute({top}, {below}, {line});\n");
    let mut text: String = (0..LINES).map(line).collect();
    if below == 5 && file == 50 {
        text.push_str("// needle_");
        text.push_str(&top.to_string());
        text.push('\n');
    }
    text
}

fn context(folder: &Path, workspace: &Path) -> Result<Context, Problem> {
    let home = folder.join("home");
    fs::create_dir_all(&home)?;
    Ok(Context {
        routes: vec![],
        replies_to: vec![],
        tools: tools::ToolSet::default(),
        workspace: fs::canonicalize(workspace)?,
        files: tools::FileStore::new(home.join("files"), tools::StoreLimits::default()),
        calls: home.join("calls"),
        // As in a real home: what it opens is judged.
        protected: tools::Protected::folder(home.clone()),
        tool_timeout_ms: 120_000,
        secrets: tools::Secrets::new(["not-a-secret"]),
        outputs: tools::Outputs::default(),
        reach: tools::NetworkPolicy::Public,
        search: None,
        memory: tools::MemoryContext::default(),
        rules: tools::CallRules::default(),
        secret_env: vec![],
        sandbox: engine::Sandbox::default(),
        passed_env: vec![],
        user: None,
        skills: None,
        processes: vec![],
        supervisor: PathBuf::new(),
    })
}

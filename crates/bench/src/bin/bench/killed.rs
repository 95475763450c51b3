//! W6: SIGKILL to the real binary while a tool runs, and while a model answers; then `limulus resume`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use model_server::{ModelServer, Script};
use serde_json::Value;

use super::Problem;
use super::real::{KillHome, Resumed, resume, until};
use super::table::{Line, Row, Samples, Target};

/// Kills of each kind.
const TIMES: usize = 5;
/// Pieces of text that are received before the kill.
const PIECES: usize = 40;

/// Measures, and returns the lines of the table.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    let server = ModelServer::start()?;
    let (mut ms, mut in_tool, mut in_stream) = (vec![], vec![], vec![]);
    for time in 0..TIMES {
        let kill_home = KillHome::new(folder.join(format!("tool-{time}")), binary, &server, "restart")?;
        in_tool.push(mid_tool(&kill_home, &server, &mut ms)?);
        let kill_home = KillHome::new(folder.join(format!("stream-{time}")), binary, &server, "continue")?;
        in_stream.push(mid_stream(&kill_home, &server, &mut ms)?);
    }
    Ok(vec![
        verdict("W6: kill -9 while a tool runs", "resumes alone, at the point; no tool twice", &in_tool),
        verdict("W6: kill -9 while a model answers", "resumes alone, at the point; the text kept", &in_stream),
        Row {
            what: "W6: from the restart to the next request, whole process",
            target: Target::None,
            measured: Samples::new("ms", ms),
        }
        .into(),
    ])
}

/// The result of one kill.
struct Came {
    /// The words for the table.
    words: Vec<String>,
    is_met: bool,
}

fn verdict(what: &'static str, asked: &'static str, came: &[Came]) -> Line {
    let is_met = came.iter().all(|came| came.is_met);
    // If kills differ, the one that went wrong is shown.
    let shown = came.iter().find(|came| !came.is_met).or(came.first());
    let found = shown.map(|came| came.words.join("; ")).unwrap_or_default();
    Line::Words { what, asked, found: format!("{found} ({} kills)", came.len()), is_met }
}

/// The tool continues under its supervisor; its result is recovered, and the tool does not run again.
fn mid_tool(kill_home: &KillHome<'_>, server: &ModelServer, ms: &mut Vec<f64>) -> Result<Came, Problem> {
    let (ledger, ended) = (kill_home.folder.join("ledger"), kill_home.folder.join("ended"));
    let command = format!("echo run >> {}; sleep 0.2; echo done; : > {}", ledger.display(), ended.display());
    let mut agent = kill_home.start(&["agent", "--json", "--yes", "-m", &format!("tokens=8\nexec:{command}")])?;
    until("the tool runs", || ledger.exists())?;
    agent.kill()?;
    agent.wait()?;
    until("the tool has ended", || ended.exists())?;
    let Resumed { owner, wall_ms, .. } = resume(kill_home, server)?;
    ms.push(wall_ms);
    let is_alone = owner.wait_with_output()?.status.success();
    let run = shown(kill_home)?;
    let runs = std::fs::read_to_string(&ledger)?.lines().count();
    let is_whole = run["outcome"] == "completed" && run["text"] == Script { tokens: 8, ..Script::default() }.answer();
    let has_result = run["steps"][0]["calls"][0]["outcome"] == "done";
    Ok(Came {
        words: vec![
            resumed(is_alone && is_whole),
            format!("the tool ran {}", if runs == 1 { "once".to_owned() } else { format!("{runs} times") }),
            format!("its result {}", if has_result { "kept" } else { "lost" }),
        ],
        is_met: is_alone && is_whole && runs == 1 && has_result,
    })
}

/// The received text stays the start of the answer, and the model continues after it.
fn mid_stream(kill_home: &KillHome<'_>, server: &ModelServer, ms: &mut Vec<f64>) -> Result<Came, Problem> {
    let mut agent = kill_home.start(&["agent", "--json", "--yes", "-m", "tokens=200 delay_ms=2"])?;
    let mut lines = BufReader::new(agent.stdout.take().ok_or("no stdout")?).lines();
    let mut received = String::new();
    let mut pieces = lines.by_ref().map_while(Result::ok).filter_map(|line| piece(&line));
    received.extend(pieces.by_ref().take(PIECES));
    agent.kill()?;
    received.extend(pieces);
    agent.wait()?;
    let Resumed { owner, wall_ms, .. } = resume(kill_home, server)?;
    ms.push(wall_ms);
    let is_alone = owner.wait_with_output()?.status.success();
    let run = shown(kill_home)?;
    let is_kept = run["text"].as_str().is_some_and(|text| text.starts_with(&received)) && !received.is_empty();
    let is_whole = run["outcome"] == "completed";
    let kept = if is_kept { "all of it kept" } else { "not all of it kept" };
    let words =
        vec![resumed(is_alone && is_whole), format!("{} bytes of text had been received, {kept}", received.len())];
    Ok(Came { words, is_met: is_alone && is_whole && is_kept })
}

fn resumed(is_so: bool) -> String {
    if is_so { "resumed alone, to its end".to_owned() } else { "did not resume to its end".to_owned() }
}

/// The text in a line of `agent --json`.
fn piece(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let is_text = line["stream"] == "assistant" && line["type"] == "delta";
    is_text.then(|| line["text"].as_str().unwrap_or_default().to_owned())
}

/// The output of `runs show` for the only run.
fn shown(kill_home: &KillHome<'_>) -> Result<Value, Problem> {
    let runs = kill_home.ask(&["runs", "list", "--json"])?;
    let run = runs[0]["run"].as_str().ok_or("no run is listed")?;
    kill_home.ask(&["runs", "show", run, "--json"])
}

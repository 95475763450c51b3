//! What it costs to draw an answer on a terminal: a stream of 20,000 tokens a second of Markdown, in tmux and into nothing.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use model_server::ModelServer;

use super::Problem;
use super::real::{KillHome, until};
use super::table::{Line, Row, Samples, Target};

/// Tokens of the answer, each in a frame of its own.
const TOKENS: u32 = 100_000;
/// Tokens a second.
const RATE: u32 = 20_000;
/// Answers that are measured on each kind of output.
const TIMES: usize = 5;
/// The size of the terminal, columns and rows.
const SIZE: [&str; 2] = ["120", "40"];

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Terminal,
    Nothing,
}

/// What a run took.
struct Spent {
    /// User and system time of the program.
    cpu_s: f64,
    wall_s: f64,
}

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    if let Err(error) = Command::new("tmux").arg("-V").output() {
        let found = format!("not measured: tmux: {error}");
        let what = "an answer of 20,000 tokens/s on a terminal";
        return Ok(vec![Line::Words { what, asked: "", found, is_met: true }]);
    }
    let server = ModelServer::start()?;
    let share = |spent: &Spent| spent.cpu_s / f64::from(TOKENS) * f64::from(RATE) * 100.0;
    let (mut whole, mut drawing, mut rates) = (vec![], vec![], vec![]);
    for time in 0..TIMES {
        let run = |name: &str, output| {
            let home = KillHome::new(folder.join(format!("{name}-{time}")), binary, &server, "restart")?;
            answer(&home, binary, output)
        };
        let (shown, unseen) = (run("shown", Output::Terminal)?, run("unseen", Output::Nothing)?);
        whole.push(share(&shown));
        drawing.push(share(&shown) - share(&unseen));
        rates.push(f64::from(TOKENS) / shown.wall_s);
    }
    let row = |what, target, measured| Line::from(Row { what, target, measured });
    Ok(vec![
        row(
            "an answer of 100,000 tokens of Markdown at 20,000 tokens/s on a terminal of 120 columns: CPU of the whole program",
            Target::AtMost(30.0),
            Samples::new("% of a core", whole),
        ),
        row("the same: CPU that is spent on drawing it", Target::None, Samples::new("% of a core", drawing)),
        row("the same: whole runs, start and end included", Target::None, Samples::new("tokens/s", rates)),
    ])
}

/// Asks for the answer in a terminal of tmux, whose shell then says what its children took.
fn answer(home: &KillHome<'_>, binary: &Path, output: Output) -> Result<Spent, Problem> {
    // The path of a socket must be short.
    let of_tmux = tempfile::tempdir()?;
    let (socket, times) = (of_tmux.path().join("tmux"), home.folder.join("times"));
    let quoted = |path: &Path| format!("'{}'", path.display());
    let redirected = if output == Output::Nothing { "> /dev/null 2>&1" } else { "" };
    let script = format!(
        "cd {folder}; env -i TERM=screen-256color LANG=C.UTF-8 HOME={folder} LIMULUS_HOME={home} {binary} agent -m \
         'markdown={TOKENS} rate={RATE}' {redirected} || exit; times > {times}.new; mv {times}.new {times}; cat",
        folder = quoted(&home.folder),
        home = quoted(&home.home()),
        binary = quoted(binary),
        times = times.display(),
    );
    let tmux = |words: &[&str]| Command::new("tmux").arg("-S").arg(&socket).args(words).env_remove("TMUX").output();
    let began = Instant::now();
    let started = tmux(&["-f", "/dev/null", "new-session", "-d", "-x", SIZE[0], "-y", SIZE[1], &script])?;
    if !started.status.success() {
        return Err(format!("tmux: {}", String::from_utf8_lossy(&started.stderr)).into());
    }
    let ended = until("the end of the answer", || times.exists());
    let wall_s = began.elapsed().as_secs_f64();
    // Only what is drawn ends with such a line.
    let is_drawn = || {
        let screen = tmux(&["capture-pane", "-p"]);
        screen.is_ok_and(|screen| String::from_utf8_lossy(&screen.stdout).contains("done · "))
    };
    let drawn = if output == Output::Terminal && ended.is_ok() { until("its last line", is_drawn) } else { ended };
    tmux(&["kill-server"])?;
    drawn?;
    Ok(Spent { cpu_s: of_children(&std::fs::read_to_string(&times)?)?, wall_s })
}

/// The user and system time in the second line of what `times` of a shell prints, such as `0m1.250000s 0m0.310000s`.
fn of_children(times: &str) -> Result<f64, Problem> {
    let line = times.lines().nth(1).ok_or("the shell printed no times of its children")?;
    let mut sum = 0.0;
    for word in line.split_whitespace() {
        let (minutes, seconds) = word.split_once('m').ok_or("a time has minutes")?;
        sum += minutes.parse::<f64>()? * 60.0 + seconds.trim_end_matches('s').parse::<f64>()?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_children_are_added_up() {
        let sum = of_children("0m0.010000s 0m0.000000s\n1m1.250000s 0m0.500000s\n").expect("two times");
        assert!((sum - 61.75).abs() < 1e-9, "{sum}");
        assert!(of_children("0m0.01s 0m0.00s\n").is_err());
    }
}

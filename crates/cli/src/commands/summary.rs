//! The last line of a run on a terminal: how long it took, what it used, what it changed, and how to take that back.

use config::Globals;
use engine::{Outcome, RunId, Usage};
use protocol::method::{AgentWait, DiffParams, RunDiff, RunsDiff, WaitParams};

use super::background;
use super::conversation::Conversation;
use super::follower::Follower;
use crate::language::word;
use crate::show::human::{count, duration, excerpt, now, price, printable_line, rounded};

/// Changed files that are named; the others are counted.
const NAMED_FILES: usize = 3;
/// Characters of such a name.
const NAME_CHARS: usize = 60;

/// Says it, and what the run leaves behind: commands in the background, and messages of others that no owner works on any more.
pub(super) async fn say(
    follower: &mut Follower<'_>,
    (run, outcome): (RunId, Outcome),
    conversation: &Conversation,
    globals: &Globals,
) {
    say_figures(follower, run, outcome, conversation).await;
    let (client, key) = (follower.client().clone(), conversation.key.to_string());
    let still = background::of_session(&globals.home, &client, &key).await;
    follower.screen.still_running(run, &key, &still, now());
    let left = follower.screen.unsettled_messages();
    if left > 0 && follower.is_owner() {
        let (messages, session) = (count(left, "message"), conversation.name());
        let are = if left == 1 { "is" } else { "are" };
        follower.screen.say(&format!(
            "… {messages} from another terminal {are} unfinished: `limulus resume {session}` goes on with it"
        ));
    }
}

/// Says what a run took, if a person watches. A run whose figures cannot be had any more ends without it.
async fn say_figures(follower: &mut Follower<'_>, run: RunId, outcome: Outcome, conversation: &Conversation) {
    if !follower.screen.is_watched() {
        return;
    }
    let client = follower.client().clone();
    let Ok(ended) = client.call::<AgentWait>(WaitParams { run_id: run, timeout_ms: 0 }).await else { return };
    let Some(meta) = ended.reply.map(|reply| reply.meta) else { return };
    let params = DiffParams { run_id: Some(run.to_string()), ..DiffParams::default() };
    let diff = client.call::<RunsDiff>(params).await.ok();
    let figures = Figures { outcome, took_ms: meta.duration_ms, usage: meta.usage, cost: meta.cost };
    follower.screen.say(&line(&figures, diff.as_ref(), &conversation.option()));
}

/// What a run took.
struct Figures {
    outcome: Outcome,
    took_ms: u64,
    usage: Usage,
    /// Micro-dollars.
    cost: u64,
}

fn line(figures: &Figures, diff: Option<&RunDiff>, option: &str) -> String {
    let Figures { outcome, took_ms, usage, cost } = figures;
    let how = if *outcome == Outcome::Completed { "done" } else { outcome.name() };
    let mut parts = vec![how.replace('_', " "), took(*took_ms)];
    if usage.prompt() > 0 || usage.output > 0 {
        let cached = if usage.cached > 0 { format!(" ({} cached)", rounded(usage.cached)) } else { String::new() };
        parts.push(format!("{} in{cached}, {} out", rounded(usage.prompt()), rounded(usage.output)));
    }
    if *cost > 0 {
        parts.push(price(*cost));
    }
    if let Some(diff) = diff.filter(|diff| !diff.files.is_empty()) {
        // Texts say what the run was about: not what a command has built meanwhile.
        let texts = diff.files.iter().filter(|file| file.diff.is_some());
        let shown: Vec<_> = if texts.clone().next().is_some() { texts.collect() } else { diff.files.iter().collect() };
        let names = shown.into_iter().take(NAMED_FILES).map(|file| excerpt(&printable_line(&file.path), NAME_CHARS));
        let names: Vec<String> = names.collect();
        let more = diff.files.len() - names.len();
        let more = if more > 0 { format!(" and {}", count(more, "more file")) } else { String::new() };
        parts.push(format!("changed {}{more}", names.join(", ")));
        if diff.copy.is_some() {
            parts.push("in a copy".to_owned());
            parts.push(format!("take over: limulus diff{option} --apply"));
            parts.push(format!("discard: limulus diff{option} --discard"));
        } else {
            parts.push(format!("undo: limulus undo{option}"));
        }
    }
    // Each part is a text of its own: what a run took has no words that are the same each time.
    parts.iter().map(word).collect::<Vec<_>>().join(" · ")
}

/// `4 ms`, `7 s`, `2 min 3 s`.
fn took(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { duration(ms) }
}

#[cfg(test)]
mod tests {
    use engine::FileKind;
    use protocol::method::{FileAct, FileDiff};

    use super::*;

    fn diff(session: &str, paths: &[&str]) -> RunDiff {
        let file = |path: &&str| FileDiff {
            path: (*path).to_owned(),
            kind: FileKind::File,
            act: FileAct::Changed,
            mode: None,
            added: 1,
            removed: 1,
            diff: None,
            note: None,
        };
        RunDiff {
            session_key: session.to_owned(),
            run_ids: vec![],
            workspace: "/w".to_owned(),
            files: paths.iter().map(file).collect(),
            commands: vec![],
            unrecorded: vec![],
            background: vec![],
            undone: vec![],
            copy: None,
        }
    }

    #[test]
    fn r09_the_last_line_says_what_a_run_took_and_how_to_take_it_back() {
        let usage = Usage { input: 812, cached: 4_900, output: 260, ..Usage::default() };
        let figures = Figures { outcome: Outcome::Completed, took_ms: 7_400, usage, cost: 21_000 };
        let main = diff("agent:main:main", &["calc.py"]);
        assert_eq!(
            line(&figures, Some(&main), ""),
            "done · 7 s · 5.7k in (4.9k cached), 260 out · $0.02 · changed calc.py · undo: limulus undo"
        );
        let mut built = diff("agent:main:main", &["__pycache__", "__pycache__/calc.pyc", "calc.py"]);
        built.files[2].diff = Some("@@".to_owned());
        let shown = line(&figures, Some(&built), "");
        assert!(shown.contains("changed calc.py and 2 more files"), "{shown}");
        let other = diff("agent:main:work", &["a", "b\u{202e}", "c", "d", "e"]);
        let figures = Figures { outcome: Outcome::TimedOut, took_ms: 4, usage: Usage::default(), cost: 0 };
        let expected = "timed out · 4 ms · changed a, b\\u202e, c and 2 more files · undo: limulus undo --session work";
        assert_eq!(line(&figures, Some(&other), " --session work"), expected);
        assert_eq!(line(&figures, Some(&diff("agent:main:main", &[])), ""), "timed out · 4 ms");
    }
}

//! `limulus status`: the owner of the home, its sessions, and what the unfinished ones wait for.

use std::fmt::Write as _;

use clap::Args;
use config::Globals;
use engine::{PlanStatus, Timestamp, Usage};
use gateway::methods::reading::without_journal;
use protocol::event::PlanStep;
use protocol::method::{NoParams, StatusGet, UsageBy, UsageGet, UsageParams, UsageRow};
use protocol::show::{Held, Owner, Status, Unfinished};
use serde::Serialize;

use views::approvals;

use super::{background, interrupted};
use crate::error::{CliError, Exit};
use crate::home_size::HomeSize;
use crate::language::word;
use crate::reading::ask;
use crate::show::human::{
    Zone, columns, count, duration, excerpt, next_recovery, now, price, printable, printable_line, rounded,
    session_name,
};
use crate::show::{json, print};

/// Characters of a question in a line.
const QUESTION_CHARS: usize = 60;

/// Show what this home is doing: its owner, its sessions by state, what the unfinished ones wait for.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct StatusArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: StatusArgs, globals: &Globals) -> Result<(), CliError> {
    let zone = Zone::local();
    let status = match ask::<StatusGet>(globals, NoParams {}) {
        // A home without a journal has an empty status.
        Err(error) if error.exit() == Exit::NotFound => without_journal(&globals.home),
        answer => answer?,
    };
    let around = Around { today: today(globals), size: Some(HomeSize::of(&globals.home)) };
    let status = in_words(status, &zone);
    print(&if args.json {
        json(&Shown { status: &status, around: &around })
    } else {
        lay_out(&status, &around, &zone, now())
    })
}

/// What stands beside the status of the owner or the journal.
#[derive(Debug, Default, Serialize)]
struct Around {
    /// What the runs that started on this day, in local time, have used; absent if nobody can say.
    #[serde(skip_serializing_if = "Option::is_none")]
    today: Option<Today>,
    /// How much the home takes on its disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<HomeSize>,
}

/// What runs have used.
#[derive(Debug, Clone, Serialize)]
struct Today {
    runs: u64,
    usage: Usage,
    /// Micro-dollars.
    cost_micros: u64,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    status: &'a Status,
    #[serde(flatten)]
    around: &'a Around,
}

/// What the runs of this day have used. An owner of an older version cannot say, and a home without a journal has none.
fn today(globals: &Globals) -> Option<Today> {
    let midnight = config::local_now().start_of_day().ok()?.timestamp().as_millisecond();
    let params = UsageParams { by: UsageBy::Day, session_key: None, since: Some(Timestamp(midnight)) };
    let UsageRow { runs, usage, cost_micros, .. } = ask::<UsageGet>(globals, params).ok()?.all;
    Some(Today { runs, usage, cost_micros })
}

/// Adds until when a session waits, in the local time zone.
fn in_words(mut status: Status, zone: &Zone) -> Status {
    for Unfinished { waits_for, waits_until, lane_wait, next_recovery: next, .. } in &mut status.unfinished {
        if let Some(wait) = lane_wait {
            *waits_for = format!("{waits_for}, since {}", zone.time(wait.since));
        }
        if let Some(until) = waits_until.take() {
            *waits_for = format!("{waits_for}, until {}", zone.time(until));
        }
        if let Some(next) = next {
            *waits_for = format!("{waits_for}; {}", next_recovery(next, zone));
        }
    }
    status
}

fn lay_out(status: &Status, around: &Around, zone: &Zone, now: Timestamp) -> String {
    let owner = match &status.owner {
        Some(Owner { pid, since, resident_bytes, .. }) => {
            let since = since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
            let resident = resident_bytes.map(|bytes| format!(", {} MiB in memory", bytes >> 20)).unwrap_or_default();
            word(format!("pid {pid}{since}{resident}"))
        }
        None => word("none"),
    };
    let total: usize = status.sessions.values().sum();
    let by_state: Vec<String> =
        status.sessions.iter().map(|(state, number)| word(format!("{number} {state}"))).collect();
    let sessions = if total == 0 { word("none yet") } else { format!("{total} ({})", by_state.join(", ")) };
    let note = "(cannot be written: the latest entries of its owner may be missing)";
    let note = if status.immutable { format!(" {}", word(note)) } else { String::new() };
    let mut head = vec![[word("home"), format!("{}{note}", status.home)]];
    head.extend(around.size.map(|size| [word("size"), word(size.shown())]));
    head.push([word("owner"), owner]);
    head.extend(around.today.as_ref().map(|today| [word("today"), word(of_today(today))]));
    head.push([word("sessions"), sessions]);
    head.push([word("unfinished"), if status.unfinished.is_empty() { word("none") } else { String::new() }]);
    let mut text = columns(&head);
    if let Some(Held { by, ms, at, is_over }) = status.owner.as_ref().and_then(|owner| owner.held.as_ref()) {
        let so_far = if *is_over { "" } else { " so far" };
        let seconds = *ms as f64 / 1_000.0;
        let line = format!("for {seconds:.1} s{so_far} by {}, at {}", printable(by), zone.time(*at));
        text.push_str(&columns(&[[word("held"), word(line)]]));
    }
    let rows = status.unfinished.iter().map(|session| {
        [
            format!("  {}", session.key),
            word(session.run_state.to_string()),
            zone.time(session.last_activity),
            if session.queued == 0 {
                String::new()
            } else {
                word(format!("{} queued", count(session.queued as usize, "message")))
            },
            word(format!("waits for {}", printable(&session.waits_for))),
        ]
    });
    text.push_str(&columns(&rows.collect::<Vec<_>>()));
    for session in &status.unfinished {
        if let Some(run) = session.interrupted.as_ref().filter(|run| run.call.is_some()) {
            let goes_on = format!("`limulus resume {}` continues it", session.key);
            let _ = writeln!(text, "  {}", word(interrupted::line(run, &goes_on, zone, now)));
        }
    }
    for line in status.unfinished.iter().filter_map(plan_line) {
        let _ = writeln!(text, "  {line}");
    }
    for question in &status.questions {
        let (session, ago) = (session_name(&question.session), duration(now.since(question.asked_at)));
        let what = excerpt(&printable_line(&question.question), QUESTION_CHARS);
        let id = approvals::id(question.call);
        let line = match question.takes {
            Some(_) => format!("asked {ago} ago in {session}: {what} · limulus answer {id}"),
            None => format!("asked {ago} ago in {session}: {what} · limulus approvals approve {id}"),
        };
        let _ = writeln!(text, "  {}", word(line));
    }
    for command in &status.background {
        let session = session_name(&command.session);
        let line = format!("still running in {session}: {}", background::name(command, now));
        let _ = writeln!(text, "  {}", word(line));
    }
    text
}

/// How far the open plan of a session has come; none if it has none.
fn plan_line(session: &Unfinished) -> Option<String> {
    let step = excerpt(&printable_line(next_step(&session.plan)?), QUESTION_CHARS);
    let done = session.plan.iter().filter(|step| step.status == PlanStatus::Done).count();
    let (all, session) = (session.plan.len(), session_name(&session.key));
    Some(word(format!("plan of {session}: {done} of {all} done, next: {step}")))
}

/// The step that is being done, or else the first that is not done.
fn next_step(plan: &[PlanStep]) -> Option<&str> {
    let of = |status: PlanStatus| plan.iter().find(|step| step.status == status);
    of(PlanStatus::InProgress).or_else(|| of(PlanStatus::Pending)).map(|step| step.step.as_str())
}

fn of_today(today: &Today) -> String {
    let Today { runs, usage, cost_micros } = today;
    let read = usage.prompt();
    if *runs == 0 {
        return "no runs".to_owned();
    }
    let runs = count(*runs as usize, "run");
    format!("{runs}, {} tokens read and {} written, {}", rounded(read), rounded(usage.output), price(*cost_micros))
}

#[cfg(test)]
mod tests {
    use engine::{CallId, RunId};
    use gateway::methods::reading::Reads as _;
    use protocol::show::OpenQuestion;
    use uuid::Uuid;
    use views::scene::Scene;
    use views::{Source, approvals};

    use super::*;

    const NOW: Timestamp = Timestamp(1_763_694_250_000);

    fn status(scene: &Scene) -> Status {
        let status = StatusGet::read(&Source::of(&scene.journal), NoParams {}).unwrap();
        Status { home: "/home".to_owned(), ..status }
    }

    #[test]
    fn what_is_unfinished_says_what_it_waits_for() {
        let mut scene = Scene::new();
        scene.start("look around");
        scene.stream("Here is ");
        let mut status = status(&scene);
        let expected = "\
home        /home
owner       none
sessions    1 (1 active)
unfinished
  agent:main:main  streaming  2025-11-21 03:04:06    waits for an owner: `limulus resume agent:main:main` continues it
";
        assert_eq!(lay_out(&status, &Around::default(), &Zone::utc(), NOW), expected);
        let session = &mut status.unfinished[0];
        (session.waits_for, session.waits_until) = ("a quota".to_owned(), Some(Timestamp(1_763_694_250_000)));
        let shown = in_words(status, &Zone::utc());
        assert_eq!(shown.unfinished[0].waits_for, "a quota, until 2025-11-21 03:04:10");
        assert!(!json(&shown).contains("waits_until"), "the time is in the words");
    }

    #[test]
    fn r61_a_status_in_chinese_has_its_columns_under_each_other() {
        let mut scene = Scene::new();
        scene.start("look around");
        scene.stream("Here is ");
        let status = status(&scene);
        let shown = || crate::language::in_chinese(|| lay_out(&status, &Around::default(), &Zone::utc(), NOW));
        let expected = "\
数据目录  /home
拥有者    无
会话      1 (1 个活动)
未完成
  agent:main:main  流式输出  2025-11-21 03:04:06    在等拥有者：`limulus resume agent:main:main` 让它继续
";
        assert_eq!(shown(), expected);
        assert!(!json(&status).contains("拥有者"), "programs read it");
    }

    #[test]
    fn a_finished_home_is_quiet() {
        let mut scene = Scene::new();
        scene.start("hello");
        scene.stream("Hi.");
        scene.end_stream();
        let owner = Some(Owner {
            pid: 7,
            since: Some("2026-11-21T03:00:00Z".to_owned()),
            resident_bytes: Some(27 << 20),
            held: None,
        });
        let text = lay_out(&Status { owner, ..status(&scene) }, &Around::default(), &Zone::utc(), NOW);
        let expected = "home        /home\nowner       pid 7, since 2026-11-21T03:00:00Z, 27 MiB in memory\nsessions    1 (1 idle)\nunfinished  none\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn r18_open_questions_what_today_cost_and_the_size_of_the_home_are_said() {
        let question = OpenQuestion {
            session: "agent:main:main".to_owned(),
            call: CallId { run: RunId(Uuid::nil()), step: 1, index: 0 },
            question: "run `rm -r x`\u{1b}[2J".to_owned(),
            takes: None,
            asked_at: Timestamp(NOW.0 - 120_000),
        };
        let status = Status { questions: vec![question], ..status(&Scene::new()) };
        let usage = Usage { input: 5_000, output: 800, ..Usage::default() };
        let today = Some(Today { runs: 2, usage, cost_micros: 123_456 });
        let around = Around { today, size: Some(HomeSize { bytes: 5 << 20, is_whole: true }) };
        let text = lay_out(&status, &around, &Zone::utc(), NOW);
        assert!(text.contains("\nsize        5 MiB\n"), "{text}");
        assert!(text.contains("\ntoday       2 runs, 5.0k tokens read and 800 written, $0.12\n"), "{text}");
        assert!(text.contains("\n  asked 2 min 0 s ago in main: run `rm -r x`") && !text.contains('\u{1b}'), "{text}");
        let id = approvals::id(status.questions[0].call);
        assert!(text.ends_with(&format!(" · limulus approvals approve {id}\n")), "{text}");
    }
}

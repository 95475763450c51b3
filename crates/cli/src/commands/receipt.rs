//! `limulus receipt`: what became of one message.

use clap::Args;
use config::Globals;
use engine::MessageId;
use protocol::method::{ReceiptParams, ReceiptsGet};
use protocol::show::{ReceiptStory, SteerLeg};
use views::name;

use crate::error::{CliError, Exit};
use crate::reading::ask;
use crate::show::human::{Page, Zone, excerpt, printable_line};
use crate::show::{json, print};

/// Show what became of one message.
#[derive(Debug, Args)]
#[command(
    after_help = "A message that was never acknowledged has no receipt (exit code 4): send it again with the same key."
)]
pub(crate) struct ReceiptArgs {
    /// The message's id (its run has the same), or the key that it was sent with (`limulus agent --key`)
    #[arg(value_name = "ID|KEY")]
    message: String,
    /// Look only in this session: NAME, or agent:AGENT:NAME [default: any]
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: ReceiptArgs, globals: &Globals) -> Result<(), CliError> {
    let ReceiptArgs { message, session, json: as_json } = args;
    let by_id = ReceiptParams { id: Some(message.clone()), key: None, session: session.clone() };
    let by_key = ReceiptParams { id: None, key: Some(message.clone()), session };
    let receipt = if message.parse::<MessageId>().is_err() {
        ask::<ReceiptsGet>(globals, by_key)?
    } else {
        match ask::<ReceiptsGet>(globals, by_id) {
            // A key may look like an id. If the text is neither, the error about the id counts.
            Err(error) if error.exit() == Exit::NotFound => ask::<ReceiptsGet>(globals, by_key).map_err(|_| error)?,
            receipt => receipt?,
        }
    };
    print(&if as_json { json(&receipt) } else { lay_out(&receipt, &Zone::local()) })
}

fn lay_out(receipt: &ReceiptStory, zone: &Zone) -> String {
    let mut page = Page::default();
    let key = receipt.key.as_ref().map(|key| format!(" (key {})", excerpt(key, 60))).unwrap_or_default();
    let mode = name(&receipt.mode);
    page.line(format!("message {} of {}{key} is {}", receipt.message, receipt.session_key, name(&receipt.state)));
    let place = receipt.ahead.map(|ahead| format!("; number {ahead} in the queue")).unwrap_or_default();
    let by = receipt.mode_by.map(|by| format!("; its mode was decided by {}", by.in_words())).unwrap_or_default();
    let state = receipt.queue_state.map_or_else(|| name(&receipt.state), |state| state.name().to_owned());
    if let Some(leg) = receipt.steer {
        page.line(format!("  {mode}; accepted {}{place}{by}", zone.time(receipt.accepted_at)));
        page.line(format!("  steer leg: {}", steer_leg(receipt, leg)));
        page.line(format!("  followup leg: {state}"));
    } else {
        let queued = receipt.queue_state.map(|_| format!("{mode}: {state}; ")).unwrap_or_default();
        page.line(format!("  {queued}accepted {}{place}{by}", zone.time(receipt.accepted_at)));
    }
    for (what, address) in [("came from", &receipt.origin), ("its answer goes to", &receipt.reply_to)] {
        if let Some(address) = address {
            page.line(format!("  {what} {}", printable_line(&address.to_string())));
        }
    }
    if receipt.masked > 0 {
        page.line(format!("  secrets that were masked in it: {}", receipt.masked));
    }
    if let Some(ends) = receipt.ends_run {
        page.line(format!("  run {ends} ends as interrupted for it"));
    }
    let Some(started) = receipt.started_at else { return page.text() };
    let ended = receipt.ended_at.map(|at| format!(", ended {}", zone.time(at))).unwrap_or_default();
    let status = receipt.outcome.map_or(receipt.run_state.name(), engine::Outcome::name);
    page.line(format!("  run {} is {status}: started {}{ended}", receipt.run, zone.time(started)));
    if let Some(error) = &receipt.error {
        page.indented("  failure: ", error);
    }
    page.line(format!("  `limulus runs show {}` shows what it says", receipt.run));
    page.text()
}

/// What became of the steer of a message with two legs.
fn steer_leg(receipt: &ReceiptStory, leg: SteerLeg) -> String {
    if leg.taken_over {
        return "the followup leg took over: no request of another run held the message".to_owned();
    }
    let state = receipt.steer_state.map_or_else(|| name(&leg.state), |state| state.name().to_owned());
    let joined = leg.run != receipt.message.into();
    if joined { format!("{state}, in run {}", leg.run) } else { state }
}

#[cfg(test)]
mod tests {
    use gateway::methods::reading::Reads as _;
    use views::Source;
    use views::scene::Scene;

    use super::*;

    #[test]
    fn a3_r10_a_receipt_says_where_the_message_is_and_what_its_run_came_to() {
        let mut scene = Scene::new();
        scene.keyed("first", "k1");
        scene.keyed("second", "k2");
        scene.enter_lane(engine::ResumeMode::Restart);
        let shown = |scene: &Scene, key: &str| {
            let params = ReceiptParams { key: Some(key.to_owned()), ..ReceiptParams::default() };
            lay_out(&ReceiptsGet::read(&Source::of(&scene.journal), params).unwrap(), &Zone::utc())
        };
        let waits = "\
message 00000000-0000-0000-0000-000000000102 of agent:main:main (key k2) is queued
  followup: blocked; accepted 2025-11-21 03:04:04; number 1 in the queue; its mode was decided by the built-in default
";
        assert_eq!(shown(&scene, "k2"), waits);
        scene.stream("One.");
        scene.end_stream();
        let ended = "\
message 00000000-0000-0000-0000-000000000101 of agent:main:main (key k1) is ended
  followup: completed; accepted 2025-11-21 03:04:03; its mode was decided by the built-in default
  run 00000000-0000-0000-0000-000000000101 is completed: started 2025-11-21 03:04:05, ended 2025-11-21 03:04:08
  `limulus runs show 00000000-0000-0000-0000-000000000101` shows what it says
";
        assert_eq!(shown(&scene, "k1"), ended);
    }

    #[test]
    fn r32_r33_a_receipt_in_words_names_both_legs_and_says_if_the_followup_took_over() {
        let mut scene = Scene::new();
        scene.message("first");
        scene.message_as(engine::QueueMode::SteerBacklog, "second");
        let shown = |scene: &Scene| {
            let params = ReceiptParams {
                id: Some("00000000-0000-0000-0000-000000000102".to_owned()),
                ..ReceiptParams::default()
            };
            let receipt = ReceiptsGet::read(&Source::of(&scene.journal), params).unwrap();
            let text = lay_out(&receipt, &Zone::utc());
            let legs: Vec<String> = text.lines().filter(|line| line.contains(" leg: ")).map(str::to_owned).collect();
            (legs, receipt.steer.unwrap())
        };
        assert_eq!(shown(&scene).0, ["  steer leg: waiting", "  followup leg: blocked"]);
        scene.begin_run(engine::ResumeMode::Restart);
        assert_eq!(shown(&scene).0, ["  steer leg: steering", "  followup leg: blocked"]);
        // No request of that run has held it.
        scene.offer(engine::Command::Abort { run: None });
        let over = "  steer leg: the followup leg took over: no request of another run held the message";
        assert_eq!(shown(&scene).0, [over, "  followup leg: blocked"]);
        assert!(shown(&scene).1.taken_over);
        scene.enter_lane(engine::ResumeMode::Restart);
        scene.stream("Both.");
        scene.end_stream();
        assert_eq!(shown(&scene).0, [over, "  followup leg: completed"]);

        let mut scene = Scene::new();
        scene.message("first");
        scene.message_as(engine::QueueMode::SteerBacklog, "second");
        scene.enter_lane(engine::ResumeMode::Restart);
        scene.offer(engine::Command::Abort { run: None });
        let held = "  steer leg: delivered, in run 00000000-0000-0000-0000-000000000101";
        assert_eq!(shown(&scene).0, [held, "  followup leg: blocked"]);
        assert!(!shown(&scene).1.taken_over);
    }
}

//! A tool that is not built in: one file, and one line where it is added. Its acts are judged like those of every other one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{CallOutcome, Found, Policy, ToolClass, ToolResult, ToolSpec};
use serde_json::{Value, json};
use tools::{
    Act, CallRequest, CallSite, Context, OnOutput, ParsedCall, Tool, ToolCall, ToolError, ToolFuture, ToolSet,
};

use crate::support::{GRACE, SECRET, World, output, request};

/// Tosses a coin, and counts that.
struct Coin {
    class: ToolClass,
    tossed: Arc<AtomicU32>,
}

/// Where the coin comes from.
struct Toss {
    from: Value,
    tossed: Arc<AtomicU32>,
}

impl Tool for Coin {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        let schema = json!({
            "type": "object",
            "properties": { "from": { "type": "string", "minLength": 1 }, "url": { "type": "string" } },
            "additionalProperties": false,
        });
        ToolSpec { name: "coin".to_owned(), class: self.class, description: "Toss a coin.".to_owned(), schema }
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::new(Toss { from: arguments, tossed: Arc::clone(&self.tossed) }))
    }
}

impl ToolCall for Toss {
    fn acts(&self, site: &CallSite<'_>) -> Result<Vec<Act>, ToolError> {
        let mut acts = vec![Act::Other { question: "toss a coin".to_owned() }];
        if let Some(path) = self.from["from"].as_str() {
            acts.push(Act::Read { verb: "read", path: site.resolve(path)? });
        }
        if let Some(url) = self.from["url"].as_str() {
            acts.push(Act::Fetch(url.to_owned()));
        }
        Ok(acts)
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        _request: &'a CallRequest,
        progress: &'a mut OnOutput<'a>,
    ) -> ToolFuture<'a, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            self.tossed.fetch_add(1, Ordering::SeqCst);
            progress(0, "it spins".to_owned());
            tokio::task::yield_now().await;
            Ok(tools::done(context, &format!("heads, with {SECRET}\n")))
        })
    }
}

fn world(class: ToolClass) -> (World, Arc<AtomicU32>) {
    let (mut world, tossed) = (World::new(), Arc::default());
    world.context.tools = ToolSet::default().with(Coin { class, tossed: Arc::clone(&tossed) });
    world.settings.tools = world.context.tools.specs();
    (world, tossed)
}

/// R38: what a tool does to the world is judged by its acts, and the strictest verdict decides.
#[test]
fn r38_the_acts_of_an_added_tool_decide_whether_it_may_run() {
    let (world, _) = world(ToolClass::Once);
    let check = |arguments| world.check(&request("coin", arguments));
    let plain = check(json!({}));
    assert_eq!((plain.decision, plain.reason.as_deref()), (Policy::Ask, Some("toss a coin")));
    assert_eq!(check(json!({ "from": "pocket" })).decision, Policy::Ask);
    let outside = check(json!({ "from": "/etc/hostname" }));
    assert_eq!(outside.decision, Policy::Deny);
    assert!(outside.reason.unwrap().contains("may not read /etc/hostname"));
    let fetched = check(json!({ "from": "pocket", "url": "https://a.example" }));
    assert_eq!(fetched.decision, Policy::Deny);
    assert!(fetched.reason.unwrap().contains("fetching from the web is denied"));
    let misfit = check(json!({ "side": "heads" }));
    assert_eq!(misfit.decision, Policy::Deny);
    assert!(misfit.reason.unwrap().contains("the arguments of `coin` do not fit"));
    let (reading, _) = self::world(ToolClass::ReadOnly);
    assert_eq!(reading.check(&request("coin", json!({}))).decision, Policy::Allow);
}

/// R38: several questions about one call are asked at once.
#[test]
fn r38_the_questions_of_one_call_are_asked_together() {
    let (mut world, _) = world(ToolClass::Once);
    (world.settings.outside, world.settings.web_fetch) = (Policy::Ask, Policy::Ask);
    let asked = world.check(&request("coin", json!({ "from": "/etc/hostname", "url": "https://a.example" })));
    assert_eq!(asked.decision, Policy::Ask);
    let reason = asked.reason.unwrap();
    let parts = ["toss a coin; ", "read /etc/hostname, which is outside the workspace; ", "fetch https://a.example"];
    assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
}

/// R38, R41: an added tool runs like the built-in ones: live output, masked results, a lookup that knows nothing, an end.
#[tokio::test]
async fn r38_r41_an_added_tool_runs_is_looked_up_and_is_ended() {
    let (world, tossed) = world(ToolClass::Once);
    let request = request("coin", json!({}));
    let mut live = vec![];
    let ended = tools::run(&world.context, &request, |at, text| live.push((at, text))).await;
    assert_eq!((ended.outcome, output(&ended).contains(SECRET)), (CallOutcome::Done, false));
    assert!(output(&ended).starts_with("heads"), "{ended:?}");
    assert_eq!((live, tossed.load(Ordering::SeqCst)), (vec![(0, "it spins".to_owned())], 1));
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
    assert_eq!(tools::end(&world.context, &request, GRACE).await.outcome, CallOutcome::Failed);
    assert_eq!(tossed.load(Ordering::SeqCst), 1);
    // Without the line that adds it, nobody knows it.
    let plain = World::new();
    let unknown = tools::run(&plain.context, &request, |_, _| {}).await;
    assert!(output(&unknown).contains("there is no tool `coin`"), "{}", output(&unknown));
}

//! Carries out the effects. Each ends with a report; none decides what follows.

mod call;
mod compact;
mod deliver;
mod erase;
mod freeze_call;
pub(crate) mod home;
mod masked_answer;
mod prepare;
mod request;
mod title;
mod undo;

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, PoisonError};

use engine::{
    Body, BudgetRequest, CallId, Candidate, CompactionStep, Derived, Effect, EffectId, Failure, FailureClass, Hash,
    MessageId, ProcessState, RepairPolicy, Report, Run, RunId, Session, Settings, Spent, ToolClass,
};
use futures_util::FutureExt as _;
use journal::DeletedConversation;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tools::CallAhead;

use crate::actor::Offer;
use crate::conversation::Conversation;
use crate::lanes::LaneTicket;
use crate::memory;
use crate::perform::freeze_call::Freezing;
use crate::runtime::{Redaction, Shared};
use crate::watchdog;

/// What an effect needs from its session, taken when it starts.
pub(crate) struct Job<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) session: &'a Session,
    pub(crate) settings: Option<&'a Arc<Settings>>,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) data: &'a mpsc::Sender<Offer>,
    /// The ticket of the run that has requested its slot already.
    pub(crate) ticket: Option<LaneTicket>,
    /// For `run_call`: what began with its check.
    pub(crate) ahead: Option<CallAhead>,
}

/// The way back into the engine.
#[derive(Clone)]
pub(crate) struct Reporter {
    effect: EffectId,
    data: mpsc::Sender<Offer>,
}

impl Reporter {
    pub(crate) fn effect(&self) -> EffectId {
        self.effect
    }

    /// Sends a report; waits while the session's mailbox is full. A session that is gone needs no report.
    pub(crate) async fn report(&self, report: Report) {
        let _ = self.data.send(Offer::report(report)).await;
    }
}

/// A running effect, with what stops it.
pub(crate) struct Underway {
    task: AbortHandle,
    freezing: Option<Arc<Freezing>>,
    ahead: Option<call::Ahead>,
}

impl Underway {
    /// The effect is no longer wanted.
    pub(crate) fn stop(self) {
        self.task.abort();
        if let Some(freezing) = self.freezing {
            freezing.end();
        }
    }

    /// For `check_call`: the call that began with it. Whoever takes it runs it.
    pub(crate) fn take_ahead(&self) -> Option<CallAhead> {
        self.ahead.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The runtime shuts down: what a supervisor looks after stays as it is.
    pub(crate) fn leave(&self) {
        self.task.abort();
    }
}

/// Starts an effect. An effect that cannot start is reported as failed.
pub(crate) fn start(effect: &Effect, job: &mut Job<'_>) -> Result<Underway, journal::Error> {
    let reporter = Reporter { effect: effect.id(), data: job.data.clone() };
    let shared = Arc::clone(job.shared);
    let task = match effect {
        Effect::Lane { message, .. } => lane(shared, job, *message, reporter),
        Effect::Prepare { .. } => {
            list_known(job);
            spawn(reporter.clone(), prepare::perform(shared, settings(job), job.session.account.key.clone(), reporter))
        }
        Effect::Reserve { id, expected, closing } => {
            let request = budget_request(&shared, job, (id.run, *expected, *closing));
            spawn(reporter.clone(), home::reserve(shared, request, reporter))
        }
        Effect::Request { candidate, thinking, prompt, items, .. } => {
            let mut order = order(job, *candidate, prompt, *items as usize)?;
            order.refused = order.candidate.thinking.filter(|_| thinking.is_some());
            order.candidate.thinking = thinking.or(order.candidate.thinking);
            spawn(reporter.clone(), request::perform(shared, order, reporter))
        }
        Effect::Compact { compaction_step, items, focus, candidate, .. } => {
            let order = compaction(job, *compaction_step, *items as usize, focus.as_ref(), *candidate)?;
            spawn(reporter.clone(), compact::perform(shared, order, reporter))
        }
        Effect::Title { message, candidate, .. } => {
            let order = title(job, message, *candidate)?;
            spawn(reporter.clone(), title::perform(shared, order, reporter))
        }
        Effect::CheckCall { id, call } => {
            let (request, ahead) = (call_request(job, *call, *id)?, call::Ahead::default());
            let task = spawn(reporter.clone(), call::check(granted(job), request, Arc::clone(&ahead), reporter));
            return Ok(Underway { task, freezing: None, ahead: Some(ahead) });
        }
        Effect::RunCall { id, call } => run_call(job, (*id, *call), reporter)?,
        Effect::FindCall { call, started, .. } => {
            let (context, request) = call_request(job, *call, *started)?;
            spawn(reporter.clone(), call::find(context, request, reporter))
        }
        Effect::EndCall { call, started, why, .. } => {
            let (context, request) = call_request(job, *call, *started)?;
            spawn(reporter.clone(), call::end(context, request, *why, reporter))
        }
        Effect::FreezeCall { started, .. } => {
            let freezing = Freezing::of(shared.calls(), *started);
            let task = spawn(reporter, freeze_call::perform(Arc::clone(&freezing)));
            return Ok(Underway { task, freezing: Some(freezing), ahead: None });
        }
        Effect::Report { failure_report, .. } => {
            spawn(reporter.clone(), home::report(shared, failure_report.clone(), reporter))
        }
        Effect::Erase { branch, until, .. } => {
            let of = DeletedConversation { session: job.session.account.id, branch: *branch, until: *until };
            spawn(reporter.clone(), erase::perform(shared, of, reporter))
        }
        Effect::Deliver { id } => {
            let order = delivery(job, *id)?;
            spawn(reporter.clone(), deliver::perform(shared, order, reporter))
        }
        Effect::Undo { plan, .. } => spawn(reporter.clone(), undo::perform(shared, *plan, reporter)),
        Effect::HoldProcess { process, .. } => spawn(reporter.clone(), call::hold_process(shared, *process, reporter)),
        Effect::EndProcess { process, .. } => spawn(reporter.clone(), call::end_process(shared, *process, reporter)),
    };
    Ok(Underway { task, freezing: None, ahead: None })
}

/// Starts a call, or takes what began with its check.
fn run_call(
    job: &mut Job<'_>,
    (id, call): (EffectId, CallId),
    reporter: Reporter,
) -> Result<AbortHandle, journal::Error> {
    if let Some(begun) = job.ahead.take() {
        return Ok(spawn(reporter.clone(), call::run_begun(begun, reporter)));
    }
    let (context, request) = call_request(job, call, id)?;
    // The call may have been frozen under an earlier owner and released since. A read-only call is no command.
    let is_command = job.session.run().and_then(|run| run.call(call)).is_some_and(|call| call.class == ToolClass::Once);
    if is_command && !job.session.run().and_then(|run| run.pause).is_some_and(|pause| pause.freeze) {
        freeze_call::thaw(&context.calls, id);
    }
    Ok(spawn(reporter.clone(), call::run(context, request, reporter)))
}

/// Runs an effect beside the actor. A panic in it affects only its session, and is reported like any other failure.
fn spawn(reporter: Reporter, effect: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    let task = async move {
        let what: Arc<str> = format!("effect {}", reporter.effect).into();
        let mut running = pin!(AssertUnwindSafe(effect).catch_unwind());
        if poll_fn(|context| watchdog::poll(&what, running.as_mut(), context)).await.is_err() {
            let message = format!("effect {} panicked: this is a bug in limulus, please report it", reporter.effect);
            let failure = Failure::new(FailureClass::Unknown, message);
            reporter.report(Report::Escalated { failure, repair: RepairPolicy::AsConfigured }).await;
        }
    };
    tokio::spawn(task).abort_handle()
}

/// Gets the next run, or the active one again, its slot of the lane.
fn lane(shared: Arc<Shared>, job: &mut Job<'_>, message: MessageId, reporter: Reporter) -> AbortHandle {
    let run = RunId::from(message);
    let ticket = job.ticket.take().unwrap_or_else(|| shared.ask_lane(run, job.session.into()));
    if job.session.waits_for_lane() {
        spawn(reporter.clone(), home::lane_again(shared, (settings(job), ticket), reporter))
    } else {
        let request = home::SettingsRequest::new(job.session, message);
        spawn(reporter.clone(), home::lane(shared, (request, ticket), reporter))
    }
}

/// What a request asks of the budgets. If memory is short, what is cached of conversations goes first.
fn budget_request(shared: &Shared, job: &mut Job<'_>, (run, expected, closing): (RunId, Spent, bool)) -> BudgetRequest {
    let agent = job.session.account.agent.clone();
    if shared.is_tight(&agent) {
        *job.conversation = Conversation::default();
        shared.conversations.clear();
    }
    BudgetRequest { run, agent, expected, closing }
}

/// Lists the workspace while the model thinks, if commands were used there before.
fn list_known(job: &Job<'_>) {
    let settings = settings(job);
    if tools::is_look_due(Path::new(&settings.workspace)) {
        let Redaction { protected, undo, .. } = job.shared.resolver.redaction();
        let (files, protected) = (job.shared.files(undo), protected.and(&job.shared.own));
        call::list_ahead(move || tools::list_known(Path::new(&settings.workspace), &files, &protected));
    }
}

fn settings(job: &Job<'_>) -> Arc<Settings> {
    Arc::clone(job.settings.expect("effects of a run are wanted only while its settings are there"))
}

/// The settings of the run, with what users have allowed since it began.
fn granted(job: &Job<'_>) -> Arc<Settings> {
    let (settings, account) = (settings(job), &job.session.account);
    let granted = job.shared.ledger.granted(account.id, &account.agent);
    if granted.is_empty() {
        return settings;
    }
    let policy = settings.policy.iter().cloned().chain(granted).collect();
    Arc::new(Settings { policy, derived: Derived::default(), ..Settings::clone(&settings) })
}

fn order(job: &mut Job<'_>, candidate: u32, prompt: &Body, items: usize) -> Result<request::Order, journal::Error> {
    let store = job.shared.journal.as_ref();
    let settings = settings(job);
    job.conversation.resume_from(|| job.shared.conversations.take(job.session.account.branch));
    let head = job.conversation.head(prompt, &settings, &job.shared.latest, store)?;
    let (system, tools) = (head.system.clone(), head.tools.clone());
    let mark = job.shared.resolver.mark();
    let transcript = &job.session.conversation.transcript;
    let left_out = transcript.left_out(settings.history_turns, items);
    let messages = job.conversation.render(transcript, (items, left_out), &mark, store)?;
    let candidate = settings.candidates[candidate as usize].clone();
    let other = |of: &Candidate| of.provider == candidate.provider && of.profile != candidate.profile;
    let alone = !settings.candidates.iter().any(other);
    let continues = job.session.continues();
    let cache_key = cache_key(job.session);
    let address = settings.address(&candidate);
    let to_fit = to_fit(job, &settings)?;
    let refused = None;
    Ok(request::Order { candidate, address, refused, alone, system, messages, tools, continues, cache_key, to_fit })
}

/// What the answer is to fit. The parts of an answer that was cut are one answer with what comes now.
fn to_fit(job: &Job<'_>, settings: &Arc<Settings>) -> Result<Option<request::ToFit>, journal::Error> {
    if settings.output_schema.is_none() {
        return Ok(None);
    }
    let store = job.shared.journal.as_ref();
    let segments = job.session.run().map_or(&[][..], |run| &run.step.segments);
    let parts = segments.iter().map(|part| job.conversation.text(part, store)).collect::<Result<_, _>>()?;
    Ok(Some(request::ToFit { settings: Arc::clone(settings), parts }))
}

fn compaction(
    job: &Job<'_>,
    compaction_step: CompactionStep,
    items: usize,
    focus: Option<&Body>,
    candidate: u32,
) -> Result<compact::Order, journal::Error> {
    let settings = settings(job);
    let own = &settings.compaction.by;
    let candidate = own.clone().unwrap_or_else(|| settings.candidates[candidate as usize].clone());
    let focus = focus.map(|focus| job.conversation.text(focus, job.shared.journal.as_ref())).transpose()?;
    let (transcript, focus) = (job.session.conversation.transcript.clone(), focus.map(|focus| focus.to_string()));
    let agent = job.session.account.agent.clone();
    let request = |run: &Run| BudgetRequest {
        run: run.id,
        agent,
        expected: run.summary_out().and(&run.title_out()),
        closing: false,
    };
    let is_shared = settings.budget.is_shared() || job.shared.ledger.is_limited();
    let grant = job.session.run().filter(|_| is_shared).map(request);
    let address = settings.address(&candidate);
    Ok(compact::Order { compaction_step, items, transcript, candidate, address, focus, grant })
}

/// What is asked for a title, and what the budgets hold of it already.
fn title(job: &Job<'_>, message: &Body, candidate: u32) -> Result<title::Order, journal::Error> {
    let settings = settings(job);
    let own = settings.titles.as_ref().and_then(|titles| titles.by.as_ref());
    let candidate = own.unwrap_or(&settings.candidates[candidate as usize]).for_title();
    let message = job.conversation.text(message, job.shared.journal.as_ref())?;
    let is_shared = settings.budget.is_shared() || job.shared.ledger.is_limited();
    let limited = is_shared.then(|| job.session.account.agent.clone());
    let address = settings.address(&candidate);
    Ok(title::Order { message, candidate, address, limited })
}

fn delivery(job: &Job<'_>, id: EffectId) -> Result<deliver::Order, journal::Error> {
    let (account, store) = (&job.session.account, job.shared.journal.as_ref());
    let delivery = account.outbox.get(id).expect("a delivery is wanted only while it is in the outbox").clone();
    let text = |body: &Body| job.conversation.text(body, store);
    let first = delivery.text.as_ref().map(|body| Ok(tail(&text(body)?, delivery.from))).transpose()?;
    let joined =
        delivery.joined.iter().map(|body| Ok(text(body)?.to_string())).collect::<Result<Vec<_>, journal::Error>>()?;
    let text = first.map(|first| std::iter::once(first).chain(joined).collect::<Vec<_>>().join("\n\n").into());
    Ok(deliver::Order { delivery, session: account.id, key: account.key.clone(), text })
}

/// What of a text did not go out before.
fn tail(text: &str, from: u32) -> String {
    text[text.floor_char_boundary(from as usize)..].trim().to_owned()
}

/// The cache key: the same for every request of a session, and it reveals nothing.
fn cache_key(session: &Session) -> Arc<str> {
    Hash::of(session.account.id.0.as_bytes()).to_string().into()
}

/// The background processes of the session, for the tool that manages them.
fn processes(job: &Job<'_>) -> Result<Vec<tools::HeldProcess>, journal::Error> {
    let listed = job.session.account.processes.iter().map(|process| {
        // Programs before this one deleted the conversation of a command and left it listed.
        let arguments = job.conversation.text_unless_erased(&process.arguments, job.shared.journal.as_ref())?;
        let arguments = arguments.unwrap_or_else(|| r#"{"command":"[erased]"}"#.into());
        let ended = match &process.state {
            ProcessState::Ended { how, .. } => Some(how.clone()),
            ProcessState::Running | ProcessState::Ending { .. } => None,
        };
        Ok(tools::HeldProcess { effect: process.effect, arguments, started_at: process.started_at, ended })
    });
    listed.collect()
}

fn call_request(
    job: &Job<'_>,
    call: CallId,
    started: EffectId,
) -> Result<(tools::Context, tools::CallRequest), journal::Error> {
    let settings = granted(job);
    let call =
        job.session.run().and_then(|run| run.call(call)).expect("effects of a call are wanted only while it is there");
    let arguments = job.conversation.text(&call.arguments, job.shared.journal.as_ref())?;
    let workspace = PathBuf::from(&settings.workspace);
    let Redaction { secrets, secret_env, passed_env, reach, protected, undo, search } =
        job.shared.resolver.redaction_of(&settings);
    let replies_to = job.session.replies_to(&settings);
    let context = tools::Context {
        tools: job.shared.tools.clone(),
        workspace,
        calls: job.shared.calls(),
        files: job.shared.files(undo),
        protected: protected.and(&job.shared.own),
        tool_timeout_ms: settings.limits.tool_timeout_ms,
        secrets,
        outputs: job.shared.outputs(),
        reach,
        // Its key does not go to an address that was configured after the run began.
        search: search.filter(|provider| Some(provider.address()) == settings.web_search.as_deref()),
        memory: memory::context(job.shared, &settings),
        rules: tools::CallRules::of(&settings),
        sandbox: settings.sandbox.clone(),
        secret_env,
        passed_env,
        user: job.shared.resolver.user_folder(),
        skills: settings.prompt.skills.clone(),
        routes: settings.reply.routes.iter().map(|route| route.name.clone()).collect(),
        replies_to: replies_to.iter().map(|address| address.channel.clone()).collect(),
        processes: processes(job)?,
        supervisor: job.shared.supervisor.clone(),
    };
    let request = tools::CallRequest {
        id: started,
        call: call.id,
        tool: call.tool.clone(),
        arguments: arguments.as_bytes().into(),
        evidence: call.evidence.clone(),
        timeout_ms: call.timeout_ms,
        already: call.output_bytes,
    };
    Ok((context, request))
}

//! Declares every setting once: its key, type, default or example, bounds, when a change takes effect, and its purpose.
//! `settings` lists what is generated from this. A table of the file is a section here and a field of `Values`.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    AtLimit, BlockBreak, BlockMode, DropPolicy, Interrupt, OnExpiry, Policy, PromptProfile, QueueMode, ReasoningMode,
    Recover, ResumeMode, SandboxMode, SandboxRoot, Thinking, Unattended,
};

use serde::Deserialize as _;

use super::credentials::{self, ProfileKind};
use super::endpoints::KeySource;
use super::kind::Kind::{
    self, Address, Command, Dollars, File, Flag, Listen, Model, Models, MoneyLimit, Number, Patterns, SafeAddress,
    Secret, SecretFile, Text, Variables, Word, Words,
};
use super::kind::PatternOf;
use super::session::ResetMode;
use super::settings::{Limit, Section, section};

/// Seconds of a year, the upper bound of every timeout.
const YEAR_S: i64 = 366 * 24 * 3600;
/// Upper bound of tokens, far above any window, so that calculations cannot overflow.
const TOKENS: i64 = 1_000_000_000;
/// Upper bound of amounts, far above real ones, so that calculations cannot overflow.
const AMOUNT: i64 = 1_000_000_000_000;
/// [`AMOUNT`] bytes in MiB, roughly.
const MEBIBYTES: i64 = AMOUNT / 1_000_000;
const POLICIES: Kind = Word(&["allow", "ask", "deny"]);
const LEVELS: &[&str] = &["off", "minimal", "low", "medium", "high", "xhigh"];
const MODES: Kind = Word(&["steer", "followup", "collect", "steer_backlog", "interrupt"]);
const APIS: Kind = Word(&["anthropic", "openai-chat", "openai-responses", "gemini", "ollama"]);
/// The kind of most limits of budgets.
const UP_TO: Kind = Kind::Limit(1, AMOUNT);
const UP_TO_A_YEAR: Kind = Kind::Limit(1, YEAR_S);
const COUNT: Kind = Kind::Limit(1, 1_000_000);

/// Keys that are accepted and change nothing yet, each with the requirement that will need it. The initial file and the
/// file of defaults omit them.
pub(super) const RESERVED: &[(&[&str], &str)] = &[(&["lanes", "subagent"], "R67"), (&["lanes", "cron"], "R35")];

/// The session of a command that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DefaultSession {
    Project,
    Main,
}

/// What commands may do without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExecPolicy {
    Allow,
    /// They run in the sandbox; where there is none, they are asked about.
    Sandbox,
    Ask,
    Deny,
}

impl ExecPolicy {
    /// What holds without a sandbox.
    pub(super) fn otherwise(self) -> Policy {
        match self {
            Self::Allow => Policy::Allow,
            Self::Sandbox | Self::Ask => Policy::Ask,
            Self::Deny => Policy::Deny,
        }
    }
}

/// Whether commands reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SandboxNetwork {
    Off,
    On,
}

/// What searches the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SearchService {
    Brave,
    Tavily,
    Searxng,
}

/// How the sender of a webhook shows that it has the secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookSignature {
    /// It is its bearer token.
    #[default]
    Token,
    /// As GitHub signs: HMAC-SHA256 of the body.
    Github,
    /// As Stripe signs: HMAC-SHA256 of a time and the body.
    Stripe,
}

/// Who names a conversation that nobody has named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TitleSource {
    Words,
    Model,
}

/// What is sent to a terminal when a run calls for its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyBy {
    /// It rings its bell.
    Bell,
    /// The sequence OSC 9 with the text.
    Osc9,
    /// The sequence OSC 777 with the text.
    Osc777,
}

/// How answers are shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MarkdownMode {
    Auto,
    Raw,
}

/// All sections, in the order of the documentation.
pub(super) const SECTIONS: &[Section] = &[
    Agent::SECTION,
    Runs::SECTION,
    Requests::SECTION,
    Tools::SECTION,
    Exec::SECTION,
    OutsideWorkspace::SECTION,
    ExecutedFiles::SECTION,
    WebFetch::SECTION,
    WebSearch::SECTION,
    Sandbox::SECTION,
    Approvals::SECTION,
    Compaction::SECTION,
    Budget::SECTION,
    RunBudget::SECTION,
    RunReserve::SECTION,
    SessionBudget::SECTION,
    SessionReserve::SECTION,
    AgentBudget::SECTION,
    AgentReserve::SECTION,
    DayBudget::SECTION,
    DayReserve::SECTION,
    HomeBudget::SECTION,
    HomeReserve::SECTION,
    ProcessBudget::SECTION,
    Session::SECTION,
    Reset::SECTION,
    Retention::SECTION,
    Undo::SECTION,
    Queue::SECTION,
    Lanes::SECTION,
    Serve::SECTION,
    Gateway::SECTION,
    Webhook::SECTION,
    Reply::SECTION,
    ReplyRoute::SECTION,
    Telemetry::SECTION,
    Display::SECTION,
    Notify::SECTION,
    Offline::SECTION,
    SkillOptions::SECTION,
    PolicyEntry::SECTION,
    Provider::SECTION,
    Profile::SECTION,
    ModelFigures::SECTION,
    PriceFigures::SECTION,
];

section! {
    Agent ["agents", "*"] "the agent of every session that names no other; add [agents.NAME] for more" from Run {
        model: Option<String> => "acme/some-model", Model,
            "The model that is asked first. Not set: that of the first known provider whose key is set (OPENAI_API_KEY and so on), else offline";
        #[serde(default)]
        fallbacks: Vec<String> = [], Models, "Further models, in the order in which they may be tried";
        workspace: Option<String> = ".", Text,
            "The folder in which it works, relative to the current folder; ~ is your home folder; `--workspace DIR` overrides it for one command";
        instructions: Option<bool> => false, Flag,
            "Whether the system prompt has the bootstrap files (AGENTS.md and others) of the project and of the home. Not set: true";
        prompt: Option<PromptProfile> => "minimal", Word(&["full", "minimal", "none"]),
            "How much of the system prompt it has: full | minimal = no skills, and of the bootstrap files only AGENTS.md and TOOLS.md | none = only who it is. Not set: full";
        #[serde(default, deserialize_with = "one_or_more_if_set")]
        skills: Option<Vec<String>> => ["code-review"], Patterns(PatternOf::Skill),
            "The skills that it may have; [] = none. Not set: all that the project and the user have";
        thinking: Option<Thinking> => "medium", Word(LEVELS),
            "How much it thinks: off | minimal | low | medium | high | xhigh. Not set: the provider's default";
        history_turns: Option<u32> => 50, Number(1, 1_000_000),
            "The turns of the history that a request holds at most; older ones leave it a quarter at a time. Not set: all";
        queue: Option<QueueMode> => "steer", MODES, from Message,
            "The queue mode of messages to a busy session of this agent. Not set: queue.mode";
        interrupt: Option<Interrupt> => "replace", Word(&["replace", "suspend"]), from Message,
            "What an interrupt does with the run of this agent: replace | suspend. Not set: queue.interrupt";
    }
}

section! {
    Runs ["runs"] "" from Run {
        stall_s: Limit<u64> = 1800, UP_TO_A_YEAR,
            "Seconds without progress after which a run ends; waiting for a person, a quota or a budget is none";
        deadline_s: Limit<u64> = "off", UP_TO_A_YEAR,
            "Seconds that a run may take, such as 3600; the clock stops while the run waits";
        loop_warn_after: Limit<u32> = 3, COUNT,
            "Warn the model after this many identical calls with identical results and nothing new between them";
        loop_stop_after: Limit<u32> = 6, COUNT, "Stop the run after this many such calls";
        poison_after: Limit<u32> = 3, COUNT, "After this many crashes without progress a run waits for a human";
        recover: Recover = "ask", Word(&["ask", "auto"]),
            "A run that is held after a failure: ask = it waits for a human | auto = it also tries again by itself, 3 times at most";
        resume: ResumeMode = "restart", Word(&["restart", "continue"]),
            "An interrupted answer: restart = ask again from the start | continue = continue the kept text";
    }
}

section! {
    Requests ["requests"] "" from Run {
        first_byte_timeout_s: u64 = 120, Number(1, YEAR_S), "Seconds from a request to the first byte of its answer";
        idle_timeout_s: u64 = 60, Number(1, YEAR_S), "Seconds between two pieces of an answer";
        retries: u32 = 2, Number(0, 1_000), "How often a failed request is sent again";
        continuations: u32 = 2, Number(0, 100), "How often an answer that was cut at its output limit is continued";
        max_wait_s: u64 = 3600, Number(0, YEAR_S),
            "The longest wait before a retry, and all waits of a run for quotas together, in seconds";
    }
}

section! {
    Tools ["tools"] "" from Run {
        timeout_s: u64 = 600, Number(1, YEAR_S),
            "Seconds that one call may take; a command may ask for others with its own timeout_s, 3600 at most";
    }
    tables {
        exec: Exec,
        #[serde(default)]
        outside_workspace: OutsideWorkspace,
        executed_files: ExecutedFiles,
        web_fetch: WebFetch,
        #[serde(default)]
        web_search: WebSearch,
    }
}

section! {
    Exec ["tools", "exec"] "" from Run {
        policy: ExecPolicy = "sandbox", Word(&["allow", "sandbox", "ask", "deny"]),
            "Commands: allow | sandbox = allow where the sandbox holds, else ask | ask | deny. Without a terminal, ask means deny";
        env: Vec<String> = [], Variables, from Call,
            "Further variables that commands receive besides PATH, HOME, LANG and the like, such as [\"GIT_*\"]; never keys of providers";
    }
}

section! {
    #[derive(Default)]
    OutsideWorkspace ["tools", "outside_workspace"] "" from Run {
        policy: Option<Policy> => "ask", POLICIES, "Paths outside the workspace. Not set: as for commands";
    }
}

section! {
    ExecutedFiles ["tools", "executed_files"] "" from Run {
        policy: Policy = "ask", POLICIES,
            "Writing to files that other programs run or load, such as .git/hooks, .envrc and .vscode: allow | ask | deny. `--yes` does not approve it; without a terminal, ask means deny";
    }
}

section! {
    WebFetch ["tools", "web_fetch"] "" from Run {
        policy: Option<Policy> => "ask", POLICIES,
            "Web pages. Not set: as for commands, since an address can leak what the agent has read";
        allow_private: bool = false, Flag, from Call,
            "Whether pages of private addresses, which are not on the public internet, may be fetched";
    }
}

section! {
    #[derive(Default)]
    WebSearch ["tools", "web_search"] "the tool `web_search`: docs/tools.md. tools.web_fetch.policy decides on its calls" from Call {
        provider: Option<SearchService> => "brave", Word(&["brave", "tavily", "searxng"]), from Run,
            "What searches the web: brave | tavily | searxng. Not set: agents have no such tool";
        key: Option<KeySource> => "env:BRAVE_KEY", Secret,
            "The key of brave or tavily: env:NAME | file:PATH | cmd:COMMAND, whose first line is the key | the key itself";
        url: Option<String> => "http://127.0.0.1:8080", Address, from Run,
            "The address of the searxng, which may be private; for the others in place of their own";
    }
}

section! {
    Sandbox ["sandbox"] "what commands can reach: docs/sandbox.md" from Run {
        mode: SandboxMode = "workspace", Word(&["workspace", "read_only", "off"]),
            "Where commands may write: workspace and a temporary folder | read_only = the temporary folder | off = wherever you may. What the kernel cannot hold is asked about";
        root: SandboxRoot = "workspace", Word(&["workspace", "copy", "worktree"]),
            "Where agents work: in the workspace | in a copy of it | in a git worktree with what git does not ignore. `limulus diff --apply` takes the changes over";
        network: SandboxNetwork = "off", Word(&["off", "on"]), "Whether commands in the sandbox reach the network";
        #[serde(default, deserialize_with = "one_or_more")]
        hidden: Vec<String> => ["~/notes"], Patterns(PatternOf::Place),
            "Further files and folders that commands cannot read, besides keys of programs and of Limulus";
        #[serde(default, deserialize_with = "one_or_more")]
        writable: Vec<String> => ["~/.cache/pip"], Patterns(PatternOf::Place), "Further folders that commands may write to";
        memory_mib: Option<u64> => 8192, Number(64, 16_777_216),
            "MiB of memory that all processes of a command use together, where the kernel holds it. Not set: three quarters of the machine's";
    }
}

section! {
    #[derive(Copy)]
    Approvals ["approvals"] "questions whether a call may run: docs/approvals.md" from Run {
        unattended: Option<Unattended> => "wait", Word(&["wait", "deny"]),
            "A call that needs approval in a run that was not started on a terminal: wait = for an answer from anywhere | deny. Not set: wait, but deny for a command that finds no service and runs it by itself";
        expires_s: Limit<u64> = "off", UP_TO_A_YEAR, "Seconds that a question waits for its answer, such as 3600";
        on_expiry: OnExpiry = "deny", Word(&["deny", "keep"]),
            "A question that nobody has answered in that time: deny = its call does not run | keep = it stays open, shown as overdue";
    }
}

section! {
    Compaction ["compaction"] "how a history that outgrows the model's window is compacted: docs/context.md" from Run {
        auto: bool = true, Flag, "Whether to compact before the provider refuses a request for its length";
        model: Option<String> => "anthropic/claude-haiku-4-5", Model,
            "The model that writes the summary. Not set: the model of the run";
        reserve_tokens: u64 = 20000, Number(0, TOKENS),
            "Tokens of the window that stay free besides those for the answer; fewer in a small window";
        keep_recent_tokens: u64 = 20000, Number(1, TOKENS),
            "Tokens of the newest part of the history that are not summarised; fewer in a small window";
        memory_flush: bool = true, Flag, "Ask the model to write down important facts first";
        memory_flush_lead_tokens: u64 = 4000, Number(0, TOKENS),
            "Ask this many tokens before a compaction is due; fewer in a small window";
        limit_s: u64 = 300, Number(1, YEAR_S), "Seconds that a summary may take; after that the history stays as it is";
    }
}

section! {
    #[derive(Copy)]
    Budget ["budget"] "what may be spent: docs/budgets.md" from Run {
        at_limit: AtLimit = "wait", Word(&["wait", "end"]),
            "A run that reaches a limit: wait = it waits until the limit is raised | end = it fails";
        wrap_up_percent: Limit<u32> = 80, Kind::Limit(1, 100),
            "Ask the model to wrap up at this percentage of a limit";
    }
    tables {
        run: RunBudget,
        session: SessionBudget,
        agent: AgentBudget,
        day: DayBudget,
        home: HomeBudget,
        process: ProcessBudget,
    }
}

section! {
    #[derive(Copy)]
    RunBudget ["budget", "run"] "what one run may spend" from Run {
        tokens: Limit<u64> = "off", UP_TO, "Tokens that it may read and write, such as 500000";
        cost: Limit<f64> = "off", MoneyLimit,
            "US dollars that it may cost, such as 1.0; models without a known price cost nothing";
        calls: Limit<u64> = "off", UP_TO, "Calls of tools that it may start, such as 200";
        wall_s: Limit<u64> = "off", UP_TO_A_YEAR, "Seconds that it may be at work, such as 3600";
        bytes: Limit<u64> = "off", UP_TO, "Bytes of its texts, outputs and images in the journal, such as 50000000";
    }
    tables {
        reserve: RunReserve,
    }
}

section! {
    #[derive(Copy)]
    SessionBudget ["budget", "session"] "what all runs of a session may spend together" from Run {
        tokens: Limit<u64> = "off", UP_TO, "Tokens that they may read and write, such as 5000000";
        cost: Limit<f64> = "off", MoneyLimit, "US dollars that they may cost, such as 10.0";
        calls: Limit<u64> = "off", UP_TO, "Calls of tools that they may start, such as 2000";
        wall_s: Limit<u64> = "off", UP_TO_A_YEAR, "Seconds that they may be at work, such as 36000";
        bytes: Limit<u64> = "off", UP_TO, "Bytes of texts, outputs and images in the journal, such as 500000000";
    }
    tables {
        reserve: SessionReserve,
    }
}

section! {
    #[derive(Copy)]
    AgentBudget ["budget", "agent"] "what all runs of one agent may spend in a day (UTC)" from Run {
        concurrent_runs: Limit<usize> = "off", Kind::Limit(1, 10_000),
            "How many of them execute at once, such as 2, within those of `lanes`; further runs queue";
        tokens: Limit<u64> = "off", UP_TO, "Tokens that they may read and write, such as 20000000";
        cost: Limit<f64> = "off", MoneyLimit, "US dollars that they may cost, such as 25.0";
        calls: Limit<u64> = "off", UP_TO, "Calls of tools that they may start, such as 10000";
        wall_s: Limit<u64> = "off", UP_TO_A_YEAR, "Seconds that they may be at work, all together, such as 86400";
    }
    tables {
        reserve: AgentReserve,
    }
}

section! {
    #[derive(Copy)]
    DayBudget ["budget", "day"] "what all runs of the home may spend in a day (UTC)" from Run {
        tokens: Limit<u64> = "off", UP_TO, "Tokens that they may read and write, such as 50000000";
        cost: Limit<f64> = "off", MoneyLimit, "US dollars that they may cost, such as 50.0";
        calls: Limit<u64> = "off", UP_TO, "Calls of tools that they may start, such as 20000";
        wall_s: Limit<u64> = "off", UP_TO_A_YEAR, "Seconds that they may be at work, all together, such as 200000";
    }
    tables {
        reserve: DayReserve,
    }
}

section! {
    #[derive(Copy)]
    HomeBudget ["budget", "home"] "what all runs of the home may spend, whenever they ran" from Run {
        concurrent_agents: Limit<usize> = "off", Kind::Limit(1, 10_000),
            "How many agents execute runs at once, such as 2, within those of `lanes`; runs of further agents queue";
        tokens: Limit<u64> = "off", UP_TO, "Tokens that they may read and write, such as 1000000000";
        cost: Limit<f64> = "off", MoneyLimit, "US dollars that they may cost, such as 1000.0";
        calls: Limit<u64> = "off", UP_TO, "Calls of tools that they may start, such as 500000";
        wall_s: Limit<u64> = "off", UP_TO, "Seconds that they may be at work, all together, such as 5000000";
    }
    tables {
        reserve: HomeReserve,
    }
}

macro_rules! reserve {
    ($Section:ident $scope:literal $about:literal) => {
        section! {
            #[derive(Copy)]
            $Section ["budget", $scope, "reserve"] $about from Run {
                tokens: u32 = 5, Number(0, 90), "Percent of the tokens, rounded down";
                cost: u32 = 5, Number(0, 90), "Percent of the cost, rounded down";
                calls: u32 = 0, Number(0, 90), "Percent of the calls, rounded down";
                wall: u32 = 0, Number(0, 90), "Percent of the time, rounded down";
            }
        }
    };
}

reserve! { RunReserve "run" "the percentage of the limits of a run that is kept for recovery" }
reserve! { SessionReserve "session" "the percentage of the limits of a session that is kept for recovery" }
reserve! { AgentReserve "agent" "the percentage of the limits of an agent in a day that is kept for recovery" }
reserve! { DayReserve "day" "the percentage of the limits of a day that is kept for recovery" }
reserve! { HomeReserve "home" "the percentage of the limits of the home that is kept for recovery" }

section! {
    #[derive(Copy)]
    ProcessBudget ["budget", "process"] "what the process that owns the home may use" from Run {
        memory_mb: Limit<u64> = "off", Kind::Limit(1, MEBIBYTES),
            "MiB of memory, such as 2000; at this limit one run executes at a time and the others wait: docs/budgets.md";
    }
}

section! {
    Session ["session"] "" from Check {
        default: DefaultSession = "project", Word(&["project", "main"]), from Start,
            "The session of a command that names none: project = one for each project or folder | main = one for all; it is main too where the agent's workspace is a fixed folder: docs/sessions.md";
        titles: TitleSource = "words", Word(&["words", "model"]), from Run,
            "The title of a conversation that nobody has named: words = the first words of its first message | model = a model writes one beside the first answer, for the price of a short request";
        title_model: Option<String> => "anthropic/claude-haiku-4-5", Model, from Run,
            "The model that does. Not set: the model of the run";
        idle_timeout_s: Limit<u64> = "off", UP_TO_A_YEAR,
            "Seconds of idleness after which `limulus serve` ends a session permanently: docs/retention.md";
    }
    tables {
        reset: Reset,
    }
}

section! {
    #[derive(Copy)]
    Reset ["session", "reset"] "when a message starts a new conversation, as `/new` does: docs/chat.md" from Message {
        mode: ResetMode = "none", Word(&["none", "daily", "idle"]),
            "none | daily = after at_hour of each day | idle = after idle_minutes without activity";
        at_hour: i8 = 4, Number(0, 23), "Hour of the day, in the time zone of this machine";
        idle_minutes: Option<u32> => 60, Number(1, YEAR_S / 60),
            "Minutes without activity. Not set: 60 with `idle`; if set with `daily`, the earlier of both counts";
    }
}

section! {
    #[derive(Copy)]
    Retention ["retention"] "what a home keeps: docs/retention.md" from Run {
        keep_days: Limit<u32> = "off", Kind::Limit(1, 100_000), from Check,
            "Erase texts and outputs of the journal that no session needs after this many days";
        journal_mb: Limit<u64> = "off", Kind::Limit(1, MEBIBYTES),
            "MiB that the journal may use, such as 10000: near this limit you are warned, at it no new run starts";
    }
}

section! {
    #[derive(Copy)]
    Undo ["undo"] "what is kept to take changes of files back: docs/undo.md" from Run {
        max_mb: Limit<u64> = 2000, Kind::Limit(1, MEBIBYTES),
            "MiB that kept contents of files may use; past it the oldest are removed";
        keep_days: Limit<u32> = 30, Kind::Limit(1, 100_000), "Days for which the content of a file is kept";
        file_mb: Limit<u64> = 10, Kind::Limit(1, MEBIBYTES),
            "MiB of the largest file whose content is kept; a larger one cannot be restored";
        commands: bool = true, Flag,
            "Record what commands change in the workspace, by comparing it before and after";
        workspace_mb: Limit<u64> = 500, Kind::Limit(1, MEBIBYTES),
            "MiB of one workspace that are kept before a command may change them; what is past it cannot be restored";
        workspace_files: Limit<u64> = 50000, Kind::Limit(1, 200_000), "Files of one workspace that are kept likewise";
    }
}

section! {
    Queue ["queue"] "what becomes of a message to a busy session: docs/queue.md" from Message {
        mode: QueueMode = "steer", MODES,
            "A message to a busy session: steer | followup | collect | steer_backlog | interrupt";
        debounce_ms: u64 = 1000, Number(0, 1_000 * YEAR_S),
            "Milliseconds for which `collect` gathers messages before they run as one";
        cap: u32 = 20, Number(1, 10_000), "Messages that may wait in a session";
        drop: DropPolicy = "summarize", Word(&["old", "new", "summarize"]),
            "Drop policy if the queue is full: old | new | summarize = the old ones, in a summary";
        cut: bool = false, Flag, "Whether a steer interrupts a streaming answer";
        interrupt: Interrupt = "replace", Word(&["replace", "suspend"]),
            "The interrupted run: replace = it ends | suspend = it waits";
        steer_prefix: Arc<str> = "[STEER] ", Text, "Prefix that marks a steer for the model";
    }
}

section! {
    #[derive(Copy)]
    Lanes ["lanes"] "how many runs execute at once" from Run {
        main: u16 = 4, Number(1, 10_000), "Runs of messages";
        subagent: u16 = 8, Number(1, 10_000), "Runs that other agents start, in a later version";
        cron: u16 = 1, Number(1, 10_000), "Runs of jobs, in a later version";
    }
}

section! {
    Serve ["serve"] "" from Start {
        drain_s: u64 = 10, Number(0, 3_600),
            "Seconds for which streaming answers may continue when `limulus serve` is stopped";
    }
}

section! {
    Gateway ["gateway"] "who reaches `limulus serve` over HTTP and WebSocket: docs/http.md" from Start {
        listen: String = "127.0.0.1:18789", Listen,
            "The address where it listens, besides its socket: IP:PORT, or off";
        behind_proxy: bool = false, Flag,
            "Whether it may listen on other addresses than those of this machine without a certificate, since a proxy before it encrypts";
        tls_cert: Option<String> => "~/tls/fullchain.pem", File,
            "The certificate in PEM, with its chain, with which it encrypts; a new one is taken by itself. Not set: it does not";
        tls_key: Option<String> => "~/tls/privkey.pem", File, "The private key of that certificate in PEM";
        #[serde(default, deserialize_with = "one_or_more")]
        hosts: Vec<String> => ["limulus.example.org"], Patterns(PatternOf::Host),
            "Further names, with their ports, under which clients reach it, such as that of a proxy";
    }
}

section! {
    Webhook ["webhooks", "*"] "what becomes a message when another program sends it: docs/webhooks.md" from Start {
        secret: Option<KeySource> => "env:DEPLOY_WEBHOOK_SECRET", Secret,
            "What the sender shows or signs with: env:NAME | file:PATH | cmd:COMMAND, whose first line it is | the secret itself";
        #[serde(default)]
        signature: WebhookSignature => "github", Word(&["token", "github", "stripe"]),
            "How it does: token = as a bearer token | github = X-Hub-Signature-256 | stripe = Stripe-Signature";
        message: Option<String> => "Push to {{ body.repository.full_name }}: {{ body.head_commit.message }}", Text,
            "The message, as a template of body and headers; if it is empty, nothing is sent";
        session: Option<String> => "deploys", Text, "The session that receives it. Not set: webhook-NAME";
        mode: Option<QueueMode> => "collect", MODES, "What becomes of it if the session is busy. Not set: as queue.mode says";
        reply_to: Option<String> => "ops", Text, "The route that the reply goes to: docs/replies.md. Not set: it goes nowhere";
    }
}

section! {
    Reply ["reply"] "what replies have, and how they go out to routes: docs/replies.md" from Run {
        reasoning: ReasoningMode = "off", Word(&["off", "block", "stream"]),
            "The reasoning of the model: off = in no reply | block = before the answer | stream = as it comes, for clients that show a growing answer";
        blocks: BlockMode = "off", Word(&["off", "text_end", "message_end"]),
            "Whether the answer of a running run goes out to routes in blocks: off | text_end = as soon as one is full | message_end = when a message of the model has ended";
        block_min_chars: u32 = 800, Number(1, 100_000), "Characters that a block has at least, unless the text ends";
        block_max_chars: u32 = 1200, Number(40, 100_000), "Characters that it has at most";
        break_at: BlockBreak = "paragraph", Word(&["paragraph", "newline", "sentence"]), "Where a block ends, if it can";
    }
}

section! {
    ReplyRoute ["routes", "*"] "where replies and messages go: docs/replies.md" from Run {
        url: Option<KeySource> => "env:OPS_WEBHOOK_URL", Secret, from Call,
            "The webhook that receives them: env:NAME | file:PATH | cmd:COMMAND, whose first line is the address | the address itself";
        secret: Option<KeySource> => "env:OPS_WEBHOOK_SECRET", Secret, from Call,
            "What they are signed with, as Standard Webhooks are; values as for url. Not set: they are not signed";
        body: Option<String> => "{\"content\": {{ text | tojson }} }", Text, from Call,
            "What is sent in place of the JSON of docs/replies.md, as a template of its fields";
        file: Option<String> => "~/replies.jsonl", File, from Call, "The file to which they are appended, in place of a webhook";
        #[serde(default)]
        resend: bool => true, Flag,
            "Whether the webhook keeps the key of each (webhook-id), so that one whose outcome is unknown may be sent again. Not set: false";
        blocks: Option<BlockMode> => "text_end", Word(&["off", "text_end", "message_end"]), "As reply.blocks, for this route. Not set: as reply.blocks";
        policy: Option<Policy> => "allow", POLICIES,
            "Messages of the model to this route. Not set: allow for a run whose reply goes there, else ask";
    }
}

section! {
    #[derive(Default)]
    Telemetry ["telemetry"] "who watches `limulus serve`: docs/observability.md" from Start {
        otlp: Option<String> => "http://127.0.0.1:4318", Address,
            "The collector that receives a trace of each run, by OTLP over HTTP; it gets no texts. Not set: none";
    }
}

section! {
    Display ["display"] "what commands show on this screen" from Start {
        verbose: bool = false, Flag, "Show the output of every call, as `-v` does for one command";
        markdown: MarkdownMode = "auto", Word(&["auto", "raw"]),
            "Show answers on a terminal as rendered Markdown (auto), or as they are written (raw), as `--markdown` does for one command";
    }
}

section! {
    Notify ["notify"] "how a run on a terminal calls for you: docs/configuration.md" from Start {
        after_s: Limit<u64> = 20, UP_TO_A_YEAR,
            "Seconds since you were last needed after which a question, or the end of the run, calls for you";
        by: Vec<NotifyBy> = ["bell"], Words(&["bell", "osc9", "osc777"]),
            "What is sent to the terminal: bell | osc9 | osc777 = a notification of the desktop, if the terminal has such";
        command: Option<Vec<String>> => ["notify-send", "limulus"], Command,
            "A program that is started with these arguments and the text; the same is in its stdin and in NOTIFY_TEXT";
    }
}

section! {
    Offline ["offline"] "" from Start {
        pace_ms: u64 = 0, Number(0, 60_000), "Milliseconds that the built-in model waits before each piece of its answer";
    }
}

section! {
    SkillOptions ["skills", "*"] "what is passed to a skill of your own" from Run {
        #[serde(default)]
        env: Vec<String> => ["DEPLOY_TOKEN"], Variables, from Call,
            "Further variables that commands receive in runs that have this skill, if it is in your own folders and the project has none of its name";
    }
}

section! {
    #[derive(Default)]
    PolicyEntry ["policy", "*"] "what calls may do without a question: docs/policy.md" from Run {
        decision: Option<Policy> => "allow", POLICIES, "allow | ask | deny what the other keys of the rule say, all of them";
        #[serde(default, deserialize_with = "one_or_more")]
        tool: Vec<String> => "exec", Patterns(PatternOf::Tool), "The tools; not set: every tool";
        #[serde(default, deserialize_with = "one_or_more")]
        command: Vec<String> => ["git status", "git diff *"], Patterns(PatternOf::Command),
            "Commands, word for word; `*` in a word is any characters, a `*` at the end any words";
        #[serde(default, deserialize_with = "one_or_more")]
        path: Vec<String> => "src/**", Patterns(PatternOf::Path), "Files, relative to the workspace or absolute";
        #[serde(default, deserialize_with = "one_or_more")]
        host: Vec<String> => "*.example.org", Patterns(PatternOf::Host),
            "Hosts of `web_fetch`, of the provider of `web_search`, and of commands in their sandbox if `tool` names `exec`; `*.` is any name before it";
        #[serde(default, deserialize_with = "one_or_more")]
        agent: Vec<String> => "main", Patterns(PatternOf::Agent), "The agents; not set: every agent";
        #[serde(default, deserialize_with = "one_or_more")]
        session: Vec<String> => ["main", "review-*"], Patterns(PatternOf::Session),
            "The names of the sessions; `*` is any characters; not set: every session";
        #[serde(default, deserialize_with = "one_or_more")]
        principal: Vec<String> => ["local"], Patterns(PatternOf::Principal),
            "Who began the run: local = the user, agent = an agent; not set: anybody";
        #[serde(default, deserialize_with = "one_or_more")]
        skill: Vec<String> => "deploy", Patterns(PatternOf::Skill),
            "Of runs that begin with `/NAME` of one of these skills of your own; not set: every run";
    }
}

/// A text, or a list of texts.
fn one_or_more<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        More(Vec<String>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::One(text) => vec![text],
        Written::More(texts) => texts,
    })
}

/// The same, of a key that may not be set.
fn one_or_more_if_set<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    one_or_more(deserializer).map(Some)
}

section! {
    Provider ["providers", "*"] "" from Request {
        api: Option<String> => "openai-chat", APIS,
            "The wire format: openai-chat | openai-responses | anthropic | gemini | ollama";
        base_url: Option<String> => "http://127.0.0.1:9911/v1", Address,
            "The address of the API; a known provider has one";
        proxy: Option<String> => "http://127.0.0.1:3128", Address, "An HTTP proxy. Not set: as HTTPS_PROXY and NO_PROXY say";
        #[serde(default)]
        headers.*: BTreeMap<String, KeySource> => "env:ACME_TEAM", Secret,
            "Further headers, any number; values as for keys";
    }
    tables {
        #[serde(default, deserialize_with = "credentials::in_order")]
        profiles: Vec<Profile>,
    }
}

section! {
    Profile ["providers", "*", "profiles", "*"] "leave them out if the server needs no key" from Request {
        #[serde(default = "credentials::unnamed")]
        name: String => "first", Text, "Its name in messages";
        #[serde(default)]
        kind: ProfileKind => "key", Word(&["key", "oauth"]),
            "key | oauth = an access token, requested with token_url, client_id and refresh, in place of a key";
        key: Option<KeySource> => "env:ACME_KEY", Secret,
            "env:NAME | file:PATH | cmd:COMMAND, whose first line is the key | the key itself. Read when a request is sent";
        token_url: Option<String> => "https://auth.acme.example/token", SafeAddress,
            "Of kind oauth: the address that access tokens are requested from";
        client_id: Option<String> => "limulus", Text, "Of kind oauth: the name by which the token server knows this program";
        refresh: Option<KeySource> => "file:~/acme-refresh-token", SecretFile,
            "Of kind oauth: the file with the refresh token; a new one replaces it";
    }
}

section! {
    #[derive(Default)]
    ModelFigures ["models", "*"] "figures that the catalogue lacks or has wrong: `limulus models list`" from Run {
        context_window: Option<u64> => 200000, Number(1_000, TOKENS), "Tokens that it can see, its answer included";
        max_output: Option<u64> => 8192, Number(1, TOKENS), "Tokens that it may write in one answer";
        thinking: Option<Thinking> => "low", Word(LEVELS), "How much it thinks; overrides the agent's";
        thinking_levels: Option<Vec<Thinking>> => ["off", "low"], Words(LEVELS),
            "The levels that it has; [] = it does not think";
        images: Option<bool> => true, Flag, "Whether it accepts images; a model that is not in the catalogue gets none";
        structured_output: Option<bool> => true, Flag,
            "Whether its API takes the JSON schema of an answer beside tools; known for OpenAI, Anthropic and Gemini";
    }
    tables {
        price: Option<PriceFigures>,
    }
}

section! {
    #[derive(Default)]
    PriceFigures ["models", "*", "price"] "US dollars per million tokens" from Run {
        input: Option<f64> => 2.5, Dollars, "Input that is not cached";
        cached: Option<f64> => 0.25, Dollars, "Input from the provider's cache; not set: as input";
        cache_written: Option<f64> => 3.125, Dollars, "Input written to the cache; not set: as input";
        output: Option<f64> => 10.0, Dollars, "Output of the model";
    }
}

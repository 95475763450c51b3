//! Every fixed limit of the tools and of the supervisor, with its unit and its reason. Limits that a user can set are
//! in the settings of a run.

/// Characters of a message of the model: what a channel shows, and more than anybody reads at once.
pub(crate) const MESSAGE_CHARS: usize = 20_000;

/// Lines that `read` returns at once: more would dominate the request.
pub(crate) const READ_LINES: u64 = 2_000;

/// Bytes that `read` returns at once, about 12,000 tokens.
pub(crate) const READ_BYTES: usize = 50 << 10;

/// Bytes at the start of a file that decide whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 << 10;

/// Bytes of one piece of a long line of an output: `read` splits a longer line, so that every page has space for a
/// piece.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// Pixels of the longer side of an image for a model, tried in this order until the image is small enough. Anthropic
/// refuses more than 2,000 in a request with more than 20 images, and all providers scale them down.
pub(crate) const IMAGE_SIDES: &[u32] = &[2_000, 1_500, 1_000];

/// Bytes of an image for a model. Providers accept 5 MB of base64 an image and 20 to 32 MB a request, and every later
/// request contains all earlier images.
pub(crate) const IMAGE_BYTES: usize = 3 << 19;

/// Bytes of the file of an image: a camera's largest JPEG has 30 MB.
pub(crate) const IMAGE_FILE_BYTES: u64 = 32 << 20;

/// Pixels of an image that is decoded: a camera's largest. A file of a few bytes can claim any number.
pub(crate) const IMAGE_PIXELS: u64 = 64_000_000;

/// Bytes that a decoded image may take in memory. One image at a time is decoded.
pub(crate) const IMAGE_MEMORY: u64 = 256 << 20;

/// JPEG quality from 0 to 100: below 80 small text begins to blur.
pub(crate) const JPEG_QUALITY: u8 = 85;

/// Side, in pixels, of the squares into which models divide an image. Each square is about one token (Anthropic's
/// figure; others are similar).
pub(crate) const IMAGE_TOKEN_SIDE: u32 = 28;

/// Bytes of a PDF document: encoded as base64 it must fit into a request.
pub(crate) const PDF_BYTES: u64 = 10 << 20;

/// Bytes of a text that is sent with a message, about 64,000 tokens: half of the assumed window of an unknown model.
/// The agent can read a longer text from the workspace, piece by piece.
pub(crate) const ATTACHED_TEXT_BYTES: u64 = 256 << 10;

/// Files that one message may have.
pub(crate) const ATTACHED_FILES: usize = 20;

/// Bytes of all files of one message: as base64 less than the 20 MB that a request to Gemini may have, and no more than
/// a request sends of a conversation.
pub(crate) const ATTACHED_BYTES: u64 = 12 << 20;

/// Bytes of one bootstrap file in the system prompt, with what it includes, about 8,000 tokens: every request of the session has them.
pub(crate) const BOOTSTRAP_FILE_BYTES: usize = 32 << 10;

/// Bytes of all bootstrap files in the system prompt.
pub(crate) const BOOTSTRAP_BYTES: usize = 128 << 10;

/// Bytes of a `SKILL.md` in which its front matter must be.
pub(crate) const SKILL_HEAD_BYTES: usize = 16 << 10;

/// Bytes of a text of a skill that the model receives at once.
pub(crate) const SKILL_TEXT_BYTES: usize = 48 << 10;

/// Characters of the name of a skill.
pub(crate) const SKILL_NAME_CHARS: usize = 64;

/// Characters of the description of a skill.
pub(crate) const SKILL_DESCRIPTION_CHARS: usize = 1_024;

/// Entries of a folder of skills, or of a skill, that are looked at.
pub(crate) const SKILLS_IN_FOLDER: usize = 512;

/// Skills that are read for a run.
pub(crate) const SKILLS_MOST: usize = 512;

/// Files of a skill that the model receives the names of.
pub(crate) const SKILL_FILES: usize = 64;

/// Bytes of the list of skills in the system prompt, about 2,000 tokens: every request has it.
pub(crate) const SKILL_LIST_BYTES: usize = 8 << 10;

/// Folders in which instructions are looked for, upward from the workspace.
pub(crate) const BOOTSTRAP_FOLDERS: usize = 64;

/// Files of which each includes the next.
pub(crate) const INCLUDED_DEPTH: usize = 5;

/// Problems of one bootstrap file that are named.
pub(crate) const NAMED_PROBLEMS: usize = 20;

/// Bytes of a web page that are read: longer pages are not meant for reading.
pub(crate) const FETCH_BYTES: usize = 2 << 20;

/// Bytes of the text that a page becomes. Text can be longer than its page, since links are written whole.
pub(crate) const PAGE_TEXT_BYTES: usize = 4 << 20;

/// Levels of nested lists that are indented; what is deeper stands at the last level.
pub(crate) const LIST_LEVELS: usize = 16;

/// Bytes of its text that the model receives at once.
pub(crate) const FETCH_PREVIEW_BYTES: usize = 24 << 10;

/// Milliseconds that a fetch may take, redirects included.
pub(crate) const FETCH_MS: u64 = 30_000;

/// Redirects that a fetch follows.
pub(crate) const REDIRECTS: u32 = 5;

/// Milliseconds that a web search may take.
pub(crate) const SEARCH_MS: u64 = 20_000;

/// Bytes of the answer of a search that are read: ten results have a hundredth of it.
pub(crate) const SEARCH_BYTES: usize = 1 << 20;

/// Characters of what is searched for: Brave and Tavily take no more.
pub(crate) const QUERY_CHARS: usize = 400;

/// Results that a search shows, and those that it shows if the call does not say.
pub(crate) const SEARCH_RESULTS: usize = 10;
pub(crate) const SEARCH_RESULTS_DEFAULT: usize = 5;

/// Characters of the title of a result, of the piece of its text, and of its address.
pub(crate) const RESULT_TITLE_CHARS: usize = 200;
pub(crate) const RESULT_SNIPPET_CHARS: usize = 500;
pub(crate) const RESULT_URL_CHARS: usize = 2_048;

/// Characters of what a provider says to an error.
pub(crate) const SEARCH_ERROR_CHARS: usize = 300;

/// Bytes of a file of memory that are used: what people and models write down to be remembered is far shorter.
pub(crate) const MEMORY_FILE_BYTES: u64 = 1 << 20;

/// Files of memory, names in their folders that are looked at, and folders in each other. A note for each day of five years is fewer.
pub(crate) const MEMORY_FILES: usize = 2_000;
pub(crate) const MEMORY_ENTRIES: usize = 20_000;
pub(crate) const MEMORY_DEPTH: usize = 16;

/// Characters of a passage of memory: a few paragraphs, about 300 tokens.
pub(crate) const PASSAGE_CHARS: usize = 1_200;

/// Passages that a search of memory shows, and those that it shows if the call does not say.
pub(crate) const PASSAGES_FOUND: usize = 20;
pub(crate) const PASSAGES_FOUND_DEFAULT: usize = 6;

/// Bytes of the passages that it shows, about 6,000 tokens.
pub(crate) const FOUND_BYTES: usize = 24 << 10;

/// Phrases of a query in the index: 400 characters rarely have more.
pub(crate) const QUERY_PHRASES: usize = 64;

/// What a search of memory leaves out and names, and files of memory that an error names.
pub(crate) const NAMED_LEFT_OUT: usize = 20;
pub(crate) const NAMED_FILES: usize = 50;

/// Entries that `ls` shows.
pub(crate) const LIST_ENTRIES: usize = 500;

/// Matches that `grep` shows: with more, a narrower pattern serves better.
pub(crate) const GREP_MATCHES: usize = 200;

/// Bytes shown of one matching line, so that a minified file does not fill the result.
pub(crate) const GREP_LINE_BYTES: usize = 500;

/// Bytes that a line may have before `grep` skips the file: it bounds the memory of a search.
pub(crate) const GREP_HEAP_BYTES: usize = 16 << 20;

/// Threads of one search, beside the one that walks: more would take the machine from whoever else works on it.
pub(crate) const GREP_THREADS: usize = 4;

/// Files that one of them searches at a time: enough that handing them over costs nothing beside it.
pub(crate) const GREP_BATCH: usize = 64;

/// Paths that `find` shows.
pub(crate) const FOUND_PATHS: usize = 500;

/// Bytes of a file that `edit` and `apply_patch` change: they hold the whole file twice in memory.
pub(crate) const CHANGED_BYTES: u64 = 16 << 20;

/// Lines shown of the text that is nearest to a piece that was not found.
pub(crate) const NEAREST_LINES: usize = 6;

/// Characters of a line that are compared for similarity: it bounds the search for the nearest line.
pub(crate) const ALIKE_CHARS: usize = 120;

/// Lines whose similarity is computed between two looks whether the call is cancelled: a few milliseconds.
pub(crate) const LINES_PER_LOOK: usize = 1_024;

/// Line numbers that an error lists.
pub(crate) const LISTED_LINES: usize = 10;

/// Bytes of a path as it is written: the kernel takes no longer one (`PATH_MAX`), and a path is resolved name by name.
pub(crate) const PATH_BYTES: usize = 4_096;

/// Bytes of the arguments of a call that are parsed: no answer of a model has more.
pub(crate) const ARGUMENTS_BYTES: usize = 8 << 20;

/// Bytes of a regular expression or a glob: they are compiled at once, and that cannot be cancelled.
pub(crate) const PATTERN_BYTES: usize = 4 << 10;

/// Bytes of a file of rules like `.gitignore` that are read, and rules in it that count: more than projects have.
pub(crate) const IGNORE_BYTES: u64 = 256 << 10;
pub(crate) const IGNORE_RULES: usize = 4_096;

/// Files and folders of a workspace that are compared before and after a command. A workspace with more is not recorded: the
/// comparison would take over a second.
pub(crate) const LISTED_ENTRIES: usize = 200_000;

/// Files and folders of a copy of a workspace, with those that git ignores.
pub(crate) const COPIED_ENTRIES: usize = 1_000_000;

/// Bytes of a file that are copied between two looks at the space of the disk.
pub(crate) const COPIED_AT_ONCE_BYTES: u64 = 64 << 20;

/// Bytes that a copy of a workspace leaves free on its disk.
pub(crate) const LEFT_FREE_BYTES: u64 = 512 << 20;

/// Bytes of a file that is read whole when it is copied, because it changed a moment ago.
pub(crate) const FRESH_BYTES: u64 = 64 << 20;

/// Bytes of contents that are taken over from a copy at once, with those that they replace: all are kept, for an undo.
pub(crate) const TAKEN_OVER_BYTES: u64 = 4 << 30;

/// Entries of a workspace that one thread lists: less than this takes no longer than to start another one is worth.
pub(crate) const LISTED_BY_ONE: usize = 4_096;

/// Entries that `find` walks on one thread before several begin anew: most searches end in fewer, on the thread of their check.
pub(crate) const WALKED_BY_ONE: usize = 2_048;

/// Threads that list a larger workspace, at most.
pub(crate) const LISTING_THREADS: usize = 4;

/// Folders in each other that are entered when a workspace is listed.
pub(crate) const LISTED_DEPTH: usize = 256;

/// Paths that are recorded as changed by one call: each is an entry of the journal.
pub(crate) const RECORDED_CHANGES: usize = 50_000;

/// Nanoseconds by which the time of a change may lag behind the clock: two ticks of the kernel's coarse clock.
pub(crate) const COARSE_CLOCK_NS: i64 = 20_000_000;

/// Milliseconds that a look at a workspace may take in all before it is given up. A call waits for it.
pub(crate) const LISTING_MS: u64 = 30_000;

/// Milliseconds for which a workspace that is too large, or too slow to read, is not looked at again.
pub(crate) const GIVEN_UP_MS: u64 = 5 * 60_000;

/// Files whose contents are made durable together.
pub(crate) const SYNCED_TOGETHER: usize = 1_024;

/// New contents from which the whole file system is synced once, in place of each file.
pub(crate) const SYNCED_ONE_BY_ONE: usize = 8;

/// Bytes of a file that is read into memory as a whole to be kept.
pub(crate) const KEPT_IN_MEMORY_BYTES: u64 = 4 << 20;

/// Bytes of a content that is compared line by line.
pub(crate) const COMPARED_BYTES: u64 = 1 << 20;

/// Lines of the diff that is recorded with a change of a file: more than a terminal shows of it.
pub(crate) const DIFF_LINES: usize = 120;

/// Bytes of that diff.
pub(crate) const DIFF_BYTES: usize = 12 << 10;

/// Bytes of one of its lines.
pub(crate) const DIFF_LINE_BYTES: usize = 500;

/// Tries to read a file that changes while it is read.
pub(crate) const READ_TRIES: u32 = 3;

/// Changes of other calls that are remembered to tell them apart: more than a session makes while a command runs.
pub(crate) const REMEMBERED_CHANGES: usize = 16_384;

/// Bytes of a listing: 200,000 entries with long paths.
pub(crate) const LISTING_BYTES: u64 = 256 << 20;

/// Bytes of a URL: servers refuse longer ones.
pub(crate) const URL_BYTES: usize = 8 << 10;

/// Files and folders of the home that are compared with a file that has a second name: far above what a home holds.
pub(crate) const GUARDED_ENTRIES: usize = 1 << 17;

/// Files that one patch may change.
pub(crate) const PATCH_FILES: usize = 256;

/// Bytes of all files that one patch changes: it holds all of them in memory.
pub(crate) const PATCHED_BYTES: u64 = 64 << 20;

/// Steps that the search for the lines of one patch may take; a step compares two lines, or 64 bytes of two lines that
/// begin alike. A patch of a hundred hunks on a file of 20,000 lines needs two million. All of them take about a second.
pub(crate) const PATCH_STEPS: u64 = 100_000_000;

/// Steps after which a search looks whether its call is cancelled: a few milliseconds.
pub(crate) const STEPS_PER_LOOK: u64 = 1 << 18;

/// Bytes of a file that are hashed between two looks whether the call is cancelled: a millisecond.
pub(crate) const HASHED_AT_ONCE_BYTES: u64 = 1 << 20;

/// Bytes of an error that the model receives: it may repeat what the model wrote.
pub(crate) const ERROR_BYTES: usize = 4 << 10;

/// Symbolic links that one path may contain; the kernel has the same limit.
pub(crate) const LINKS: u32 = 40;

/// Attempts to open a path while others rename folders on it; after them the tool reports the error.
pub(crate) const OPEN_TRIES: u32 = 32;

/// Bytes from the start of a command's output that the model receives.
pub(crate) const PREVIEW_HEAD_BYTES: usize = 16 << 10;

/// Bytes from the end of a command's output that the model receives: errors are usually at the end.
pub(crate) const PREVIEW_TAIL_BYTES: usize = 8 << 10;

/// Bytes from the start of a command's output that are kept on disk.
pub(crate) const KEPT_HEAD_BYTES: u64 = 4 << 20;

/// Bytes from the end of a command's output that are kept on disk.
pub(crate) const KEPT_TAIL_BYTES: u64 = 4 << 20;

/// Bytes of a command's output that are reported while it runs. Live output is only for watching, and the journal
/// stores it.
pub(crate) const LIVE_BYTES: u64 = 64 << 10;

/// Bytes that the supervisor reads from the pipe at once: the capacity of a pipe.
pub(crate) const PIPE_BYTES: usize = 64 << 10;

/// Bytes that may be read from the pipe after the command's processes are gone. Only a process that could not be ended
/// still writes, and it must not delay the exit record.
pub(crate) const DRAIN_BYTES: u64 = 1 << 20;

/// Bytes of an exit record. A longer one is not from a supervisor.
pub(crate) const RECORD_BYTES: u64 = 64 << 10;

/// Milliseconds between SIGTERM and SIGKILL.
pub(crate) const TERM_MS: u64 = 1_500;

/// Milliseconds to wait for processes to vanish after SIGKILL; remaining processes count as survivors.
pub(crate) const KILL_MS: u64 = 2_000;

/// Milliseconds after which the runtime kills the processes of a command by itself: its supervisor, which was asked to end it, must have sent
/// SIGKILL by then, and may have been stopped by the command.
pub(crate) const FORCE_MS: u64 = 2_000;

/// Cgroups that are removed of what a command made below its own: far more than a container tool makes.
pub(crate) const CGROUP_FOLDERS: usize = 1 << 12;

/// Looks at the processes above another one, each of which may fail because one of them exits meanwhile.
pub(crate) const LINE_TRIES: usize = 8;

/// Bytes of `/proc/PID/stat`: 52 numbers of at most 20 digits, and a name of at most 64 bytes.
pub(crate) const STAT_BYTES: usize = 2 << 10;

/// Milliseconds before a workspace in which commands are used is looked at again ahead of the next one: longer than a step
/// with a command takes, whose own looks are newer.
pub(crate) const LOOK_AGAIN_MS: u64 = 10_000;

/// Workspaces that are looked at ahead: one process seldom works in more at the same time.
pub(crate) const LOOKED_WORKSPACES: usize = 256;

/// Milliseconds between two looks at a supervisor that was asked to end its command.
pub(crate) const URGE_TICK_MS: u64 = 50;

/// Milliseconds between two checks of processes that are being ended.
pub(crate) const ENDING_TICK_MS: u64 = 5;

/// How many more times the supervisor searches for processes that started while it froze their command.
pub(crate) const FREEZE_LOOKS: u32 = 3;

/// Milliseconds after which an idle supervisor wakes to reap orphans of its command.
pub(crate) const REAP_TICK_MS: u64 = 5_000;

/// Milliseconds past the call's own limit after which the supervisor itself ends the command: the runtime, if one runs,
/// acts first.
pub(crate) const SLACK_MS: u64 = 10_000;

/// Seconds that a command may ask for: what takes longer belongs into the background.
pub(crate) const TIMEOUT_S: u64 = 3_600;

/// Seconds that a command may take where neither it nor the configuration says: a build or a test suite fits.
pub(crate) const DEFAULT_TIMEOUT_S: u64 = 600;

/// Milliseconds between two checks of a call that another process started.
pub(crate) const ATTACHED_TICK_MS: u64 = 10;

/// Milliseconds between two checks of a call whose supervisor signals changes: only in case a signal is lost.
pub(crate) const FOLLOWED_TICK_MS: u64 = 1_000;

/// Milliseconds between two checks of a background command where the system cannot signal its end.
pub(crate) const BACKGROUND_TICK_MS: u64 = 1_000;

/// Milliseconds after which a background command is checked although its supervisor has signalled nothing.
pub(crate) const HELD_TICK_MS: u64 = 30_000;

/// Milliseconds after which a command continues in the background if the call sets no time: a command that fails at
/// once thus still fails in its own call.
pub(crate) const BACKGROUND_MS: u64 = 500;

/// Bytes of the output of a process that the model receives at once.
pub(crate) const POLLED_BYTES: u64 = 24 << 10;

/// Bytes from the end of the output if the poll names no offset.
pub(crate) const POLLED_TAIL_BYTES: u64 = 8 << 10;

/// The longest time that a poll may wait for new output, milliseconds.
pub(crate) const POLL_WAIT_MS: u64 = 60_000;

/// Milliseconds between two checks while a poll waits, or while a process does not read its input.
pub(crate) const POLL_TICK_MS: u64 = 20;

/// Milliseconds that a process gets to read its input; the rest is then not sent.
pub(crate) const INPUT_MS: u64 = 2_000;

/// Milliseconds that a process gets to end before the tool reports that it could not be ended.
pub(crate) const PROCESS_END_MS: u64 = 4_000;

/// Bytes shown of a command in a list, or of a path that cannot be one.
pub(crate) const LISTED_BYTES: usize = 200;

/// Bytes kept of the supervisor's message on why it could not begin.
pub(crate) const REASON_BYTES: usize = 1 << 10;

/// Bytes below which a value is not masked: it is hardly a secret, and masking it would garble ordinary text.
pub(crate) const SECRET_BYTES: usize = 6;

/// Bytes below which only a value itself is masked, not its other forms.
pub(crate) const SECRET_FORM_BYTES: usize = 8;

/// At the end of a text, half of a secret is masked as a part of it, but nothing shorter than the least, which is an
/// ordinary word, and everything from the most on, which no public prefix of keys reaches (`sk-ant-api03-`).
pub(crate) const SECRET_START_LEAST_BYTES: usize = 8;
pub(crate) const SECRET_START_MOST_BYTES: usize = 16;

/// Bytes of a command that an approval request quotes: whoever approves it must see what it does.
pub(crate) const QUOTED_BYTES: usize = 8 << 10;

const _: () = assert!(
    PREVIEW_HEAD_BYTES + PREVIEW_TAIL_BYTES < KEPT_HEAD_BYTES as usize,
    "the preview is within the kept output"
);
const _: () =
    assert!(PDF_BYTES <= ATTACHED_BYTES && ATTACHED_BYTES / 3 * 4 < 20_000_000, "what is attached can be sent");
const _: () = assert!(IMAGE_BYTES / 3 * 4 < 5_000_000, "an image that was made anew can be sent");
const _: () =
    assert!(PDF_BYTES < IMAGE_FILE_BYTES && ATTACHED_TEXT_BYTES < IMAGE_FILE_BYTES, "no more is read of a file");
const _: () = assert!(POLLED_BYTES <= KEPT_TAIL_BYTES, "one poll fits into the kept tail");
const _: () =
    assert!(TERM_MS + KILL_MS < PROCESS_END_MS, "the supervisor can end a process before the tool stops waiting");
const _: () =
    assert!(TERM_MS < FORCE_MS && FORCE_MS + 1_000 < PROCESS_END_MS, "the supervisor acts first, the runtime in time");
const _: () = assert!(LIVE_BYTES < KEPT_HEAD_BYTES, "live output is read from the part that is never overwritten");
const _: () = assert!(
    TERM_MS + KILL_MS < engine::tables::limits::END_GRACE_MS,
    "the tree is ended, and that is recorded, before the run ends without it"
);

/// Bytes of the stack on which a schema is checked, reserved and not used: a chain of references in a schema of the largest size, with
/// several frames for each. The process of a check ends if it is not enough.
pub(crate) const SCHEMA_STACK_BYTES: usize = 512 << 20;

/// Bytes of address space that a check may have beside its stack: the program itself, the schema compiled, an answer of the
/// largest size, and all that is wrong with it.
pub(crate) const SCHEMA_HEAP_BYTES: u64 = 512 << 20;

/// Seconds of processor time that a check may take: a thousand times what an ordinary one takes.
pub(crate) const SCHEMA_CPU_S: u64 = 5;

/// Milliseconds after which a check is ended that got no processor time.
pub(crate) const SCHEMA_CHECK_MS: u64 = 60_000;

/// Checks that a process makes at once: another one waits.
pub(crate) const SCHEMA_CHECKS: usize = 4;

/// Schemas that may be checked against one value by references and by `anyOf` and the like: far more than a schema for people has.
pub(crate) const SCHEMA_STEPS: u64 = 100_000;

/// Bytes of what a check reads: a schema and an answer, and the marks between them.
pub(crate) const SCHEMA_CHECK_JOB_BYTES: u64 = (SCHEMA_BYTES + STRUCTURED_BYTES) as u64 + 64;

/// Bytes of what it says: a value of the largest size.
pub(crate) const SCHEMA_VERDICT_BYTES: u64 = STRUCTURED_BYTES as u64 + 64;

/// Bytes of the JSON schema of an answer, about 16,000 tokens: every request of the run has it.
pub const SCHEMA_BYTES: usize = 64 << 10;

/// Bytes of an answer that is checked against a schema.
pub const STRUCTURED_BYTES: usize = 1 << 20;

/// Violations of a schema that a model or a person receives.
pub(crate) const MISFITS: usize = 10;

/// Characters of what is said about an answer that does not fit.
pub(crate) const MISFIT_CHARS: usize = 1_000;

/// Files of a command that are looked at when somebody is asked about it: more programs and scripts than a line names.
pub(crate) const APPROVED_FILES: usize = 256;

/// Bytes of such a file whose content is compared; of a larger one, what the file system says of it: reading it would hold up the question.
pub(crate) const APPROVED_BYTES: u64 = 1 << 20;

/// Bytes of a command line that is read for rules on commands: a longer one is asked about.
pub(crate) const SHELL_BYTES: usize = 32 << 10;

/// Levels of lists, substitutions and words that are read. A person writes a few.
pub(crate) const SHELL_DEPTH: usize = 64;

/// Milliseconds for which a command line is read. A line that a person writes takes far less than one.
pub(crate) const SHELL_MS: u64 = 200;

/// Characters of a question of the model: a person reads it.
pub(crate) const QUESTION_CHARS: usize = 4_000;

/// Choices of a question: more are no choice.
pub(crate) const CHOICES: usize = 20;

/// Characters of a choice: a line or two.
pub(crate) const CHOICE_CHARS: usize = 200;

/// Hosts, and files and folders, that a command asks for beyond its sandbox: a question has to be read.
pub(crate) const EXITS: usize = 16;

/// Connections of a command to its proxy at once, each with a thread; further ones wait. A package manager opens about 50.
pub(crate) const PROXY_CONNECTIONS: usize = 64;

/// Errors in a row after which a proxy accepts no connections any more.
pub(crate) const PROXY_ACCEPT_ERRORS: u32 = 1_000;

/// Bytes of the head of a request to a proxy: as much as common servers allow.
pub(crate) const PROXY_HEAD_BYTES: usize = 8 << 10;

/// Milliseconds for the head of a request to a proxy, and for the first message of TLS.
pub(crate) const PROXY_HEAD_MS: u64 = 10_000;

/// Bytes that a proxy reads of a request that it has answered already.
pub(crate) const PROXY_LEFTOVER_BYTES: usize = 256 << 10;

/// Milliseconds for which a proxy reads them.
pub(crate) const PROXY_LEFTOVER_MS: u64 = 1_000;

/// Bytes of the first message of TLS: those of browsers have about 2,000.
pub(crate) const HELLO_BYTES: usize = 16 << 10;

/// Milliseconds for resolving the name of a host and for connecting to it.
pub(crate) const DIAL_MS: u64 = 10_000;

/// Milliseconds after which a tunnel ends in which nothing moves.
pub(crate) const TUNNEL_IDLE_MS: u64 = 300_000;

/// The same once the client sends nothing more: many that look like that have ended.
pub(crate) const TUNNEL_HALF_CLOSED_MS: u64 = 60_000;

/// Bytes of one direction of a tunnel that wait to be written.
pub(crate) const TUNNEL_BYTES: usize = 32 << 10;

/// Milliseconds for which a supervisor waits for the listening socket of a sandbox, which takes about 10 to be set up.
pub(crate) const LISTENER_MS: u64 = 30_000;

/// The port at which a proxy carries TLS alone, since there the host is named in the clear.
pub(crate) const TLS_PORT: u16 = 443;

/// Bytes of the name of a host, and of one part of it (RFC 1035).
pub(crate) const HOST_BYTES: usize = 253;
pub(crate) const HOST_LABEL_BYTES: usize = 63;

/// Hosts that the report on the network of a command names, of each kind.
pub(crate) const NETWORK_HOSTS: usize = 100;

/// Bytes of that report: twice what these hosts can have.
pub(crate) const NETWORK_REPORT_BYTES: u64 = 256 << 10;

/// Refused hosts that the model receives by name.
pub(crate) const NETWORK_HOSTS_NAMED: usize = 5;

/// Steps of a plan: a person reads it at a glance, and the model receives it again after a compaction.
pub(crate) const STEPS: usize = 50;

/// Characters of a step of a plan: a line or two.
pub(crate) const STEP_CHARS: usize = 200;

/// Characters of why a plan changed.
pub(crate) const NOTE_CHARS: usize = 2_000;

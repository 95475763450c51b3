//! The terminal itself: it changes its size, stops, goes away, or nobody reads what is written.

use std::fs;

use model_server::ModelServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{HOLD, Home, Terminal, is_alive, pids, until};

fn holds(home: &Home) {
    until("a command that holds", || !pids(&home.file("pids")).is_empty());
}

fn owner(home: &Home) -> u32 {
    let pid = home.json(&["status"])["owner"]["pid"].as_u64().expect("the home has an owner");
    u32::try_from(pid).expect("a pid")
}

fn signals(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid is not 0");
    kill_process(pid, signal).expect("it runs");
}

fn spinners(screen: &str) -> usize {
    screen.lines().filter(|line| line.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c))).count()
}

/// R15: a terminal that becomes narrower wraps the last rows; they are erased whole.
#[test]
pub(crate) fn r15_a_terminal_that_becomes_narrower_shows_the_last_rows_once() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let terminal = Terminal::run(&home, &["agent", "--yes", "-m", HOLD]);
    holds(&home);
    terminal.type_keys(&["begin", &"x".repeat(80), "tail"]);
    terminal.until("xtail");
    terminal.resize(40, 30);
    // The row is cut to the width, and nothing of the ones before is left.
    let mut screen = String::new();
    until("one row of it", || {
        screen = terminal.screen();
        screen.contains("xtail") && !screen.contains("begin") && spinners(&screen) == 1
    });
    assert_eq!(screen.lines().filter(|line| line.contains("xxx")).count(), 1, "{screen}");
    terminal.resize(100, 30);
    terminal.until("› beginx");
    assert_eq!(spinners(&terminal.screen()), 1, "{}", terminal.screen());
    home.put("go", "");
    let screen = terminal.until("exit=0");
    assert_eq!(spinners(&screen), 0, "{screen}");
}

/// R15: a footer that is taller than the screen is cut, so that nothing of it scrolls away and stays.
#[test]
pub(crate) fn r15_a_footer_that_is_taller_than_the_screen_leaves_nothing_behind() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let message =
        "run `for i in 1 2 3 4 5 6 7 8; do echo line-$i; done; echo $$ >> pids; until test -e go; do sleep 0.02; done`";
    let terminal = Terminal::run_in(&home, (100, 4), &["agent", "--yes", "-m", message]);
    holds(&home);
    terminal.type_keys(&["typed"]);
    let frame = |screen: &str| screen.lines().find(|line| spinners(line) == 1).map(str::to_owned);
    let mut first = None;
    until("a frame", || {
        first = frame(&terminal.screen());
        first.is_some()
    });
    until("another frame", || frame(&terminal.screen()).is_some_and(|now| Some(now) != first));
    let history = terminal.history();
    assert!(spinners(&history) == 1 && history.contains("› typed"), "{history}");
    home.put("go", "");
    terminal.until("exit=0");
    assert_eq!(spinners(&terminal.history()), 0, "{}", terminal.history());
}

/// R15: Ctrl-Z is heard also while the command cannot do anything, here because nobody reads what it writes.
#[test]
fn r15_ctrl_z_is_heard_whatever_the_command_waits_for() {
    if !Terminal::is_there() {
        return;
    }
    // The reader starts no process while it waits: a shell whose child is stopped before it executes is never stopped itself.
    let script = "mkfifo ../gate; exec 3<> ../gate; stty -a > before; LIMULUS | sh -c 'read line <&3; cat > out'; \
                  stty -a > stopped; echo is=stopped; read go; echo >&3; fg; echo exit=$?; cat";
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let long = "exec:echo $$ >> pids\nprose=200000";
    let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", long]);
    until("the first call", || home.file("pids").exists());
    until("it waits for its reader", || writes_to_a_full_pipe(owner(&home)));
    terminal.type_keys(&["C-z"]);
    terminal.until("is=stopped");
    assert_eq!(home.text("before"), home.text("stopped"));
    terminal.type_keys(&["Enter"]);
    terminal.until("exit=0");
    assert!(home.text("out").len() > 150_000);
}

/// Whether a thread of it sleeps in a write to a pipe.
fn writes_to_a_full_pipe(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| fs::read_to_string(thread.path().join("wchan")).unwrap_or_default())
        .any(|at| at.contains("pipe_write"))
}

/// Whether a thread of it sleeps in a write to its stderr.
fn writes_to_stderr(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // The number of `write` on x86-64 and on arm64, and the descriptor.
    threads
        .map(|thread| fs::read_to_string(thread.path().join("syscall")).unwrap_or_default())
        .any(|call| call.starts_with("1 0x2 ") || call.starts_with("64 0x2 "))
}

/// R15: a terminal that takes nothing more holds up no signal: the process ends, and the terminal is as it was.
#[test]
fn r15_a_signal_ends_a_command_whose_terminal_takes_nothing() {
    if !Terminal::is_there() {
        return;
    }
    for (signal, exit) in [(Signal::HUP, 129), (Signal::TERM, 143)] {
        let home = Home::new();
        let script = "stty -a > before; LIMULUS; echo $? > exit; stty -a > after; cat";
        let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", HOLD]);
        holds(&home);
        terminal.type_keys(&["half"]);
        terminal.until("› half");
        let pid = owner(&home);
        terminal.type_keys(&["C-s"]);
        until("a write that waits", || writes_to_stderr(pid));
        signals(pid, signal);
        until("its end", || home.text("exit").ends_with('\n'));
        assert_eq!(home.text("exit"), format!("{exit}\n"));
        until("the modes", || !home.text("after").is_empty());
        assert_eq!(home.text("before"), home.text("after"));
        home.put("go", "");
    }
}

/// R15: SIGHUP from outside leaves the terminal as it was; who has it ignored goes on, and a terminal that is gone costs no
/// time.
#[test]
fn r15_a_hangup_leaves_the_terminal_as_it_was() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let script = "stty -a > before; LIMULUS; echo exit=$?; stty -a > after; echo done=done; cat";
    let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", HOLD]);
    holds(&home);
    terminal.type_keys(&["half"]);
    terminal.until("› half");
    signals(owner(&home), Signal::HUP);
    let screen = terminal.until("done=done");
    assert!(screen.contains("exit=129"), "{screen}");
    assert_eq!(home.text("before"), home.text("after"));
    home.put("go", "");

    let home = Home::new();
    let terminal = Terminal::script(&home, "trap '' HUP; LIMULUS", &["agent", "--yes", "-m", HOLD]);
    holds(&home);
    terminal.type_keys(&["half"]);
    terminal.until("› half");
    let pid = owner(&home);
    drop(terminal);
    let (ticks, switches) = used(pid);
    until("it has waited often", || used(pid).1 > switches + 20);
    assert!(used(pid).0 < ticks + 50, "half a second at most: {:?}", used(pid));
    home.put("go", "");
    until("it ends", || !is_alive(pid));
    assert_eq!(home.json(&["runs", "show"])["outcome"], "completed");
}

/// Ticks of CPU time that a process has used, and how often its first thread has waited.
fn used(pid: u32) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().collect();
    let ticks = [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("a number")).sum();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("threads").flatten();
    let waits = threads.filter_map(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    });
    (ticks, waits.sum())
}

/// R15: keys work again after a stop from outside, and after `bg` and `fg`.
#[test]
fn r15_keys_work_again_after_a_stop_from_outside_and_in_the_foreground() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let script = "LIMULUS; echo is=stopped; read go; bg; echo is=behind; read go; fg; echo exit=$?; cat";
    let terminal = Terminal::script(&home, script, &["agent", "--yes", "-m", HOLD]);
    holds(&home);
    terminal.type_keys(&["half"]);
    terminal.until("› half");
    signals(owner(&home), Signal::STOP);
    terminal.until("is=stopped");
    terminal.type_keys(&["Enter"]);
    terminal.until("is=behind");
    terminal.type_keys(&["Enter"]);
    terminal.until("› half");
    terminal.type_keys(&[" line", "Enter"]);
    terminal.until("› steer: half line");
    home.put("go", "");
    terminal.until("exit=0");
}

/// R24: a closed stdout ends no run, which is work; a command that only shows one ends.
#[test]
pub(crate) fn r24_a_closed_stdout_ends_a_watcher_and_no_run() {
    let home = Home::new();
    let run =
        home.shell(&format!("{{ $LIMULUS agent --yes --json -m '{HOLD_ONCE}'; echo code=$? > code; }} | head -n 1"));
    assert_eq!(run.out.lines().count(), 1, "{run:?}");
    assert_eq!(run.err.matches("stdout is closed; the run goes on").count(), 1, "{run:?}");
    assert_eq!((home.text("code").as_str(), home.text("done").as_str()), ("code=0\n", "yes\n"));

    let holding = home.start(&["agent", "--yes", "-m", HOLD]);
    holds(&home);
    // The run goes on when nobody reads any more: it is the next line that cannot be written.
    let reader = "{ head -n 1; exec <&-; echo > go; }";
    let watched = home.shell(&format!("{{ $LIMULUS runs watch --json; echo code=$? > watched; }} | {reader}"));
    assert_eq!((watched.out.lines().count(), home.text("watched").as_str()), (1, "code=0\n"), "{watched:?}");
    holding.finish().expect_code(0);
}

/// A run of two commands, so that lines follow the first.
const HOLD_ONCE: &str = "run `echo one` and run `echo yes > done`";

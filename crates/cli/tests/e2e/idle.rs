//! A service terminates idle sessions.

use crate::support::{Home, pids, until};

const HOLD: &str = "run `echo $$ >> pids; until test -e go; do sleep 0.02; done`";

/// R20: the service terminates idle sessions through a named edge; unfinished runs continue.
#[test]
fn r20_an_idle_session_is_terminated_by_its_service() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow").with("LIMULUS_SESSION__IDLE_TIMEOUT_S", "1");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let busy = home.start(&["agent", "--session", "busy", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    owner.until_err("agent:main:main ended: it was idle for 1 s");
    let audit = home.run(&["audit", "main", "--verify"]).expect_code(0);
    assert!(audit.out.contains("idle_timeout"), "{}", audit.out);
    let refused = home.run(&["agent", "-m", "Are you there?"]).expect_code(3);
    assert!(refused.err.contains("terminated"), "{}", refused.err);
    let shown = home.json(&["sessions", "show", "busy"]);
    assert_eq!(shown["lifecycle"], "active", "{shown}");
    home.put("go", "");
    busy.finish().expect_code(0);
    owner.until_err("agent:main:busy ended: it was idle for 1 s");
}

//! Random patches through the tool. Pages have their fuzz target beside the converter, which is not public.

use std::fs;
use std::time::Duration;

use engine::{CallOutcome, Found};
use serde_json::json;

use crate::support::{World, output, request};

/// The heads of files, and the lines under them. Both are what a patch may have there, so that many patches fit.
const HEADS: &[&str] = &[
    "*** Update File: a.txt\n@@",
    "*** Update File: a.txt\n*** Move to: moved.txt\n@@ two",
    "*** Update File: b/c.txt\n@@",
    "*** Update File: ../out.txt\n@@",
    "*** Add File: new.txt",
    "*** Add File: b/c.txt",
    "*** Delete File: a.txt",
    "*** Delete File: b",
];
const LINES: &[&str] = &[
    "+new",
    "+one",
    "+",
    " one",
    " two",
    " ",
    "-one",
    "-two",
    "@@",
    "@@ one",
    "*** End of File",
    "",
    "\r",
    "\u{feff}",
];

/// A patch from random bytes: of four bytes one is a head, and one of 32 is itself.
fn patch(bytes: &[u8]) -> String {
    let line = |(at, byte): (usize, &u8)| {
        let (kind, choice) = (byte % 32, usize::from(byte / 4));
        match kind {
            31 => char::from(*byte).to_string(),
            0..8 => format!("{}\n", HEADS[choice % HEADS.len()]),
            _ if at == 0 => format!("{}\n", HEADS[choice % HEADS.len()]),
            // The first lines are the more likely ones.
            _ => format!("{}\n", LINES[(choice * choice / 64) % LINES.len()]),
        }
    };
    format!("*** Begin Patch\n{}*** End Patch\n", bytes.iter().enumerate().map(line).collect::<String>())
}

const FILES: &[(&str, &str)] = &[("a.txt", "one\ntwo\n\none  \r\ntwo"), ("b/c.txt", "\u{feff}one\n\n\ntwo\n")];

/// No patch panics or touches a file outside; one that fails changes nothing, and one that is done is found as done.
#[test]
fn fuzz_apply_patch_changes_all_or_nothing() {
    let world = World::new();
    let outside = world.home.path().join("out.txt");
    fs::write(&outside, "mine\n").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let names = ["a.txt", "b/c.txt", "new.txt", "moved.txt"];
    let state = || names.map(|name| fs::read(world.path(name)).ok());
    let case = |bytes: &[u8]| {
        for name in names {
            let _ = fs::remove_file(world.path(name));
        }
        for (name, text) in FILES {
            world.put(name, text);
        }
        let before = state();
        let mut request = request("apply_patch", json!({ "input": patch(bytes) }));
        request.evidence = world.check(&request).evidence;
        assert_eq!(state(), before, "a check changes nothing");
        let ended = runtime.block_on(world.run(&request));
        assert!(!output(&ended).contains("bug in limulus"), "{}", output(&ended));
        match ended.outcome {
            CallOutcome::Done => {
                let found = runtime.block_on(tools::find(&world.context, &request));
                assert_eq!(found.found, Found::Ended, "{}", output(&ended));
                assert!(state().iter().flatten().all(|text| String::from_utf8(text.clone()).is_ok()));
            }
            _ => assert_eq!(state(), before, "{}", output(&ended)),
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine\n");
    };
    // Every case begins with the same files, whatever a case that failed has left.
    let case = std::panic::AssertUnwindSafe(case);
    let case = |bytes: &[u8]| {
        let whole = &case;
        (whole.0)(bytes);
    };
    bolero::check!().with_max_len(12).with_test_time(Duration::from_secs(2)).for_each(case);
}

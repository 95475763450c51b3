//! The profile for macOS, as text: nobody has tried it there.

use std::path::PathBuf;

use confine::{NetworkAccess, Profile, ResourceLimits, Tier, WorkspaceAccess, default_read_only, seatbelt_profile};

fn profile() -> Profile {
    Profile {
        workspace: "/Users/me/w.k".into(),
        folder: "/Users/me/w.k".into(),
        access: WorkspaceAccess::Workspace,
        temporary: "/private/tmp/limulus-501/x".into(),
        writable: vec!["/Users/me/builds".into()],
        approved: vec![],
        caches: None,
        hidden: vec!["/Users/me/.ssh".into(), "/Users/me/builds/keys".into()],
        read_only: default_read_only(),
        network: NetworkAccess::Proxy,
        limits: ResourceLimits::default(),
        tier: Tier::A,
        report: "/private/tmp/report".into(),
    }
}

/// The rule that counts for a file that is written: the last one whose path has it inside.
fn decides<'a>(text: &'a str, path: &str) -> &'a str {
    let mut rules = text.lines().filter(|line| line.contains("file-write*"));
    let fits = |line: &&str| {
        let subpath = line.split_once("(subpath \"").and_then(|(_, rest)| rest.split_once('"'));
        subpath.is_some_and(|(root, _)| PathBuf::from(path).starts_with(root))
    };
    rules.rfind(fits).map_or("deny", |line| line.trim_start_matches('(').split(' ').next().unwrap())
}

#[test]
fn r67_a_command_on_macos_would_write_where_it_does_here() {
    let text = seatbelt_profile(&profile(), Some(4040)).unwrap();
    for (path, decision) in [
        ("/Users/me/w.k/src/main.rs", "allow"),
        ("/private/tmp/limulus-501/x/file", "allow"),
        ("/Users/me/builds/out", "allow"),
        ("/Users/me/builds/keys/id", "deny"),
        ("/Users/me/.ssh/id", "deny"),
        ("/Users/me/w.k/.git/hooks/pre-commit", "deny"),
        ("/Users/me/w.k/.envrc", "deny"),
        ("/Users/me/w.k.evil/file", "deny"),
        ("/Users/me/other", "deny"),
        ("/etc/hosts", "deny"),
    ] {
        assert_eq!(decides(&text, path), decision, "{path}\n{text}");
    }
    assert!(text.contains("(deny file-write-unlink (literal \"/Users/me/w.k/.git\"))\n"), "{text}");
    let nested = r#"(deny file-write* (regex #"^/Users/me/w\.k/(.*/)?\.[eE][nN][vV][rR][cC](/|$)"))"#;
    assert!(text.lines().any(|line| line == nested), "{text}");
    let read_only = Profile { access: WorkspaceAccess::ReadOnly, ..profile() };
    let text = seatbelt_profile(&read_only, None).unwrap();
    assert_eq!(decides(&text, "/Users/me/w.k/src/main.rs"), "deny");
    assert_eq!(decides(&text, "/private/tmp/limulus-501/x/file"), "allow");
}

#[test]
fn r67_a_command_on_macos_would_reach_its_proxy_alone() {
    let networks = |network, port| {
        let text = seatbelt_profile(&Profile { network, ..profile() }, port).unwrap();
        text.lines().filter(|line| line.contains("network")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(networks(NetworkAccess::None, Some(4040)), [""; 0]);
    assert_eq!(networks(NetworkAccess::Proxy, None), [""; 0]);
    assert_eq!(networks(NetworkAccess::Proxy, Some(4040)), ["(allow network-outbound (remote ip \"localhost:4040\"))"]);
    assert_eq!(networks(NetworkAccess::Host, None).len(), 2);
}

/// No path adds a rule, and every line is one.
#[test]
fn r67_no_path_of_a_profile_for_macos_is_a_rule() {
    for name in ["a\")(allow default)(\"", "a\nb", "a\u{1b}b", "relative"] {
        let workspace = if name == "relative" { PathBuf::from(name) } else { PathBuf::from("/w").join(name) };
        let error = seatbelt_profile(&Profile { workspace, ..profile() }, None).unwrap_err();
        assert!(error.to_string().contains("cannot be a path of a profile"), "{error}");
    }
    let workspace = PathBuf::from(r"/w/a\)(b [c]");
    let text = seatbelt_profile(&Profile { workspace, read_only: default_read_only(), ..profile() }, None).unwrap();
    assert!(text.contains(r#"(subpath "/w/a\\)(b [c]")"#), "{text}");
    assert!(text.contains(r#"(regex #"^/w/a\\\)\(b \[c\]/"#), "{text}");
    for line in text.lines() {
        assert!(line.starts_with('(') && line.ends_with(')') || line.starts_with(';'), "{line}");
    }
    assert!(text.starts_with("(version 1)\n; Made by Limulus. Untried on macOS.\n(deny default)\n"), "{text}");
}

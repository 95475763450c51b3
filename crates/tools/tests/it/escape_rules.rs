//! Escapes by command lines: each brings a command along that no rule allows. What real shells run of a line is tried, too, as this
//! user and as another one: a trick that does nothing would prove nothing. The numbers are those of docs/escapes.md.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use engine::Policy;
use engine::policy::PolicyRule;
use serde_json::json;

use crate::support::{World, request};

/// What somebody allows who wants to be asked less often.
const ALLOWED: &[&str] = &[
    "git *",
    "git status",
    "echo *",
    "printf *",
    "cat *",
    "ls *",
    "true",
    "find *",
    "fdfind *",
    "rg *",
    "sed *",
    "awk *",
    "tar *",
    "sort *",
    "man *",
    "less *",
    "xargs *",
    "env *",
    "busybox *",
    "bash *",
    "sh *",
    "eval *",
    "split *",
    "timeout *",
    "test *",
    "[ *",
    "let *",
    "read *",
    ": *",
];

fn rule(decision: Policy, commands: &[&str]) -> PolicyRule {
    PolicyRule {
        decision,
        origin: "here".to_owned(),
        restricts: false,
        grant: None,
        answered: false,
        tools: vec![],
        commands: commands.iter().map(|text| (*text).to_owned()).collect(),
        paths: vec![],
        hosts: vec![],
    }
}

/// What the policy decides about a line, with these rules beside it.
fn decided(line: &str, rules: &[PolicyRule]) -> Policy {
    let mut world = World::new();
    world.settings.policy = rules.into();
    world.check(&request("exec", json!({ "command": line }))).decision
}

/// A user whom no machine gives files.
const OTHER: u32 = 65_534;

/// Lets a shell run a line in a folder with a few files. Whether it planted what it was to plant; none if it is missing here.
fn plants(shell: &str, line: &str, as_other: bool) -> Option<bool> {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    };
    for name in ["run", "git", "git-x"] {
        put(name, "#!/bin/sh\n/usr/bin/touch planted\nexec /bin/cat\n");
    }
    put("file", "a\nb\n");
    put("big", &"some more text to sort\n".repeat(40_000));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(shell);
    // Without the start files of whoever runs the tests.
    command.args(if shell == "zsh" { &["-f", "-c"][..] } else { &["-c"][..] }).arg(line);
    command.current_dir(folder.path()).env_clear().env("HOME", folder.path());
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("TERM", "dumb");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if as_other {
        chown(folder.path(), Some(OTHER), Some(OTHER)).unwrap();
        command.uid(OTHER).gid(OTHER);
    }
    match command.status() {
        Ok(_) => Some(planted(folder.path())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{shell}: {error}"),
    }
}

/// Whether it is there. What runs beside the shell may take a moment longer than it.
fn planted(folder: &Path) -> bool {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while !folder.join("planted").exists() {
        if std::time::Instant::now() > until {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

fn has(program: &str) -> bool {
    ["/bin", "/usr/bin", "/usr/local/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
}

/// Tries lines of `(shell, program that it needs, line)`.
fn tried(number: &str, lines: &[(&str, &str, &str)]) {
    let allow = [rule(Policy::Allow, ALLOWED)];
    for (shell, needs, line) in lines {
        assert_eq!(decided(line, &allow), Policy::Ask, "escape {number}: {line:?}");
        if !needs.is_empty() && !has(needs) {
            eprintln!("escape {number}: {needs} is missing, so that it was only decided about: {line:?}");
            continue;
        }
        let users = if rustix::process::geteuid().is_root() { &[false, true][..] } else { &[false][..] };
        for as_other in users {
            match plants(shell, line, *as_other) {
                Some(planted) => assert!(planted, "escape {number} is none in {shell}: {line:?}"),
                None => eprintln!("escape {number}: {shell} is missing: {line:?}"),
            }
        }
    }
}

/// What the rules above are for is allowed.
#[test]
fn escape_76_to_92_what_the_rules_are_for_needs_no_question() {
    let allow = [rule(Policy::Allow, ALLOWED)];
    for line in [
        "git status",
        "git log -3 --stat | cat",
        "git push -u origin main",
        "git clean -xn",
        "git diff $X",
        "git --no-pager diff",
        "echo \"a  b\" && ls -l | sort -rn -k2,2 --check --files0-from=x",
        "find . -name '*.rs' -newer file -print0",
        "fdfind -H -t f rs",
        "rg --pretty -n 'fn x' src",
        "sed -n 10,20p file",
        "sed -i 's/a/b/g' file other",
        "sed -E 's|a|b|' file",
        "tar xzf a.tar.gz -C folder",
        "tar --create --file=a.tar folder",
        "man git",
        "less file",
        "split -l 10 file",
    ] {
        assert_eq!(decided(line, &allow), Policy::Allow, "{line:?}");
    }
    // Whoever names it allows it.
    for (pattern, line) in [
        ("find * -exec grep *", "find src -exec grep x {} +"),
        ("xargs grep *", "xargs grep -n x"),
        ("xargs -0 -n1 grep *", "xargs -0 -n1 grep -n x"),
        ("env A=b make *", "env A=b make all"),
        ("bash scripts/test.sh *", "bash scripts/test.sh all"),
        ("sort --compress-program=gzip *", "sort --compress-program=gzip a b"),
        ("git -c core.pager=cat *", "git -c core.pager=cat log"),
        ("* *", "bash -c x"),
    ] {
        assert_eq!(decided(line, &[rule(Policy::Allow, &[pattern])]), Policy::Allow, "{pattern:?} {line:?}");
    }
    // And what follows is looked at again.
    for (pattern, line) in [
        ("xargs find *", "xargs find -exec rm {} +"),
        ("timeout 5 env *", "timeout 5 env rm x"),
        ("xargs -0 *", "xargs -0 rm"),
        ("/usr/bin/find *", "/usr/bin/find . -delete -exec rm {} +"),
    ] {
        assert_eq!(decided(line, &[rule(Policy::Allow, &[pattern])]), Policy::Ask, "{pattern:?} {line:?}");
    }
}

/// What a rule denies is found behind the programs that only run others.
#[test]
fn escape_86_89_what_is_denied_is_denied_behind_another_program() {
    let deny = [rule(Policy::Allow, &["* *"]), rule(Policy::Deny, &["git push *", "rm *"])];
    for line in [
        "env A=b git push",
        "xargs -0 rm -f",
        "timeout 5 nice -n 3 rm x",
        "command rm x",
        "busybox rm x",
        "/usr/bin/env rm x",
        "find . -name x -exec rm {} +",
        "fdfind x --exec rm",
        "env $X",
    ] {
        assert_eq!(decided(line, &deny), Policy::Deny, "{line:?}");
    }
    for line in ["echo rm x", "find rm -name x", "grep rm x", "git status"] {
        assert_eq!(decided(line, &deny), Policy::Allow, "{line:?}");
    }
}

#[test]
fn escape_76_separators_bring_no_command_along() {
    tried(
        "76",
        &[
            ("sh", "", "echo a; touch planted"),
            ("sh", "", "echo a && touch planted"),
            ("sh", "", "! true || touch planted"),
            ("sh", "", "echo a | touch planted"),
            ("sh", "", "echo a\ntouch planted"),
            ("sh", "", "touch planted & echo a"),
            ("sh", "", "(echo a; touch planted)"),
            ("bash", "", "echo a |& touch planted"),
        ],
    );
}

#[test]
fn escape_77_substitutions_bring_no_command_along() {
    tried(
        "77",
        &[
            ("sh", "", "echo $(touch planted)"),
            ("sh", "", "echo `touch planted`"),
            ("sh", "", "echo \"a $(echo `touch planted`)\""),
            ("bash", "", "echo $(( a[$(touch planted)] ))"),
            ("bash", "", "echo $[ a[$(touch planted)] ]"),
            ("sh", "", "echo ${X:-$(touch planted)}"),
            ("bash", "", "[[ -v a[$(touch planted)] ]]"),
        ],
    );
}

#[test]
fn escape_78_redirections_write_and_run_nothing() {
    tried(
        "78",
        &[
            ("bash", "", "cat <(touch planted)"),
            ("bash", "", "echo a > >(touch planted)"),
            ("sh", "", "cat <<E\n$(touch planted)\nE"),
            ("sh", "", "echo a > planted"),
            ("sh", "", "echo a >> planted"),
            ("sh", "", "echo a >| planted"),
            ("bash", "", "echo a &> planted"),
            ("bash", "", "cat <<< $(touch planted)"),
            ("sh", "", "echo a 1<> planted"),
            ("zsh", "zsh", "echo a >! planted"),
        ],
    );
}

#[test]
fn escape_79_expansions_of_variables_bring_no_command_along() {
    tried(
        "79",
        &[
            ("bash", "", "x='$(touch planted)'; echo ${x@P}"),
            ("bash", "", "x='a[$(touch planted)]'; echo ${!x}"),
            ("sh", "", "touch${IFS}planted"),
            ("bash", "", "$'\\x74ouch' planted"),
            ("sh", "", "x='touch planted'; $x"),
            ("bash", "", "printf -v 'a[$(touch planted)]' x"),
            ("bash", "", "test -v 'a[$(touch planted)]'"),
            ("bash", "", "[ -v 'a[$(touch planted)]' ]"),
            ("bash", "", "let 'a[$(touch planted)]=1'"),
            ("bash", "", "read 'a[$(touch planted)]' < file"),
            ("bash", "", "$\"touch\" planted"),
        ],
    );
}

#[test]
fn escape_80_words_that_become_others() {
    tried(
        "80",
        &[
            ("bash", "", "{touch,planted}"),
            ("sh", "", "/usr/bin/touc? planted"),
            ("sh", "", "~/run"),
            ("sh", "", "./ru[n]"),
            ("zsh", "zsh", "=touch planted"),
            ("bash", "", "echo x >{planted,}"),
        ],
    );
}

#[test]
fn escape_81_words_of_the_shell_bring_no_command_along() {
    tried(
        "81",
        &[
            ("sh", "", "alias echo='touch planted'\necho a"),
            ("sh", "", "echo() { touch planted; }; echo a"),
            ("sh", "", "! touch planted"),
            ("sh", "", "eval 'touch planted'"),
            ("sh", "", ". ./run"),
            ("bash", "", "source ./run"),
            ("sh", "", "command touch planted"),
            ("sh", "", "exec touch planted"),
            ("sh", "", "trap 'touch planted' EXIT"),
            ("sh", "", "for x in touch; do $x planted; done"),
            ("sh", "", "case a in a) touch planted;; esac"),
            ("bash", "", "mapfile -C 'touch planted;:' -c 1 < file"),
        ],
    );
}

#[test]
fn escape_82_assignments_are_no_part_of_an_allowed_command() {
    tried(
        "82",
        &[
            ("sh", "", "PATH=$PWD git status"),
            ("sh", "", "PATH=. git status </dev/null"),
            ("sh", "", "export PATH=.; git status </dev/null"),
            ("bash", "", "BASH_ENV=./run bash -c true"),
            ("sh", "", "env PATH=. git status </dev/null"),
            ("sh", "git", "GIT_EXTERNAL_DIFF=./run git diff --ext-diff --no-index file big"),
            ("bash", "", "declare -x PATH=.; git status </dev/null"),
        ],
    );
}

#[test]
fn escape_85_options_of_git_run_no_other_program() {
    tried(
        "85",
        &[
            ("sh", "git", "git -c alias.x='!touch planted' x"),
            ("sh", "git", "git --exec-path=. x </dev/null"),
            ("sh", "git", "A='!touch planted' git --config-env=alias.x=A x"),
            ("sh", "git", "git init -q . && git add file && git grep --open-files-in-pager=./run a"),
            ("sh", "git", "git init -q . && git add file && git grep -O./run a"),
            ("sh", "git", "git init -q . && git config alias.x '!touch planted' && git x"),
            ("sh", "git", "git init -q . && git clone -q --upload-pack='touch planted;:' file://$PWD copy"),
            ("sh", "git", "git ls-remote --upload-p='touch planted;:' ."),
            ("sh", "git", "git -C . -c alias.x='!touch planted' x"),
        ],
    );
    // These need a history.
    let allow = [rule(Policy::Allow, ALLOWED)];
    for line in [
        "git bisect run ./run",
        "git rebase --exec ./run HEAD~3",
        "git rebase -x ./run HEAD~3",
        "git submodule foreach ./run",
    ] {
        assert_eq!(decided(line, &allow), Policy::Ask, "escape 85: {line:?}");
    }
}

#[test]
fn escape_86_options_of_searches_run_no_other_program() {
    tried(
        "86",
        &[
            ("sh", "find", "find . -name file -exec touch planted \\;"),
            ("sh", "find", "find . -name file -execdir touch planted ';'"),
            ("sh", "find", "find . -name file -exec touch planted {} +"),
            ("sh", "fdfind", "fdfind -j1 file -x touch planted"),
            ("sh", "fdfind", "fdfind file --exec-batch touch planted"),
            ("sh", "rg", "rg --pre ./run a file"),
            ("sh", "rg", "rg --pre=./run a file"),
        ],
    );
}

#[test]
fn escape_87_scripts_in_arguments_run_no_other_program() {
    tried(
        "87",
        &[
            ("sh", "sed", "sed '1e touch planted' file"),
            ("sh", "sed", "sed 's/a/touch planted/e' file"),
            ("sh", "sed", "sed -n 's/a/x/w planted' file"),
            ("sh", "sed", "sed -e p -e '1e touch planted' file"),
            ("sh", "sed", "sed --expr='1e touch planted' file"),
            ("sh", "sed", "sed 's/a/b/;1e touch planted' file"),
            ("sh", "sed", "sed p\\;'1e touch planted' file"),
            ("sh", "awk", "awk 'BEGIN { system(\"touch planted\") }'"),
            ("sh", "awk", "awk 'BEGIN { print 1 > \"planted\" }'"),
            ("sh", "tar", "tar -cf a.tar file && tar xf a.tar --to-command='touch planted;cat'"),
            ("sh", "tar", "tar cf a.tar file --checkpoint=1 --checkpoint-action='exec=touch planted'"),
            ("sh", "tar", "tar --to-c='touch planted;cat' -cf a.tar file; tar --to-c='touch planted;cat' -xf a.tar"),
            ("sh", "tar", "tar -cf a.tar -I ./run file"),
            ("sh", "tar", "tar cfI a.tar ./run file"),
            ("sh", "split", "split --filter='touch planted' file"),
        ],
    );
}

#[test]
fn escape_88_abbreviated_options_run_no_other_program() {
    tried(
        "88",
        &[
            ("sh", "sort", "sort -S 32k --compress-program=./run big"),
            ("sh", "sort", "sort -S 32k --compress-prog=./run big"),
            ("sh", "sort", "sort -S 32k --comp ./run big"),
        ],
    );
}

#[test]
fn escape_89_programs_that_only_run_others() {
    tried(
        "89",
        &[
            ("sh", "", "echo planted | xargs touch"),
            ("sh", "", "env -S 'touch planted'"),
            ("sh", "", "env touch planted"),
            ("sh", "busybox", "busybox touch planted"),
            ("sh", "", "bash -c 'touch planted'"),
            ("sh", "", "sh run </dev/null"),
            ("sh", "", "timeout 9 touch planted"),
        ],
    );
    let allow = [rule(Policy::Allow, ALLOWED)];
    // These wait for a terminal, or need pages that are not installed everywhere.
    for line in
        ["man -P 'touch planted' ls", "man --pag='touch planted' ls", "less '+!touch planted' file", "less -kkeys file"]
    {
        assert_eq!(decided(line, &allow), Policy::Ask, "escape 89: {line:?}");
    }
}

/// What people and parsers take for a blank, a comment, or the same line.
#[test]
fn escape_90_characters_that_read_otherwise() {
    tried(
        "90",
        &[
            ("sh", "", "echo a #\ntouch planted"),
            ("sh", "", "echo a # b\\\ntouch planted"),
            ("sh", "", "tou\\\nch planted"),
            ("sh", "", "echo a;\\\ntouch planted"),
            ("sh", "", "echo a # \u{2028} b\ntouch planted"),
        ],
    );
    let allow = [rule(Policy::Allow, ALLOWED)];
    // A shell takes these for a part of a word, and others for blanks or the end of a line.
    for line in
        ["echo a\rtouch planted", "git\u{a0}status", "echo a\0; touch planted", "git status\r", "\u{a0}touch planted"]
    {
        assert_eq!(decided(line, &allow), Policy::Ask, "escape 90: {line:?}");
    }
}

#[test]
fn escape_91_long_lines_are_read_whole_or_not_at_all() {
    let many = "echo a; ".repeat(60) + "touch planted";
    let long = format!("echo {}; touch planted", "a".repeat(30_000));
    tried("91", &[("sh", "", &many), ("sh", "", &long)]);
    let allow = [rule(Policy::Allow, ALLOWED)];
    for line in
        ["echo a; ".repeat(5_000), format!("echo {}", "a".repeat(40_000)), format!("{}echo a", "( ".repeat(500))]
    {
        assert_eq!(decided(&line, &allow), Policy::Ask, "escape 91: {} bytes", line.len());
    }
}

/// What the parser does not understand is asked about, also where a rule denies or no rule fits.
#[test]
fn escape_92_what_cannot_be_parsed_is_asked_about() {
    tried("92", &[("sh", "", "touch planted\necho )"), ("bash", "", "touch planted\nif")]);
    for rules in
        [&[rule(Policy::Allow, ALLOWED)][..], &[rule(Policy::Deny, &["touch *"])], &[rule(Policy::Allow, &["* *"])]]
    {
        for line in ["touch planted; echo 'a", "echo )", "if", "echo a\n<<", "echo \"", "$(", "echo ${", "echo a &&"] {
            assert_eq!(decided(line, rules), Policy::Ask, "escape 92: {line:?}");
        }
    }
}

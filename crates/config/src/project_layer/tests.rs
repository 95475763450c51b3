//! A project makes nothing laxer, whatever is in its files, and what it says is taken from regular files of the project only.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::Duration;

use bolero::check;
use engine::{Overrides, Policy, Recover, SandboxMode, Settings};
use runtime::SessionContext;
use tempfile::TempDir;

use super::super::settings;
use super::super::stricter::{EXEC, PROJECT_KEYS, Rule};
use super::super::{Config, ConfigError, Environment, FlagValues, Subject};
use super::*;
use crate::declared::ExecPolicy;

/// A user's folder with a home, a project, and a workspace in it.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["home", ".config/limulus", "proj/.git", "proj/.limulus", "proj/sub/.limulus", "away"] {
            fs::create_dir_all(world.at(folder)).unwrap();
        }
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// A text without the folder of this world.
    fn shown(&self, text: &str) -> String {
        text.replace(self.folder.path().canonicalize().unwrap().to_str().unwrap(), "")
    }

    fn put(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).unwrap();
    }

    fn load(&self, variables: &[(&str, &str)]) -> Config {
        let user = self.at("").display().to_string();
        let variables = [&[("HOME", user.as_str())], variables].concat();
        let environment = Environment::of(&variables, self.at("proj/sub").to_str().unwrap());
        Config::load(&self.at("home"), &environment, FlagValues::default()).unwrap()
    }

    fn within(&self, config: &Config, workspace: &str) -> Result<Config, ConfigError> {
        config.within(&self.at(workspace)).map(Cow::into_owned)
    }

    /// The error of a run in the workspace, without the folder of this world.
    fn refused(&self) -> String {
        let error = self.within(&self.load(&[]), "proj/sub").unwrap_err();
        self.shown(&format!("{error}; {}", error.hint()))
    }
}

fn settings_of(config: &Config, allow: bool) -> Settings {
    let overrides = Overrides { allow, ..Overrides::default() };
    let session = SessionContext::default();
    config.resolve(Subject { agent: "main", overrides: &overrides, session, date: "" }).unwrap().settings
}

#[test]
fn r24_the_files_of_a_project_limit_runs_in_it_and_the_strictest_counts() {
    let world = World::new();
    world.put("home/config.toml", "[tools.exec]\npolicy = \"allow\"\n[budget.run]\ntokens = 500\ncalls = 7\n");
    world.put("proj/.limulus/config.toml", "[tools.exec]\npolicy = \"ask\"\n[budget.run]\ntokens = 900\ncalls = 5\n");
    world.put("proj/sub/.limulus/config.toml", "tools.exec.policy = \"deny\"\nbudget.run.calls = 6\n");
    let config = world.load(&[]);
    let of = |workspace: &str| {
        let values = world.within(&config, workspace).unwrap().values;
        (values.tools.exec.policy, values.budget.run.tokens.get(), values.budget.run.calls.get())
    };
    assert_eq!(of("proj/sub"), (ExecPolicy::Deny, Some(500), Some(5)));
    assert_eq!(of("proj"), (ExecPolicy::Ask, Some(500), Some(5)));
    assert_eq!(of("away"), (ExecPolicy::Allow, Some(500), Some(7)), "the process works in proj/sub");
    assert_eq!(settings_of(&config, true).exec, Policy::Deny, "`--yes` approves what is asked, not what is denied");
    let typed = world.load(&[("LIMULUS_TOOLS__EXEC__POLICY", "allow"), ("LIMULUS_BUDGET__RUN__CALLS", "off")]);
    let values = world.within(&typed, "proj/sub").unwrap().values;
    assert_eq!(
        (values.tools.exec.policy, values.budget.run.calls.get()),
        (ExecPolicy::Allow, None),
        "a variable is stronger"
    );
}

#[test]
fn r24_a_policy_that_follows_that_of_commands_stays_as_strict_as_theirs() {
    let world = World::new();
    let check = |home: &str, project: &str, variables: &[(&str, &str)], expected: Policy| {
        world.put("home/config.toml", home);
        world.put("proj/.limulus/config.toml", project);
        assert_eq!(settings_of(&world.load(variables), false).outside, expected, "{home} {project} {variables:?}");
    };
    let (deny, ask) = ("tools.exec.policy = \"deny\"", "tools.outside_workspace.policy = \"ask\"");
    check(deny, ask, &[], Policy::Deny);
    check("", ask, &[("LIMULUS_TOOLS__EXEC__POLICY", "deny")], Policy::Deny);
    check("", deny, &[], Policy::Deny);
    check("tools.exec.policy = \"allow\"", ask, &[], Policy::Ask);
    check("", "tools.outside_workspace.policy = \"deny\"", &[], Policy::Deny);
}

#[test]
fn r24_what_a_project_may_not_set_is_refused_with_its_line() {
    let world = World::new();
    let file = "proj/.limulus/config.toml";
    for setting in settings::all() {
        let path = settings::example(setting.path);
        let is_table = |part: &&str| part.parse::<usize>().is_ok();
        if path.iter().any(|part| is_table(&part.as_str())) {
            continue;
        }
        let key = shown_path(&path);
        world.put(file, &format!("\n{key} = {}\n", setting.value.text()));
        let found = world.within(&world.load(&[]), "proj/sub");
        if rule(&path).is_some() {
            found.unwrap();
            continue;
        }
        let error = found.unwrap_err().to_string();
        let column = key.rfind('.').map_or(1, |dot| dot + 2);
        assert_eq!(error, format!("{}:2:{column}: a project may not set `{key}`", world.at(file).display()));
    }
    let check = |text: &str, expected: &str| {
        world.put(file, text);
        let found = world.refused();
        assert!(found.contains(expected), "{text}: {found}");
    };
    check(
        "[[providers.a.profiles]]\nkey = \"cmd:rm -rf /\"",
        "config.toml:2:1: a project may not set `providers.a.profiles.0.key`",
    );
    check("[agents.main]\nmodel = \"evil/m\"", "`limulus config set agents.main.model VALUE` sets it for you alone");
    check(
        "tools.exec.policy = \"dney\"",
        "config.toml:1:12: `tools.exec.policy` cannot be \"dney\"; it takes one of allow, sandbox, ask, deny",
    );
    check(
        "tools.exec.polcy = \"deny\"",
        "config.toml:1:12: unknown key `tools.exec.polcy`; the nearest known key is `tools.exec.policy`",
    );
    check("tools.exec.policy = \n", "config.toml:1:21 is not valid TOML");
    check(&format!("# {}\n", "x".repeat(16 << 10)), "cannot be used: it has more than 16384 bytes");
}

#[test]
fn r24_the_files_of_a_project_are_bounded_together_and_only_the_first_mistakes_get_a_suggestion() {
    let world = World::new();
    let keys: Vec<String> = (0..800).map(|number| format!("runs.stal{number}=1")).collect();
    world.put("proj/.limulus/config.toml", &keys.join("\n"));
    let errors = ProjectLayer::of(&world.load(&[]), &world.at("proj/sub")).wrong;
    let near = |error: &&ConfigError| matches!(error, ConfigError::UnknownKey { nearest: Some(_), .. });
    assert!(errors.len() > 500 && errors[..20].iter().all(|error| near(&error)), "{}", errors.len());
    assert_eq!(errors.iter().filter(near).count(), 20);
    // Many short files are as much work as a long one.
    world.put("proj/.limulus/config.toml", &format!("#{}\n", "x".repeat(12 << 10)));
    world.put("proj/sub/.limulus/config.toml", &format!("#{}\n", "x".repeat(12 << 10)));
    let refused = world.refused();
    let expected =
        "/proj/.limulus/config.toml cannot be used: the files of this project have more than 16384 bytes together";
    assert!(refused.starts_with(expected), "{refused}");
    // So are many empty ones.
    world.put("proj/.limulus/config.toml", "");
    world.put("proj/sub/.limulus/config.toml", "");
    let deep = format!("proj/{}", ["a"; 40].join("/"));
    for folder in Path::new(&deep).ancestors().take(40) {
        fs::create_dir_all(world.at(folder.to_str().unwrap()).join(".limulus")).unwrap();
        fs::write(world.at(folder.to_str().unwrap()).join(".limulus/config.toml"), "").unwrap();
    }
    let error = world.within(&world.load(&[]), &deep).unwrap_err().to_string();
    assert!(error.ends_with("cannot be used: more than 32 folders of this project have one"), "{error}");
}

#[test]
fn r24_a_file_of_a_project_is_a_regular_file_of_it_and_nothing_is_waited_for() {
    let world = World::new();
    let (file, folder) = (world.at("proj/.limulus/config.toml"), world.at("proj/.limulus"));
    let check = |expected: &str| {
        let found = world.refused();
        assert!(found.starts_with(expected) && found.contains("; make it a regular file of the project"), "{found}");
        let review = Config::review(&world.at("home"), &world.load(&[]).environment, FlagValues::default());
        assert!(
            review.errors.iter().any(|error| world.shown(&error.what).starts_with(expected)),
            "{expected} {review:?}"
        );
        if file.is_dir() { fs::remove_dir(&file) } else { fs::remove_file(&file) }.unwrap();
    };
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    check("/proj/.limulus/config.toml cannot be used: it is not a regular file");
    fs::create_dir(&file).unwrap();
    check("/proj/.limulus/config.toml cannot be used: it is not a regular file");
    symlink("/dev/zero", &file).unwrap();
    check("/proj/.limulus/config.toml cannot be used: it is a link that leads out of /proj");
    world.put("away/config.toml", "tools.exec.policy = \"deny\"");
    symlink(world.at("away/config.toml"), &file).unwrap();
    check("/proj/.limulus/config.toml cannot be used: it is a link that leads out of /proj");
    symlink("nothing", &file).unwrap();
    check("/proj/.limulus/config.toml cannot be used: it is a link to a file that is not there");
    // So is its folder: what it will forbid is not known.
    fs::remove_dir(&folder).unwrap();
    symlink("nowhere", &folder).unwrap();
    let found = world.refused();
    assert!(found.starts_with("/proj/.limulus/config.toml cannot be used: it is a link to a file that"), "{found}");
    fs::remove_file(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    if !rustix::process::geteuid().is_root() {
        world.put("proj/.limulus/config.toml", "");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        check("/proj/.limulus/config.toml cannot be used: Permission denied (os error 13)");
    }
    let policy = || world.within(&world.load(&[]), "proj/sub").unwrap().values.tools.exec.policy;
    fs::remove_dir(&folder).unwrap();
    symlink(world.at("away"), &folder).unwrap();
    let found = world.refused();
    assert!(found.contains("cannot be used: it is a link that leads out of /proj"), "{found}");
    fs::remove_file(&folder).unwrap();
    fs::create_dir(world.at("proj/shared")).unwrap();
    world.put("proj/shared/config.toml", "tools.exec.policy = \"deny\"");
    symlink("shared", &folder).unwrap();
    assert_eq!(policy(), ExecPolicy::Deny, "a link within the project");
    fs::remove_file(&folder).unwrap();
    fs::write(&folder, "a file").unwrap();
    assert_eq!(policy(), ExecPolicy::Sandbox, "there is no file");
}

#[test]
fn r24_the_home_in_the_folder_of_a_project_is_the_users() {
    let world = World::new();
    world.put("proj/.limulus/config.toml", "[agents.main]\nmodel = \"ollama/m\"\n[tools.exec]\npolicy = \"allow\"\n");
    symlink(world.at("proj/.limulus"), world.at("linked")).unwrap();
    for home in ["proj/.limulus", "linked"] {
        let user = world.at("").display().to_string();
        let environment = Environment::of(&[("HOME", &user)], world.at("proj/sub").to_str().unwrap());
        let config = Config::load(&world.at(home), &environment, FlagValues::default()).unwrap();
        let settings = settings_of(&config, false);
        assert_eq!((settings.exec, settings.candidates[0].model.as_str()), (Policy::Allow, "m"), "{home}");
    }
    let error = world.refused();
    assert!(error.contains("proj/.limulus/config.toml:2:1: a project may not set `agents.main.model`"), "{error}");
}

#[test]
fn r24_the_users_own_file_counts_for_every_home_below_that_of_the_home() {
    let world = World::new();
    world.put(".config/limulus/config.toml", "[runs]\ndeadline_s = 60\nstall_s = 5\n[tools]\ncall_s = 9\n");
    world.put("home/config.toml", "[runs]\ndeadline_s = 7\n");
    let effective = |variables: &[(&str, &str)]| {
        let environment = world.load(variables).environment;
        let effective = Config::effective(&world.at("home"), &environment, FlagValues::default()).unwrap();
        let shown = |key: &str| {
            let setting = effective.settings.iter().find(|setting| setting.key == key).unwrap();
            (setting.value.to_string(), setting.layer, world.shown(setting.at.as_deref().unwrap_or("")))
        };
        ["runs.deadline_s", "runs.stall_s", "tools.timeout_s", "runs.poison_after"].map(shown)
    };
    let row = |value: &str, layer: &'static str, at: &str| (value.to_owned(), layer, at.to_owned());
    let own = "/.config/limulus/config.toml";
    let defaults = row("3", "defaults", "");
    assert_eq!(
        effective(&[]),
        [
            row("7", "file", "/home/config.toml:2"),
            row("5", "file", &format!("{own}:3")),
            row("9", "file", &format!("{own}:5")),
            defaults.clone()
        ]
    );
    world.put("proj/.limulus/config.toml", "[runs]\ndeadline_s = 6\nstall_s = 6\n");
    let elsewhere = world.at("away").display().to_string();
    fs::create_dir(world.at("away/limulus")).unwrap();
    world.put("away/limulus/config.toml", "tools.timeout_s = 8");
    assert_eq!(
        effective(&[("XDG_CONFIG_HOME", &elsewhere)]),
        [
            row("6", "project", "/proj/.limulus/config.toml:2"),
            row("6", "project", "/proj/.limulus/config.toml:3"),
            row("8", "file", "/away/limulus/config.toml:1"),
            defaults
        ]
    );
    // An old name in the weaker file is no reason to leave the new name of the stronger one out, nor the other way round.
    world.put("home/config.toml", "[tools]\ncall_s = 4\n");
    world.put(".config/limulus/config.toml", "[tools]\ntimeout_s = 9\n");
    assert_eq!(effective(&[])[2], row("4", "file", "/home/config.toml:2"));
    assert_eq!(world.load(&[]).protected_files().len(), 2);
}

/// Where the settings with a project are laxer than those without it.
fn laxer(with: &Settings, without: &Settings) -> Vec<&'static str> {
    let rank =
        |policy: Policy| ["Allow", "Ask", "Deny"].iter().position(|known| *known == format!("{policy:?}")).unwrap();
    let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let or_none = |limit: u32| if limit == 0 { u64::MAX } else { u64::from(limit) };
    let (limits, before) = (&with.limits, &without.limits);
    let mut checks = vec![
        ("exec", rank(with.exec) >= rank(without.exec)),
        ("outside", rank(with.outside) >= rank(without.outside)),
        ("executed_files", rank(with.executed_files) >= rank(without.executed_files)),
        ("web_fetch", rank(with.web_fetch) >= rank(without.web_fetch)),
        ("deadline", most(limits.deadline_ms) <= most(before.deadline_ms)),
        ("stall", most(limits.stall_ms) <= most(before.stall_ms)),
        ("tool_timeout", limits.tool_timeout_ms <= before.tool_timeout_ms),
        ("loop_stop", or_none(limits.loop_stop_after) <= or_none(before.loop_stop_after)),
        ("poison", or_none(limits.poison_after) <= or_none(before.poison_after)),
        ("sandbox", reach(with) <= reach(without)),
        ("asks", without.sandbox.allows || without.exec == Policy::Allow || !with.sandbox.allows),
        ("recover", with.recover == without.recover || with.recover == Recover::Ask),
    ];
    for (now, before) in [(with.budget.run, without.budget.run), (with.budget.session, without.budget.session)] {
        checks.extend([
            ("tokens", most(now.tokens) <= most(before.tokens)),
            ("cost", most(now.cost) <= most(before.cost)),
            ("calls", most(now.calls) <= most(before.calls)),
            ("wall", most(now.wall_ms) <= most(before.wall_ms)),
            ("bytes", most(now.bytes) <= most(before.bytes)),
        ]);
    }
    // Everything else is as it was.
    let mut rest = with.clone();
    (rest.exec, rest.outside, rest.executed_files, rest.web_fetch) =
        (without.exec, without.outside, without.executed_files, without.web_fetch);
    rest.sandbox = without.sandbox.clone();
    (rest.limits, rest.recover, rest.tools) = (without.limits, without.recover, without.tools.clone());
    (rest.budget.run, rest.budget.session) = (without.budget.run, without.budget.session);
    checks.push(("the rest", rest == *without));
    let other = engine::Limits {
        deadline_ms: before.deadline_ms,
        stall_ms: before.stall_ms,
        tool_timeout_ms: before.tool_timeout_ms,
        loop_stop_after: before.loop_stop_after,
        poison_after: before.poison_after,
        ..*limits
    };
    checks.push(("the other limits", other == *before));
    checks.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what).collect()
}

/// How much its commands reach: where they write, and the network.
fn reach(settings: &Settings) -> (u8, bool) {
    let mode = match settings.sandbox.mode {
        SandboxMode::ReadOnly => 0,
        SandboxMode::Workspace => 1,
        SandboxMode::Off => 2,
    };
    (mode, settings.sandbox.network)
}

/// A value of a key, as this number says.
fn value(key: &[&str], rule: Rule, by: u8) -> &'static str {
    let of = |values: &[&'static str]| values[usize::from(by) % values.len()];
    match rule {
        Rule::Lower => of(&["1", "2", "3", "50", "3000", "\"off\""]),
        Rule::Policy { unset: None } if key == EXEC => of(&["\"allow\"", "\"sandbox\"", "\"ask\"", "\"deny\""]),
        Rule::Policy { .. } => of(&["\"allow\"", "\"ask\"", "\"deny\""]),
        Rule::Earlier(words) if words.contains(&"copy") => of(&["\"copy\"", "\"worktree\"", "\"workspace\""]),
        Rule::Earlier(words) if words.contains(&"workspace") => of(&["\"read_only\"", "\"workspace\"", "\"off\""]),
        Rule::Earlier(words) if words.contains(&"off") => of(&["\"off\"", "\"on\""]),
        Rule::Earlier(_) => of(&["\"ask\"", "\"auto\""]),
        Rule::False => of(&["true", "false"]),
        Rule::Fewer => of(&["[]", "[\"A\"]", "[\"A\", \"B_C\"]", "[\"B_*\"]", "[\"B*\"]", "[\"B_C*\", \"D\"]"]),
    }
}

/// A file that sets the keys whose number in `picks` is not 0.
fn file(picks: &[u8]) -> String {
    let timeout = |key: &[&str], by: u8| key == ["tools", "timeout_s"] && value(key, Rule::Lower, by).starts_with('"');
    let rows = PROJECT_KEYS.iter().zip(picks).filter(|((key, _), by)| **by != 0 && !timeout(key, **by));
    rows.map(|((key, rule), by)| format!("{} = {}", key.join("."), value(key, *rule, *by)))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn r24_no_file_of_a_project_makes_anything_laxer() {
    const KEYS: usize = PROJECT_KEYS.len();
    const TIME: Duration = Duration::from_secs(2);
    let world = World::new();
    let covers = |known: &[String], name: &String| {
        known.iter().any(|known| known == name || known.strip_suffix('*').is_some_and(|start| name.starts_with(start)))
    };
    check!().with_test_time(TIME).with_type::<([[u8; KEYS]; 4], bool, u8, u8)>().for_each(
        |([home, own, upper, lower], allow, exec, outside)| {
            world.put("home/config.toml", &file(home));
            world.put(".config/limulus/config.toml", &file(own));
            let policy = |by: u8| ["", "allow", "ask", "deny"][usize::from(by) % 4];
            let names = [
                ("LIMULUS_TOOLS__EXEC__POLICY", policy(*exec)),
                ("LIMULUS_TOOLS__OUTSIDE_WORKSPACE__POLICY", policy(*outside)),
            ];
            let variables: Vec<_> = names.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let config = world.load(&variables);
            for path in ["proj/.limulus/config.toml", "proj/sub/.limulus/config.toml"] {
                let _ = fs::remove_file(world.at(path));
            }
            let without = settings_of(&config, *allow);
            world.put("proj/.limulus/config.toml", &file(upper));
            let with_upper = settings_of(&config, *allow);
            world.put("proj/sub/.limulus/config.toml", &file(lower));
            let with = settings_of(&config, *allow);
            assert_eq!(laxer(&with, &with_upper), [""; 0], "{}\n--\n{}\n--\n{}", file(home), file(upper), file(lower));
            assert_eq!(laxer(&with, &without), [""; 0], "{}\n--\n{}\n--\n{}", file(home), file(upper), file(lower));
            let within = world.within(&config, "proj/sub").unwrap();
            assert!(within.passed_env().iter().all(|name| covers(&config.passed_env(), name)));
            assert!(within.values.tools.web_fetch.allow_private <= config.values.tools.web_fetch.allow_private);
        },
    );
}

/// R24: what a project allows counts while the user trusts the content of its file, and no longer.
#[test]
fn r24_a_file_that_the_user_trusts_may_allow_until_it_changes() {
    let world = World::new();
    world.put("home/config.toml", "[tools.exec]\npolicy = \"ask\"\n[runs]\nstall_s = 5\n");
    let text = "runs.stall_s = 50\ntools.exec.policy = \"allow\"\nsandbox.mode = \"off\"\n[[policy]]\ndecision = \"ask\"\n\
                command = \"ls\"\n[[policy]]\ndecision = \"allow\"\ncommand = \"make *\"\n";
    let file = "proj/.limulus/config.toml";
    world.put(file, text);
    let config = world.load(&[]);
    let found = || {
        let settings = settings_of(&config, false);
        let rules = settings.policy.iter().map(|rule| (rule.decision, rule.restricts)).collect::<Vec<_>>();
        (settings.exec, settings.limits.stall_ms, settings.sandbox.mode, rules)
    };
    let restricted = (Policy::Ask, Some(5_000), SandboxMode::Workspace, vec![(Policy::Ask, true)]);
    let (ask, allow) = ((Policy::Ask, false), (Policy::Allow, false));
    let trusted = (Policy::Allow, Some(50_000), SandboxMode::Workspace, vec![ask, allow]);
    let files = || config.project_trust(&world.at("proj/sub")).unwrap();
    assert_eq!(found(), restricted, "nobody was asked");
    let shown = files();
    let allows: Vec<String> =
        shown[0].allows.iter().map(|allowance| format!("{}: {}", allowance.line, allowance.what)).collect();
    assert_eq!(
        allows,
        [
            "1: runs.stall_s = 50",
            "2: tools.exec.policy = \"allow\"",
            "2: tools.outside_workspace.policy = \"allow\"",
            "2: tools.web_fetch.policy = \"allow\"",
            "8: [[policy]] command = \"make *\", decision = \"allow\""
        ]
    );
    assert!(shown[0].is_open() && shown[0].trust == FileTrust::New);
    config.answer_trust(&shown, true).unwrap();
    assert_eq!((found(), files()[0].trust), (trusted.clone(), FileTrust::Trusted));
    world.put(file, &format!("{text}# more\n"));
    assert_eq!((found(), files()[0].trust), (restricted.clone(), FileTrust::Changed), "the content is another one");
    // An answer is about what was shown, not about what stands there by now.
    config.answer_trust(&shown, true).unwrap();
    assert_eq!(found(), restricted);
    world.put(file, text);
    assert_eq!(found(), trusted, "it is what was trusted");
    config.answer_trust(&files(), false).unwrap();
    assert_eq!((found(), files()[0].trust, files()[0].is_open()), (restricted.clone(), FileTrust::Refused, false));
    // A broken file with the answers trusts nothing, and is not written over.
    config.answer_trust(&files(), true).unwrap();
    world.put("home/trust.json", "{");
    assert_eq!(found(), restricted);
    let error = config.answer_trust(&files(), true).unwrap_err().to_string();
    assert!(error.contains("trust.json cannot be used"), "{error}");
    assert_eq!(fs::read_to_string(world.at("home/trust.json")).unwrap(), "{");
}

/// R24: what is typed for a command is stronger than a project, and no project sets what is the user's alone.
#[test]
fn r24_trust_makes_no_file_stronger_than_what_was_typed() {
    let world = World::new();
    let files = [("proj/.limulus/config.toml", "60"), ("proj/sub/.limulus/config.toml", "70")];
    for (file, stall_s) in files {
        world.put(file, &format!("runs.stall_s = {stall_s}\n"));
    }
    world.put("home/config.toml", "[runs]\nstall_s = 5\n");
    let config = world.load(&[]);
    let shown = config.project_trust(&world.at("proj/sub")).unwrap();
    config.answer_trust(&shown, true).unwrap();
    let stall_ms = |config: &Config| settings_of(config, false).limits.stall_ms;
    assert_eq!(stall_ms(&config), Some(70_000), "the nearest file counts");
    assert_eq!(stall_ms(&world.load(&[("LIMULUS_RUNS__STALL_S", "9")])), Some(9_000));
    config.answer_trust(&shown[..1], false).unwrap();
    assert_eq!(stall_ms(&config), Some(60_000), "each file is trusted by itself");
    world.put("proj/.limulus/config.toml", "agents.main.model = \"evil/m\"\n");
    let error = config.project_trust(&world.at("proj/sub")).unwrap_err().to_string();
    assert!(error.contains("a project may not set `agents.main.model`"), "{error}");
}

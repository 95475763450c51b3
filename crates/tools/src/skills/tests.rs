//! Skills that are found, left out, read, listed and bounded.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::Needs;
use crate::limits::{SKILL_LIST_BYTES, SKILLS_MOST};

/// A user's folder with a project in it.
struct Folders {
    user: TempDir,
}

impl Folders {
    fn new() -> Self {
        let user = tempfile::tempdir().unwrap();
        fs::create_dir_all(user.path().join("proj/.git")).unwrap();
        fs::create_dir_all(user.path().join("proj/sub")).unwrap();
        Self { user }
    }

    /// Writes a `SKILL.md` in this folder of the user.
    fn skill(&self, folder: &str, text: &str) -> PathBuf {
        let folder = self.user.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(SKILL_FILE), text).unwrap();
        folder
    }

    fn find(&self, needs: &SkillNeeds, only: Option<&[String]>) -> Skills {
        let workspace = self.user.path().join("proj/sub");
        let protected = Protected::default();
        let places = SkillPlaces { workspace: &workspace, user: Some(self.user.path()), protected: &protected };
        Skills::find(places, needs, only)
    }
}

fn matter(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n# {name}\nDo it.\n")
}

fn needs() -> SkillNeeds {
    SkillNeeds::of("linux", Some("/bin:/usr/bin".as_ref()), ["TOKEN".to_owned()].into_iter())
}

fn names(skills: &Skills) -> Vec<&str> {
    skills.usable.iter().map(|skill| skill.name.as_str()).collect()
}

/// R41: the nearest skill of a name counts, that of the project before that of the user, and the others are named.
#[test]
fn r41_the_strongest_skill_of_a_name_counts() {
    let place = Folders::new();
    assert!(place.find(&needs(), None).usable.is_empty());
    assert!(!has_skills(&place.user.path().join("proj/sub"), Some(place.user.path())));
    place.skill(".claude/skills/both", &matter("both", "of the user"));
    place.skill(".agents/skills/mine", &matter("mine", "mine alone"));
    place.skill("proj/.agents/skills/both", &matter("both", "of the project"));
    place.skill("proj/sub/.claude/skills/both", &matter("both", "of the folder"));
    fs::create_dir_all(place.user.path().join("proj/.limulus/skills/empty")).unwrap();
    let skills = place.find(&needs(), None);
    assert_eq!(names(&skills), ["both", "mine"], "{skills:?}");
    let both = skills.get("both").unwrap();
    assert_eq!((both.description.as_str(), both.origin), ("of the folder", SkillOrigin::Workspace));
    assert_eq!(skills.get("mine").unwrap().origin, SkillOrigin::User);
    assert_eq!(skills.left_out.len(), 2, "{skills:?}");
    assert!(skills.left_out.iter().all(|left| left.why.contains("proj/sub/.claude/skills/both comes before it")));
    fs::create_dir_all(place.user.path().join("proj/.claude")).unwrap();
    std::os::unix::fs::symlink("../.agents/skills", place.user.path().join("proj/.claude/skills")).unwrap();
    assert_eq!(place.find(&needs(), None).left_out.len(), 2, "a link to a folder that counts is no second skill");
    // R24: a project cannot pass its skill off as the user's by another name of its folder.
    let is_users = |name: &str| is_users_skill(name, &place.user.path().join("proj/sub"), Some(place.user.path()));
    assert!(is_users("mine") && !is_users("both"));
    place.skill("proj/.agents/skills/other", &matter("mine", "of the project"));
    let skills = place.find(&needs(), None);
    assert_eq!((skills.get("mine").unwrap().origin, is_users("mine")), (SkillOrigin::User, true));
    let other = skills.left_out.iter().find(|left| left.folder.ends_with("other")).unwrap();
    assert!(other.is_fault && other.why.contains("has the name of its folder"), "{other:?}");
    let only = place.find(&needs(), Some(&["mine".to_owned()]));
    assert_eq!(names(&only), ["mine"]);
    assert!(has_skills(&place.user.path().join("proj/sub"), None));
    assert!(!has_skills(tempfile::tempdir().unwrap().path(), None), "a folder without a skill has none");
}

/// R41: what keeps a skill from being used is named, and the others are there.
#[test]
fn r41_r67_a_skill_that_cannot_be_used_is_left_out_and_named() {
    let place = Folders::new();
    place.skill("proj/.agents/skills/good", &matter("good", "\"with: a colon\""));
    let head = |rest: &str| format!("---\n{rest}\n---\nbody");
    for (folder, text, why) in [
        ("none", "no front matter".to_owned(), "does not begin with `---`"),
        ("unended", "---\nname: unended\ndescription: x".to_owned(), "does not begin with `---`"),
        ("colon", head("name: colon\ndescription: use when: asked"), "is broken"),
        ("list", head("- a\n- b"), "no lines `name"),
        ("noname", head("description: x"), "it has no `name`"),
        ("nodesc", head("name: nodesc"), "it has no `description`"),
        ("empty", head("name: empty\ndescription: ''"), "its description is empty"),
        ("upper", head("name: Upper Case\ndescription: x"), "is not 1 to 64 lower-case letters"),
        ("path", head("name: ../path\ndescription: x"), "is not 1 to 64 lower-case letters"),
        ("bomb", head("a: &a [x, x]\nb: &b [*a, *a]\nname: bomb\ndescription: x"), "aliases"),
        (
            "deep",
            head(&format!("name: deep\ndescription: x\na: {}{}", "[".repeat(40), "]".repeat(40))),
            "in each other",
        ),
        ("twice", head("name: twice\nname: twice\ndescription: x"), "twice"),
        (
            "mac",
            head("name: mac\ndescription: x\nmetadata:\n  openclaw:\n    os: [darwin, win32]"),
            "it is for darwin, win32",
        ),
        (
            "prog",
            head(
                "name: prog\ndescription: x\nmetadata: {\"openclaw\":{\"requires\":{\"bins\":[\"sh\",\"no-such-program\"]}}}",
            ),
            "`no-such-program`",
        ),
        (
            "any",
            head("name: any\ndescription: x\nmetadata:\n  limulus:\n    requires:\n      anyBins: [no-a, no-b]"),
            "no-a, no-b",
        ),
        ("env", head("name: env\ndescription: x\nmetadata:\n  limulus:\n    requires:\n      env: NO_SUCH"), "NO_SUCH"),
    ] {
        place.skill(&format!("proj/.agents/skills/{folder}"), &text);
        let skills = place.find(&needs(), None);
        let left =
            skills.left_out.iter().find(|left| left.folder.ends_with(folder)).unwrap_or_else(|| panic!("{folder}"));
        assert!(left.why.contains(why), "{folder}: {}", left.why);
        // What it needs and is not there is no fault of the skill.
        assert_eq!(left.is_fault, !["mac", "prog", "any", "env"].contains(&folder), "{folder}");
        assert_eq!(names(&skills), ["good"], "{folder}");
    }
    let latin = place.skill("proj/.agents/skills/latin", "");
    fs::write(latin.join(SKILL_FILE), b"---\nname: latin\ndescription: caf\xe9\n---\n").unwrap();
    let skills = place.find(&needs(), None);
    assert!(skills.left_out.iter().any(|left| left.why == "SKILL.md is not text in UTF-8"), "{skills:?}");
    let fits = "name: fits\ndescription: x\nmetadata:\n  limulus:\n    os: [linux]\n    requires:\n      bins: [sh]\n      env: [TOKEN]";
    place.skill("proj/.agents/skills/fits", &head(fits));
    assert_eq!(names(&place.find(&needs(), None)), ["fits", "good"]);
}

/// R41, R61: no link of a project leads out of it, no pipe is waited for, no large or binary file is read whole.
#[test]
fn r41_r61_a_skill_is_read_within_its_folder() {
    let place = Folders::new();
    let secret = place.skill("elsewhere", &matter("elsewhere", "x"));
    fs::write(secret.join("secret.txt"), "s3cret").unwrap();
    let skills = place.user.path().join("proj/.agents/skills");
    let good = place.skill("proj/.agents/skills/good", &matter("good", "x"));
    symlink(&secret, skills.join("linked")).unwrap();
    fs::create_dir(skills.join("inner")).unwrap();
    symlink(secret.join(SKILL_FILE), skills.join("inner").join(SKILL_FILE)).unwrap();
    fs::create_dir(skills.join("pipe")).unwrap();
    assert!(Command::new("mkfifo").arg(skills.join("pipe").join(SKILL_FILE)).status().unwrap().success());
    fs::create_dir(skills.join("folder")).unwrap();
    fs::create_dir(skills.join("folder").join(SKILL_FILE)).unwrap();
    let large = place.skill("proj/.agents/skills/large", &matter("large", "x"));
    let file = fs::OpenOptions::new().write(true).open(large.join(SKILL_FILE)).unwrap();
    file.set_len(1 << 40).unwrap();
    let found = place.find(&needs(), None);
    assert_eq!(names(&found), ["good", "large"], "{found:?}");
    let why = |name: &str| found.left_out.iter().find(|left| left.folder.ends_with(name)).unwrap().why.clone();
    assert!(why("linked").contains("leads out of"), "{}", why("linked"));
    assert!(why("inner").contains("leads out of it"), "{}", why("inner"));
    assert!(why("pipe").contains("neither a file nor a folder"), "{}", why("pipe"));
    assert!(why("folder").contains("folder"), "{}", why("folder"));
    let cut = found.get("large").unwrap();
    assert!(cut.problems[0].ends_with("the model receives 48 KB of it"), "{:?}", cut.problems);
    symlink(secret.join("secret.txt"), good.join("link.txt")).unwrap();
    fs::create_dir(good.join("scripts")).unwrap();
    fs::write(good.join("scripts/run.sh"), "echo hi").unwrap();
    fs::write(good.join("raw.bin"), b"\xff\xfe\0\0").unwrap();
    let (good, none) = (found.get("good").unwrap(), Protected::default());
    assert_eq!(good.files(), ["link.txt", "raw.bin", "scripts/run.sh"]);
    assert_eq!(good.file("scripts/run.sh", &none).unwrap().text, "echo hi");
    for path in ["link.txt", "../../../../elsewhere/secret.txt", "/etc/passwd", "raw.bin", "gone", "scripts"] {
        assert!(good.file(path, &none).is_err(), "{path}");
    }
    assert_eq!(good.instructions(&none).unwrap(), SkillText { text: "# good\nDo it.".into(), left_out: 0 });
    // The user's own may be links.
    fs::create_dir_all(place.user.path().join(".claude/skills")).unwrap();
    symlink(&secret, place.user.path().join(".claude/skills/elsewhere")).unwrap();
    assert_eq!(names(&place.find(&needs(), None)), ["elsewhere", "good", "large"]);
}

/// R41: the list of a hundred skills takes no more than its part of the window, and names as many as it can.
#[test]
fn r41_the_list_of_skills_is_bounded() {
    let skill = |at: usize, description: &str| Skill {
        name: format!("skill-{at:04}"),
        description: description.to_owned(),
        origin: SkillOrigin::User,
        folder: PathBuf::new(),
        allowed_tools: vec![],
        problems: vec![],
    };
    assert_eq!(skill_list(&[skill(1, "short")]), "- skill-0001: short\n");
    let of = |count: usize, chars: usize| {
        skill_list(&(0..count).map(|at| skill(at, &"é".repeat(chars))).collect::<Vec<_>>())
    };
    for (count, chars) in [(1, 1024), (20, 1024), (100, 1024), (400, 1024), (5000, 1024)] {
        let list = of(count, chars);
        assert!(list.len() <= SKILL_LIST_BYTES + 64, "{count}: {}", list.len());
        assert!(list.contains("skill-0000"));
        assert_eq!(list.contains("more: the tool"), count == 5000, "{count}");
        assert_eq!(list.lines().count() == count, count < 5000, "{count}");
    }
    assert!(of(100, 1024).contains('…') || !of(100, 1024).contains('é'));
}

#[test]
fn r41_the_tools_that_a_skill_names_are_read_in_each_form() {
    for (text, tools) in [
        ("Bash(git add *) Read,Write", &["Bash(git add *)", "Read", "Write"][..]),
        ("[Read, 'Bash(ls)']", &["Read", "Bash(ls)"]),
        ("", &[]),
    ] {
        let matter = FrontMatter::parse(&format!("name: x\nallowed-tools: {text}")).unwrap();
        assert_eq!(matter.allowed_tools(), tools, "{text}");
    }
    for (text, parts) in [
        ("---\na: b\n---\nrest", Some(("a: b\n", "rest"))),
        ("---\r\na: b\r\n---\r\nrest", Some(("a: b\r\n", "rest"))),
        ("---\n---", Some(("", ""))),
        ("----\na\n---\n", None),
        ("a\n---\n", None),
    ] {
        assert_eq!(front_matter::split(text), parts, "{text}");
    }
}

/// R41, R61: a project with a flood of skills, or a skill with a flood of files, costs no more than its bound, and no name forges a line.
#[test]
fn r41_r61_a_flood_of_skills_and_of_files_is_bounded() {
    let place = Folders::new();
    for at in 0..SKILLS_MOST {
        place.skill(&format!("proj/.agents/skills/s{at}"), &matter(&format!("s{at}"), "x"));
    }
    let last = place.skill("proj/sub/.claude/skills/last", &matter("last", "x"));
    let found = place.find(&needs(), None);
    assert_eq!((found.usable.len(), found.left_out.len()), (SKILLS_MOST, 1));
    assert!(found.left_out[0].why.contains("more than 512 skills"), "{:?}", found.left_out);
    for folder in ["a", "a/b", "a/b/c"] {
        fs::create_dir_all(last.join(folder)).unwrap();
        for at in 0..SKILL_FILES {
            fs::write(last.join(folder).join(format!("{at}\nforged")), "").unwrap();
        }
    }
    let files = found.get("last").unwrap().files();
    assert_eq!(files.len(), SKILL_FILES);
    assert!(files.iter().all(|name| name.ends_with("\u{fffd}forged")), "{files:?}");
}

/// R67: what is hidden from commands is hidden from the list of skills, and a run without the tool has none.
#[test]
fn r67_a_hidden_skill_is_not_read() {
    let place = Folders::new();
    let folder = place.skill("proj/.agents/skills/secret", &matter("secret", "x"));
    let workspace = place.user.path().join("proj");
    let protected = Protected::default();
    let places = SkillPlaces { workspace: &workspace, user: None, protected: &protected };
    let mut settings = Settings { tools: crate::with_tools_for(Needs::Skills, &[].into()), ..Settings::default() };
    assert_eq!(names(&Skills::of_run(&settings, places)), ["secret"]);
    settings.sandbox.hidden = vec![folder.display().to_string()];
    let hidden = Skills::of_run(&settings, places);
    assert_eq!((names(&hidden).len(), hidden.left_out.len()), (0, 1), "{hidden:?}");
    assert_eq!(Skills::of_run(&Settings::default(), places), Skills::default());
}

/// R60: a skill is added to a project only below it, whatever links the project has.
#[test]
fn r60_a_link_of_a_project_decides_not_where_a_skill_goes() {
    let place = Folders::new();
    let from = place.skill("packages/greet", &matter("greet", "x"));
    let (project, elsewhere) = (place.user.path().join("proj"), place.user.path().join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, project.join(".agents")).unwrap();
    let refused = add_skill(&from, &project.join(ADDED_SKILLS), Some(&project)).unwrap_err();
    assert!(refused.contains("is a link"), "{refused}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // The user's own folder may be one.
    assert!(add_skill(&from, &project.join(ADDED_SKILLS), None).is_ok());
}

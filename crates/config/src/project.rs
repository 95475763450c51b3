//! Which conversation a folder has: one for each project, so that what was said in one folder is not sent from another.

use std::path::Path;

use engine::Hash;
use tools::{project_root, real_folder};

use super::Globals;
use super::declared::DefaultSession;

/// Characters of a folder's name in the name of its session.
const NAME_CHARS: usize = 40;
/// Hexadecimal digits that tell folders of one name apart.
const DIGITS: usize = 6;
/// The session of everything that belongs to no project.
const MAIN: &str = "main";

/// The name of the session of a message, or of a command, that names none. `workspace` is what its command line says. A
/// wrong setting counts as one that is not set: the command itself reports it.
pub fn default_session(globals: &Globals, workspace: Option<&str>) -> String {
    let environment = &globals.environment;
    let is_main = globals.look(|config| {
        let fixed = config.values.agents.get(MAIN).and_then(|agent| agent.workspace.as_deref());
        let is_fixed = workspace.is_none() && fixed.is_some_and(|fixed| fixed.starts_with(['/', '~']));
        config.values.session.default == DefaultSession::Main || is_fixed
    });
    if is_main {
        return MAIN.to_owned();
    }
    match environment.absolute(workspace.unwrap_or(".")) {
        Ok(folder) => of_folder(&folder, environment.get("HOME").map(Path::new)),
        Err(_) => MAIN.to_owned(),
    }
}

/// The name of the session of a folder: the name of its project, and digits of its path.
fn of_folder(folder: &Path, user: Option<&Path>) -> String {
    let (folder, user) = (real_folder(folder), user.map(real_folder));
    let root = project_root(&folder, user.as_deref()).unwrap_or(&folder);
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = name.chars().take(NAME_CHARS).map(plain).collect();
    // A name that begins so would be taken for an option.
    let name = name.trim_start_matches('-');
    let name = if name.is_empty() { "root" } else { name };
    let digits = Hash::of(root.as_os_str().as_encoded_bytes()).to_string();
    format!("{name}-{}", &digits[..DIGITS])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::Environment;

    fn globals(home: &Path, current: &Path, variables: &[(&str, &str)]) -> Globals {
        let environment = Environment::of(variables, current.to_str().unwrap());
        Globals::new(environment, home.to_owned())
    }

    #[test]
    fn r21_each_project_has_a_session_and_a_folder_without_one_its_own() {
        let user = tempfile::tempdir().unwrap();
        let user = user.path().canonicalize().unwrap();
        for folder in ["proj/.git", "proj/src/deep", "sub/.jj", "plain/inner", "a b\u{202e}c"] {
            fs::create_dir_all(user.join(folder)).unwrap();
        }
        // What a submodule and a work tree have.
        fs::create_dir_all(user.join("proj/vendor/lib")).unwrap();
        fs::write(user.join("proj/vendor/lib/.git"), "gitdir: ../../.git/modules/lib\n").unwrap();
        symlink(user.join("proj"), user.join("link")).unwrap();
        let of = |folder: &str| of_folder(&user.join(folder), Some(&user));
        let proj = of("proj");
        assert!(proj.starts_with("proj-") && proj.len() == "proj-".len() + DIGITS, "{proj}");
        assert_eq!((of("proj/src/deep"), of("link"), of("link/src")), (proj.clone(), proj.clone(), proj.clone()));
        assert!(of("proj/vendor/lib").starts_with("lib-") && of("sub").starts_with("sub-"));
        assert!(of("plain").starts_with("plain-") && of("plain/inner").starts_with("inner-"));
        assert!(of("a b\u{202e}c").starts_with("a-b-c-"), "{}", of("a b\u{202e}c"));
        assert!(of_folder(Path::new("/"), None).starts_with("root-"));
        // The user's own folder may be a project. What is above it never is.
        fs::create_dir(user.join(".git")).unwrap();
        let whole = of("");
        assert_eq!(of("plain/inner"), whole);
        assert!(of_folder(&user.join("plain"), Some(&user.join("plain"))).starts_with("plain-"));
        assert_eq!(of("proj/src"), proj, "the nearest one");
    }

    #[test]
    fn r21_a_fixed_workspace_or_the_setting_keeps_one_session_for_all_folders() {
        let home = tempfile::tempdir().unwrap();
        let user = ("HOME", home.path().to_str().unwrap());
        let check = |variables: &[(&str, &str)], workspace: Option<&str>, expected: &str| {
            let globals = globals(home.path(), home.path(), &[&[user], variables].concat());
            let found = default_session(&globals, workspace);
            let found = found.rsplit_once('-').map_or(found.as_str(), |(name, _)| name);
            assert_eq!(found, expected, "{variables:?} {workspace:?}");
        };
        let own = home.path().file_name().unwrap().to_str().unwrap();
        let own: String =
            own.chars().map(|c| if c.is_alphanumeric() || c == '.' || c == '_' { c } else { '-' }).collect();
        fs::create_dir(home.path().join("other")).unwrap();
        check(&[], None, &own);
        check(&[], Some("other"), "other");
        check(&[("LIMULUS_SESSION__DEFAULT", "main")], None, "main");
        check(&[("LIMULUS_SESSION__DEFAULT", "main")], Some("other"), "main");
        check(&[("LIMULUS_AGENTS__MAIN__WORKSPACE", "~/work")], None, "main");
        check(&[("LIMULUS_AGENTS__MAIN__WORKSPACE", "~/work")], Some("other"), "other");
        check(&[("LIMULUS_AGENTS__MAIN__WORKSPACE", "sub")], None, &own);
        check(&[("LIMULUS_SESSION__DEFAULT", "nonsense")], None, &own);
    }
}

//! Which words of a command run another program. The table is `tables/launchers.rs`.

use crate::tables::launchers::{GIT, GIT_PLAIN, LAUNCHERS, Launcher};

fn launcher_of(word: &str) -> Option<Launcher> {
    let program = word.rsplit('/').next().unwrap_or(word);
    LAUNCHERS.iter().find(|(programs, _)| programs.contains(&program)).map(|(_, launcher)| *launcher)
}

/// Whether a command runs another program by a word that its pattern does not name: `is_named` says which ones it does. A word that is
/// not known may be any.
pub(crate) fn runs_unnamed(argv: &[Option<String>], is_named: &dyn Fn(usize) -> bool) -> bool {
    let Some(launcher) = argv.first().and_then(Option::as_deref).and_then(launcher_of) else { return false };
    runs_by(launcher, argv, is_named, 1)
}

/// The same for the words from `from` on.
fn runs_by(launcher: Launcher, argv: &[Option<String>], is_named: &dyn Fn(usize) -> bool, from: usize) -> bool {
    let unnamed = || (from..argv.len()).filter(|at| !is_named(*at));
    match launcher {
        Launcher::All => unnamed().next().is_some(),
        Launcher::Words(words) => {
            unnamed().any(|at| argv[at].as_deref().is_none_or(|word| is_one_of(words, argv, word, at)))
        }
        Launcher::Script(words) => {
            let is_plain = |word: &str| word.starts_with('-') && word.len() > 1;
            let script = (from..argv.len()).find(|at| !argv[*at].as_deref().is_some_and(is_plain));
            let is_unread =
                script.is_some_and(|at| !is_named(at) && !argv[at].as_deref().is_some_and(is_simple_script));
            is_unread || runs_by(Launcher::Words(words), argv, is_named, from)
        }
        Launcher::Command => {
            for at in from..argv.len() {
                if !is_named(at) {
                    return true;
                }
                if argv[at].as_deref().is_some_and(is_command) {
                    return runs_unnamed(&argv[at..], &|next| is_named(at + next));
                }
            }
            false
        }
        Launcher::Git => {
            for at in from..argv.len() {
                let Some(word) = argv[at].as_deref() else { return true };
                if !word.starts_with('-') {
                    let of_subcommand = GIT.iter().find(|(subcommand, _)| *subcommand == word);
                    return of_subcommand.is_some_and(|(_, launcher)| runs_by(*launcher, argv, is_named, at + 1));
                }
                if !is_named(at) && !GIT_PLAIN.contains(&word) {
                    return true;
                }
            }
            false
        }
    }
}

/// Whether a word is one of these.
fn is_one_of(words: &[&str], argv: &[Option<String>], word: &str, at: usize) -> bool {
    // The first letters of `tar` need no dash.
    let is_cluster = !word.starts_with("--") && (word.starts_with('-') || at == 1 && is_tar(argv));
    let long = word.split('=').next().unwrap_or(word);
    words.iter().any(|one| match one.strip_suffix('…') {
        Some(beginning) => word.starts_with(beginning),
        None if one.starts_with("--") => long.len() > 2 && one.starts_with(long),
        None => word == *one || one.len() == 2 && one.starts_with('-') && is_cluster && word.contains(&one[1..]),
    })
}

fn is_tar(argv: &[Option<String>]) -> bool {
    argv[0].as_deref().is_some_and(|program| program.ends_with("tar"))
}

/// Whether a word may be the program that another one runs: no option, no number and no variable.
fn is_command(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || "./_".contains(c)) && !word.contains('=')
}

/// Whether a script of `sed` only prints, deletes or replaces: at most an address of numbers, and one command.
fn is_simple_script(script: &str) -> bool {
    let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || ",$~+".contains(c));
    let mut chars = command.chars();
    match (chars.next(), chars.as_str()) {
        (Some('p' | 'd' | 'q' | '='), rest) => rest.is_empty(),
        (Some('s'), rest) => {
            let Some(sign) = rest.chars().next().filter(char::is_ascii_punctuation) else { return false };
            let parts: Vec<&str> = rest.split(sign).collect();
            let is_plain = |text: &str| !text.contains('\n') && !text.ends_with('\\');
            let is_flag = |c: char| c.is_ascii_digit() || "gpiI".contains(c);
            sign != '\\'
                && parts.len() == 4
                && parts[..3].iter().all(|part| is_plain(part))
                && parts[3].chars().all(is_flag)
        }
        _ => false,
    }
}

/// Where the commands may begin that a command runs: itself, and what is behind a program that runs others.
pub(crate) fn commands_within(argv: &[Option<String>]) -> Vec<usize> {
    let rest = 1..argv.len();
    let behind: Vec<usize> = match argv.first().and_then(Option::as_deref).and_then(launcher_of) {
        Some(Launcher::Command) => rest.collect(),
        Some(Launcher::Words(words)) => {
            let runs = |at: usize| argv[at].as_deref().is_some_and(|word| is_one_of(words, argv, word, at));
            rest.filter(|at| *at > 1 && runs(at - 1)).collect()
        }
        Some(Launcher::All | Launcher::Script(_) | Launcher::Git) | None => vec![],
    };
    std::iter::once(0).chain(behind).collect()
}

//! Where the package caches of a user are. A command in the sandbox gets a private copy of each, so that it can build what the user
//! could build.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use confine::{CachePlace, PackageCache};

/// A cache as its package manager looks for it.
struct Known {
    name: &'static str,
    /// Below the home of the user.
    usual: &'static str,
    /// The variable that names it, and nothing else. Where there is none, an empty folder cannot stand in for it.
    variable: Option<&'static str>,
    /// A variable that names a folder around it, and where it is in that.
    around: Option<(&'static str, &'static str)>,
}

/// The folders that package managers write, each as narrow as they allow: `~/.cargo` has programs, configuration and keys too.
const KNOWN: &[Known] = &[
    Known {
        name: "cargo-registry",
        usual: ".cargo/registry",
        variable: None,
        around: Some(("CARGO_HOME", "registry")),
    },
    Known { name: "cargo-git", usual: ".cargo/git", variable: None, around: Some(("CARGO_HOME", "git")) },
    Known { name: "npm", usual: ".npm", variable: Some("npm_config_cache"), around: None },
    Known {
        name: "pip",
        usual: ".cache/pip",
        variable: Some("PIP_CACHE_DIR"),
        around: Some(("XDG_CACHE_HOME", "pip")),
    },
    Known { name: "go-mod", usual: "go/pkg/mod", variable: Some("GOMODCACHE"), around: Some(("GOPATH", "pkg/mod")) },
    Known {
        name: "go-build",
        usual: ".cache/go-build",
        variable: Some("GOCACHE"),
        around: Some(("XDG_CACHE_HOME", "go-build")),
    },
    Known { name: "gradle", usual: ".gradle", variable: Some("GRADLE_USER_HOME"), around: None },
    Known { name: "maven", usual: ".m2/repository", variable: None, around: None },
];

/// The caches of a user, existing or not. `variable` is the environment. One that the user has put outside of the home is left out:
/// nobody knows what else is there.
pub(crate) fn of_user(home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PackageCache> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home_itself = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    let found = KNOWN.iter().filter_map(|known| {
        let own = known.variable.and_then(set);
        let around = known.around.and_then(|(name, below)| Some(first(&set(name)?)?.join(below)));
        let place = if own.is_some() { CachePlace::Moved } else { CachePlace::Default };
        let folder = own.or(around).unwrap_or_else(|| home.join(known.usual));
        // A link may lead to another disk.
        let itself = fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
        let is_meant = is_below(&folder, home) && !home_itself.starts_with(&itself) && folder.to_str().is_some();
        let variable = known.variable.map(str::to_owned);
        is_meant.then(|| PackageCache { name: known.name.to_owned(), folder, variable, place })
    });
    found.collect()
}

/// The first of the folders that a variable names.
fn first(value: &Path) -> Option<PathBuf> {
    std::env::split_paths(value).next()
}

fn is_below(folder: &Path, home: &Path) -> bool {
    let is_plain = folder.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    folder.is_absolute() && is_plain && folder.starts_with(home) && folder != home
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(home: &Path, variables: &[(&str, &str)]) -> Vec<(String, String, CachePlace)> {
        let variable = |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into());
        let path = |cache: &PackageCache| cache.folder.strip_prefix(home).unwrap().to_str().unwrap().to_owned();
        let caches = of_user(home, variable);
        caches.into_iter().map(|cache| (cache.name.clone(), path(&cache), cache.place)).collect()
    }

    #[test]
    fn r69_caches_are_where_package_managers_look() {
        let all = of(Path::new("/home/me"), &[("GOPATH", ""), ("CARGO_HOME", "")]);
        assert_eq!(all.len(), KNOWN.len());
        for (known, found) in KNOWN.iter().zip(&all) {
            assert_eq!(found, &(known.name.to_owned(), known.usual.to_owned(), CachePlace::Default));
        }
    }

    #[test]
    fn r69_caches_that_the_user_has_moved_are_found() {
        for (variable, value, name, folder, place) in [
            ("CARGO_HOME", "/home/me/rust", "cargo-registry", "rust/registry", CachePlace::Default),
            ("CARGO_HOME", "/home/me/rust", "cargo-git", "rust/git", CachePlace::Default),
            ("npm_config_cache", "/home/me/n", "npm", "n", CachePlace::Moved),
            ("PIP_CACHE_DIR", "/home/me/p", "pip", "p", CachePlace::Moved),
            ("XDG_CACHE_HOME", "/home/me/c", "pip", "c/pip", CachePlace::Default),
            ("XDG_CACHE_HOME", "/home/me/c", "go-build", "c/go-build", CachePlace::Default),
            ("GOPATH", "/home/me/a:/home/me/b", "go-mod", "a/pkg/mod", CachePlace::Default),
            ("GOMODCACHE", "/home/me/m", "go-mod", "m", CachePlace::Moved),
            ("GOCACHE", "/home/me/g", "go-build", "g", CachePlace::Moved),
            ("GRADLE_USER_HOME", "/home/me/x/y", "gradle", "x/y", CachePlace::Moved),
        ] {
            let all = of(Path::new("/home/me"), &[(variable, value)]);
            assert!(all.contains(&(name.to_owned(), folder.to_owned(), place)), "{variable}: {all:?}");
            assert_eq!(all.len(), KNOWN.len());
        }
        let both = of(Path::new("/home/me"), &[("GOPATH", "/home/me/a"), ("GOMODCACHE", "/home/me/m")]);
        assert!(both.contains(&("go-mod".to_owned(), "m".to_owned(), CachePlace::Moved)), "{both:?}");
    }

    #[test]
    fn r69_caches_outside_of_the_home_are_left_out() {
        for value in ["/data/n", "n", "/home/me", "/home/me/../you", "/home/menu", "/", "off"] {
            let all = of(Path::new("/home/me"), &[("npm_config_cache", value)]);
            assert!(all.iter().all(|(name, ..)| name != "npm") && all.len() == KNOWN.len() - 1, "{value}: {all:?}");
        }
        // A link to all that the user has.
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(home.path(), home.path().join(".npm")).unwrap();
        assert!(of(home.path(), &[]).iter().all(|(name, ..)| name != "npm"));
    }

    #[test]
    fn r69_every_cache_has_a_plain_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = KNOWN.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), KNOWN.len());
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase())));
    }
}

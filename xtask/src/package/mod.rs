//! Makes packages of a built program: an archive for each target, a Debian package, the installer and their checksums.
//! The same program, sources and time give the same bytes. What may not live here: building the program, and what the
//! installer does (`install.sh`).

mod archive;
mod binary;
mod debian;
mod programs;
pub(crate) mod proof;
mod texts;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use self::archive::{Compression, Entry};
use self::binary::Binary;
use self::texts::Texts;

/// The name of the file with the checksums of all others in the folder.
const SUMS: &str = "SHA256SUMS";

/// The line of the installer that names where packages are.
const DEFAULT_URL: &str = "default_url=''";

/// What `cargo xtask package` was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The program that is packed.
    pub(crate) binary: Option<PathBuf>,
    /// The program that prints manual pages and completions, if the packed one is for another machine.
    pub(crate) texts_from: Option<PathBuf>,
    /// The folder of the packages.
    pub(crate) out: Option<PathBuf>,
    /// The address that the packed installer takes packages from.
    pub(crate) url: Option<String>,
}

/// Everything that the packages are made of.
struct Source<'a> {
    root: &'a Path,
    version: String,
    binary: Binary,
    texts: Texts,
    /// Seconds since 1970: the time of every file in the packages.
    time: u64,
    compression: Compression,
}

pub(crate) fn parse(flags: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted { binary: None, texts_from: None, out: None, url: None };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().copied().ok_or(format!("{flag} needs a value"));
        match *flag {
            "--binary" => wanted.binary = Some(value()?.into()),
            "--texts-from" => wanted.texts_from = Some(value()?.into()),
            "--out" => wanted.out = Some(value()?.into()),
            "--url" => wanted.url = Some(value()?.into()),
            _ => return Err(format!("`package` has no flag `{flag}`")),
        }
    }
    Ok(wanted)
}

/// Makes the packages and prints their names.
pub(crate) fn run(root: &Path, wanted: &Wanted, out: &mut dyn Write) -> io::Result<bool> {
    let target = crate::target_folder()?;
    let binary = wanted.binary.clone().unwrap_or_else(|| target.join("release/limulus"));
    let folder = wanted.out.clone().unwrap_or_else(|| target.join("packages"));
    let texts_from = wanted.texts_from.as_ref().unwrap_or(&binary);
    let source = Source {
        root,
        version: version(root)?,
        binary: Binary::read(&binary)?,
        texts: Texts::of(texts_from)?,
        time: time(root)?,
        compression: Compression::Best,
    };
    for name in write(&source, wanted.url.as_deref(), &folder)? {
        writeln!(out, "{}", folder.join(name).display())?;
    }
    Ok(true)
}

/// Writes archive, Debian package, installer and checksums into this folder. Returns their names.
fn write(source: &Source, url: Option<&str>, folder: &Path) -> io::Result<Vec<String>> {
    if source.texts.version != source.version {
        let what = format!("the program says version {}, Cargo.toml {}", source.texts.version, source.version);
        return Err(io::Error::other(what));
    }
    fs::create_dir_all(folder)?;
    let name = format!("limulus-{}-{}", source.version, source.binary.target());
    let archive = archive::tar_gz(&files(source, &name)?, source.time, source.compression)?;
    let names = vec![
        put(folder, &format!("{name}.tar.gz"), &archive)?,
        put(folder, &debian::file_name(source), &debian::package(source)?)?,
        put(folder, "install.sh", &installer(source.root, url)?)?,
    ];
    let sums = sums(folder)?;
    Ok([names, vec![put(folder, SUMS, &sums)?]].concat())
}

/// The contents of the archive, below one folder of this name.
fn files(source: &Source, name: &str) -> io::Result<Vec<Entry>> {
    let read = |path: &str| fs::read(source.root.join(path));
    let mut entries = vec![Entry::program("limulus", source.binary.bytes.clone())];
    for path in ["LICENSE", "README.md", "README.zh-CN.md", "CHANGELOG.md"] {
        entries.push(Entry::file(path, read(path)?));
    }
    let Texts { bash, zsh, fish, pages, .. } = &source.texts;
    entries.push(Entry::file("completions/limulus.bash", bash.clone()));
    entries.push(Entry::file("completions/_limulus", zsh.clone()));
    entries.push(Entry::file("completions/limulus.fish", fish.clone()));
    entries.extend(pages.iter().map(|(page, text)| Entry::file(&format!("man/man1/{page}"), text.clone())));
    Ok(archive::with_folders(entries, &format!("{name}/")))
}

/// The installer, with the address that it takes packages from.
fn installer(root: &Path, url: Option<&str>) -> io::Result<Vec<u8>> {
    let script = fs::read_to_string(root.join("install.sh"))?;
    let Some(url) = url else { return Ok(script.into_bytes()) };
    let is_plain = url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/[]@%+".contains(&byte));
    if !is_plain || script.matches(DEFAULT_URL).count() != 1 {
        return Err(io::Error::other(format!("`{url}` cannot be written into install.sh")));
    }
    Ok(script.replace(DEFAULT_URL, &format!("default_url='{url}'")).into_bytes())
}

/// The checksums of everything in the folder, also of packages for other targets that are there already.
fn sums(folder: &Path) -> io::Result<Vec<u8>> {
    let mut names = vec![];
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_package = Path::new(&name).extension().is_some_and(|ending| ending == "gz" || ending == "deb");
        if name == "install.sh" || is_package {
            names.push(name);
        }
    }
    names.sort();
    programs::output(programs::program("sha256sum").current_dir(folder).args(&names), &[])
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<String> {
    let beside = folder.join(format!("{name}.new"));
    fs::write(&beside, bytes)?;
    fs::rename(&beside, folder.join(name))?;
    Ok(name.to_owned())
}

/// The version of the workspace.
fn version(root: &Path) -> io::Result<String> {
    let text = fs::read_to_string(root.join("Cargo.toml"))?;
    let manifest = text.parse::<toml_edit::DocumentMut>().map_err(io::Error::other)?;
    let version = manifest.get("workspace").and_then(|table| table.get("package")?.get("version")?.as_str());
    version.map(str::to_owned).ok_or_else(|| io::Error::other("Cargo.toml has no [workspace.package] version"))
}

/// SOURCE_DATE_EPOCH, else the time of the last commit.
fn time(root: &Path) -> io::Result<u64> {
    let last_commit = || programs::text(programs::program("git").current_dir(root).args(["log", "-1", "--format=%ct"]));
    let text = std::env::var("SOURCE_DATE_EPOCH").or_else(|_| last_commit());
    let text = text.map_err(|error| io::Error::other(format!("set SOURCE_DATE_EPOCH: {error}")))?;
    text.trim().parse().map_err(|_| io::Error::other(format!("`{}` is no time in seconds", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::{Wanted, installer, parse, version};
    use crate::tree::made_up::Folder;

    #[test]
    fn flags_of_package_are_parsed() {
        let wanted = parse(&["--binary", "a", "--out", "b", "--texts-from", "c", "--url", "d"]).unwrap();
        let expected = Wanted {
            binary: Some("a".into()),
            texts_from: Some("c".into()),
            out: Some("b".into()),
            url: Some("d".into()),
        };
        assert_eq!(wanted, expected);
        assert!(parse(&["--out"]).unwrap_err().contains("--out"));
        assert!(parse(&["--fast"]).unwrap_err().contains("--fast"));
    }

    #[test]
    fn the_version_is_that_of_the_workspace() {
        let folder = Folder::new(&[("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n")]);
        assert_eq!(version(&folder.0).unwrap(), "1.2.3");
    }

    /// Whoever can move a tag of an action could change what is published.
    #[test]
    fn the_release_workflow_pins_its_actions_and_gives_no_permission_to_all_jobs() {
        let path = crate::root().join(".github/workflows/release.yml");
        let workflow = std::fs::read_to_string(path).unwrap();
        assert!(workflow.contains("\npermissions: {}\n"));
        let actions: Vec<&str> =
            workflow.lines().filter_map(|line| line.split_once("uses: ").map(|(_, it)| it)).collect();
        assert!(actions.len() > 3, "{actions:?}");
        for action in actions {
            let pin = action.split_once('@').and_then(|(_, pin)| pin.split(' ').next()).unwrap_or_default();
            assert!(pin.len() == 40 && pin.bytes().all(|byte| byte.is_ascii_hexdigit()), "{action}");
        }
    }

    #[test]
    fn an_address_is_written_into_the_installer_unless_the_shell_would_read_it() {
        let packed = |url| installer(&crate::root(), url).map(|script| String::from_utf8(script).unwrap());
        assert!(packed(None).unwrap().contains("\ndefault_url=''\n"));
        let address = "https://packages.example/limulus/v1";
        assert!(packed(Some(address)).unwrap().contains(&format!("\ndefault_url='{address}'\n")));
        assert!(packed(Some("https://x'; rm -r y; '")).is_err());
    }
}

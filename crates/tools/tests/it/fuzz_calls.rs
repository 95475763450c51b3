//! Random folders of calls. What lies in `calls/ID` may be from a command.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use engine::Found;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::{World, exec, output};

const NAMES: [&str; 8] = ["exit.json", "claim", "trace.json", "control", "output", "written", "input", "other"];

/// Whatever is in the folder of a call: nothing blocks or panics, and a record counts only if its nonce hashes to the claim.
#[test]
fn fuzz_the_folder_of_a_call() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    bolero::check!().with_type::<Vec<(u8, u8, Vec<u8>)>>().with_test_time(Duration::from_secs(2)).for_each(|entries| {
        let world = World::new();
        let request = exec("true");
        let folder = world.folder(&request);
        fs::create_dir_all(&folder).unwrap();
        let nonce = blake3::hash(b"n").to_hex();
        for (name, kind, bytes) in entries.iter().take(12) {
            let path = folder.join(NAMES[usize::from(*name) % NAMES.len()]);
            // One that is there already stays: it may be a pipe, and to write into that would wait for ever.
            if fs::symlink_metadata(&path).is_ok() {
                continue;
            }
            let _ = match kind % 8 {
                0 => fs::create_dir(&path),
                1 => mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).map_err(Into::into),
                2 => symlink("/dev/zero", &path),
                3 => symlink(&path, &path),
                4 => fs::write(&path, blake3::hash(nonce.as_bytes()).to_hex().as_bytes()),
                5 => fs::write(
                    &path,
                    format!(
                        r#"{{"bytes":{},"survivors":[],"started_at":0,"ended_at":0,"nonce":"{nonce}"}}"#,
                        u64::from_le_bytes(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0)))
                    ),
                ),
                _ => fs::write(&path, bytes),
            };
        }
        let is_file = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok_and(|meta| meta.is_file());
        let text = |name: &str| if is_file(name) { fs::read(folder.join(name)).unwrap_or_default() } else { vec![] };
        let record: serde_json::Value = serde_json::from_slice(&text("exit.json")).unwrap_or_default();
        let proof = record["nonce"].as_str().unwrap_or_default();
        let may_count = text("claim") == blake3::hash(proof.as_bytes()).to_hex().as_bytes();
        let began = Instant::now();
        let found = runtime.block_on(tools::find(&world.context, &request));
        assert!(may_count || found.found != Found::Ended, "{entries:?}");
        assert!(found.ended.is_none_or(|ended| output(&ended).len() < 64 << 10));
        assert!(began.elapsed() < Duration::from_secs(10));
    });
}

//! A server of files on the loopback interface. The first part of a path says what goes wrong: `/good/NAME`, `/flipped/NAME`.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use super::super::SUMS;

/// The longest request that is read, in bytes.
const REQUEST_MAX: u64 = 16 << 10;

/// A server that answers until this program ends.
pub(super) struct Server {
    address: SocketAddr,
}

/// What is wrong with the archives of a path. Checksums are always right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// One bit differs.
    Flipped,
    /// The connection ends in the middle.
    Cut,
    /// The answer is complete and has half of the file.
    Short,
    /// Nothing comes after the first half.
    Stalled,
}

impl Server {
    /// Serves the files of a folder.
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let folder = folder.to_owned();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let folder = folder.clone();
                // A client that goes away is one of the cases.
                std::thread::spawn(move || answer(connection, &folder));
            }
        });
        Ok(Self { address })
    }

    /// The address of the files with this fault.
    pub(super) fn url(&self, fault: &str) -> String {
        format!("http://{}/{fault}", self.address)
    }
}

fn answer(mut connection: TcpStream, folder: &Path) -> io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?.take(REQUEST_MAX)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let Some((fault, path)) = asked(&request, folder) else {
        return connection.write_all(b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    };
    let mut bytes = fs::read(path)?;
    let half = bytes.len() / 2;
    match fault {
        Fault::Flipped => bytes[half] ^= 1,
        Fault::Short => bytes.truncate(half),
        Fault::None | Fault::Cut | Fault::Stalled => {}
    }
    write!(connection, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len())?;
    match fault {
        Fault::Cut => connection.write_all(&bytes[..half]),
        Fault::Stalled => {
            connection.write_all(&bytes[..half])?;
            // Until the client closes the connection.
            connection.read(&mut [0]).map(|_| ())
        }
        Fault::None | Fault::Flipped | Fault::Short => connection.write_all(&bytes),
    }
}

/// The fault and the file that a request names.
fn asked(request: &str, folder: &Path) -> Option<(Fault, PathBuf)> {
    let (fault, name) = request.strip_prefix("GET /")?.split(' ').next()?.split_once('/')?;
    let fault = match fault {
        "good" => Fault::None,
        "flipped" => Fault::Flipped,
        "cut" => Fault::Cut,
        "short" => Fault::Short,
        "stalled" => Fault::Stalled,
        _ => return None,
    };
    let fault = if name == SUMS { Fault::None } else { fault };
    let path = folder.join(name);
    (!name.contains('/') && path.is_file()).then_some((fault, path))
}

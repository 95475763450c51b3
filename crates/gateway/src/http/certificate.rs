//! The certificate with which connections are encrypted, and its key.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Bytes of a file that are read.
const MOST_BYTES: u64 = 1 << 20;

/// The files of a certificate in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those between it and its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Others can read the key.
    #[error("{} can be read by other users", path.display())]
    Open { path: PathBuf },
    /// A file has no certificate or no key in it.
    #[error("{} has no {what} in PEM", path.display())]
    Missing { path: PathBuf, what: &'static str },
    /// The certificate and the key are not of each other, or of no known kind.
    #[error("the certificate {} cannot be used: {why}", path.display())]
    Unusable { path: PathBuf, why: String },
}

impl TlsError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "check gateway.tls_cert and gateway.tls_key, and who may read these files",
            Self::Open { .. } => "`chmod 600` makes the key yours alone",
            Self::Missing { .. } => {
                "gateway.tls_cert is the certificate with its chain, gateway.tls_key its private key"
            }
            Self::Unusable { .. } => "give the key that the certificate was made with",
        }
    }
}

/// What changes with a file.
pub(super) type Stamp = Option<(u64, u64, i64, i64)>;

impl TlsFiles {
    /// What changes when they are renewed.
    pub(super) fn stamps(&self) -> [Stamp; 2] {
        [&self.cert, &self.key].map(|path| {
            // A link leads to another file when it is renewed.
            let meta = fs::metadata(path).ok()?;
            Some((meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()))
        })
    }

    /// What serves with them. May block.
    pub(super) fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let Self { cert, key } = self;
        let missing = |path: &Path, what| TlsError::Missing { path: path.to_owned(), what };
        let (text, _) = read(cert)?;
        let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|_| missing(cert, "certificate"))?;
        if certificates.is_empty() {
            return Err(missing(cert, "certificate"));
        }
        let (text, mode) = read(key)?;
        if mode & 0o007 != 0 {
            return Err(TlsError::Open { path: key.clone() });
        }
        let private = PrivateKeyDer::from_pem_slice(&text).map_err(|_| missing(key, "private key"))?;
        let unusable = |error: rustls::Error| TlsError::Unusable { path: cert.clone(), why: error.to_string() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.map_err(unusable)?.with_no_client_auth().with_single_cert(certificates, private);
        let mut config = config.map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The content of a file, whatever lies at its path, and its mode.
fn read(path: &Path) -> Result<(Vec<u8>, u32), TlsError> {
    let failed = |source| TlsError::Io { path: path.to_owned(), source };
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(failed(io::Error::other("it is no file")));
    }
    let mut text = vec![];
    file.take(MOST_BYTES).read_to_end(&mut text).map_err(failed)?;
    Ok((text, meta.mode()))
}

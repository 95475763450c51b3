//! Compression, with the dictionaries that make it pay for a few hundred bytes, and the reverse. JSON of the most usual
//! shapes is stored as values of a template instead.
//!
//! A dictionary, or a list of templates, is known by its id, which whatever needs it names. A home holds every dictionary that it needs in the table
//! `dictionaries`, so that a reader needs nothing else. This program has its own in the binary and reads those of a
//! newer one from the table. An id never gets other bytes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use engine::{Hash, Seq};
use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use uuid::Uuid;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe;

use super::{failed, rows, schema, stored, templates};
use crate::Error;

/// No dictionary; also the place of its contexts below, as for the others.
const NONE: u32 = 0;
/// The dictionary of payloads and of rows of views.
const OF_JSON: u32 = 1;
/// The dictionary of bodies.
const OF_TEXT: u32 = 2;
/// The templates of payloads and of rows of views.
const OF_TEMPLATES: u32 = 3;
/// The dictionaries and templates of this program; `crates/journal/dictionaries/README.md` says how they were made.
const OWN: [(u32, &[u8]); 3] = [
    (OF_JSON, include_bytes!("../../dictionaries/1-json.zdict")),
    (OF_TEXT, include_bytes!("../../dictionaries/2-text.zdict")),
    (OF_TEMPLATES, templates::OWN),
];
/// The first byte of packed JSON that is values of a template has this bit, and below it the id of the templates. No frame
/// has it: there it is reserved.
const IS_TEMPLATE: u8 = 0x08;
/// A dictionary begins with these bytes, a list of templates never.
const DICTIONARY: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];
/// This level compresses transcripts about five times, at 300 MB/s.
const LEVEL: i32 = 3;
/// Longer bodies are compressed without a dictionary: they are their own.
const ALONE_FROM_BYTES: usize = 16 << 10;
/// The first four bytes of every frame; packed JSON is stored without them.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The largest JSON that is packed, bytes: a damaged frame must not ask for all memory.
const MAX_JSON_BYTES: usize = 64 << 20;

struct Own {
    id: u32,
    encoder: EncoderDictionary<'static>,
    decoder: DecoderDictionary<'static>,
}

static PREPARED: LazyLock<[Own; 2]> = LazyLock::new(|| {
    [OWN[0], OWN[1]].map(|(id, bytes)| Own {
        id,
        encoder: EncoderDictionary::copy(bytes, LEVEL),
        decoder: DecoderDictionary::copy(bytes),
    })
});

thread_local! {
    static PACKERS: RefCell<[Option<Compressor<'static>>; 3]> = const { RefCell::new([None, None, None]) };
    static UNPACKERS: RefCell<[Option<Decompressor<'static>>; 3]> = const { RefCell::new([None, None, None]) };
}

/// JSON as a row holds it: as text, or packed in the column `packed` if that is smaller.
#[derive(Debug)]
pub(super) enum Json {
    Text(String),
    Packed(Vec<u8>),
}

impl Json {
    pub(super) fn of(text: String) -> Self {
        if let Some(packed) = templates::pack(IS_TEMPLATE | OF_TEMPLATES as u8, &text) {
            return Self::Packed(packed);
        }
        let frame = compress_with(OF_JSON, text.as_bytes()).filter(|_| text.len() <= MAX_JSON_BYTES);
        let packed = frame.filter(|frame| frame.len() - MAGIC.len() < text.len());
        packed.map_or(Self::Text(text), |frame| Self::Packed(frame[MAGIC.len()..].to_vec()))
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Packed(_) => None,
        }
    }

    pub(super) fn packed(&self) -> Option<&[u8]> {
        match self {
            Self::Text(_) => None,
            Self::Packed(packed) => Some(packed),
        }
    }
}

/// The texts of columns beside the row of a view. In a packed row a byte stands for each of them, 1 for the first, which
/// no JSON contains by itself.
#[derive(Debug)]
pub(super) struct Columns(Vec<String>);

impl Columns {
    pub(super) fn new(ids: &[Uuid], key: Option<&str>) -> Self {
        let key = key.map(|key| serde_json::Value::from(key).to_string());
        let key = key.as_deref().map(|quoted| quoted[1..quoted.len() - 1].to_owned());
        Self(ids.iter().map(Uuid::to_string).chain(key).filter(|text| !text.is_empty()).collect())
    }

    fn bytes(&self) -> impl Iterator<Item = (&String, String)> {
        self.0.iter().zip('\u{1}'..).map(|(text, byte)| (text, byte.to_string()))
    }

    /// A row as it is stored.
    pub(super) fn pack(&self, row: String) -> Json {
        let short = self.bytes().fold(row.clone(), |row, (text, byte)| row.replace(text, &byte));
        match Json::of(short) {
            Json::Packed(packed) => Json::Packed(packed),
            Json::Text(_) => Json::Text(row),
        }
    }

    /// The row of [`Columns::pack`], unpacked.
    pub(super) fn put_back(&self, short: String) -> Result<String, Unpackable> {
        let added = |(text, byte): (&String, String)| short.matches(&byte).count().saturating_mul(text.len());
        let size = self.bytes().map(added).fold(short.len(), usize::saturating_add);
        if size > MAX_JSON_BYTES {
            return Err(Unpackable::Frame);
        }
        Ok(self.bytes().fold(short, |row, (text, byte)| row.replace(&byte, text)))
    }
}

/// Why something cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unpackable {
    /// It is neither a frame of Zstandard nor values of a template, or not one of what it says.
    Frame,
    /// The journal lacks the dictionary with this id.
    Dictionary(u32),
}

impl fmt::Display for Unpackable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame => f.write_str("it cannot be decompressed"),
            Self::Dictionary(id) => write!(
                f,
                "it names dictionary {id}, which neither the journal nor this limulus has: either it is damaged, or that row \
                 of `dictionaries` is; use the limulus that wrote it, or a backup"
            ),
        }
    }
}

impl std::error::Error for Unpackable {}

/// Whether a row cannot be used, while the table can be read.
fn is_of_the_row(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..))
}

/// The dictionaries of a home beside those of this program.
#[derive(Clone, Default)]
pub(super) struct Dictionaries(Arc<BTreeMap<u32, Other>>);

/// A dictionary that this program does not have.
enum Other {
    Zstd(DecoderDictionary<'static>),
    Templates(Vec<u8>),
}

impl fmt::Debug for Dictionaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Dictionaries {
    /// Reads them. A row that is no dictionary counts as missing, and so does a missing table: what this program wrote
    /// can be read all the same.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        if !connection.table_exists(None, "dictionaries")? {
            return Ok(Self::default());
        }
        let mut statement = connection.prepare("SELECT id, bytes FROM dictionaries")?;
        let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get_ref(1)?.as_bytes()?.to_vec()));
        let rows = statement.query_map([], columns)?.filter(|row| !matches!(row, Err(error) if is_of_the_row(error)));
        let rows: Vec<(u32, Vec<u8>)> = rows.collect::<Result<_, _>>()?;
        let other = rows.into_iter().filter(|(id, _)| OWN.iter().all(|(own, _)| own != id));
        let known = |(id, bytes): (u32, Vec<u8>)| {
            let is_templates = !bytes.starts_with(&DICTIONARY);
            let zstd = || Some(Other::Zstd(DecoderDictionary::try_copy(&bytes).ok()?));
            let known = if is_templates { Some(Other::Templates(bytes.clone())) } else { zstd() };
            Some((id, known?))
        };
        Ok(Self(Arc::new(other.filter_map(known).collect())))
    }

    /// The JSON of a row that holds it as text, packed, or (`None`) not any more. A row never holds both.
    pub(super) fn json<'a>(
        &self,
        text: Option<&'a [u8]>,
        packed: Option<&[u8]>,
    ) -> Result<Option<Cow<'a, [u8]>>, Unpackable> {
        let Some(packed) = packed else { return Ok(text.map(Cow::Borrowed)) };
        if text.is_some_and(|text| !text.is_empty()) {
            return Err(Unpackable::Frame);
        }
        if let [first, values @ ..] = packed
            && first & !7 == IS_TEMPLATE
        {
            let id = u32::from(first & 7);
            let templates = match self.0.get(&id) {
                _ if id == OF_TEMPLATES => None,
                Some(Other::Templates(templates)) => Some(&templates[..]),
                Some(Other::Zstd(_)) => return Err(Unpackable::Frame),
                None if own(id).is_some() || id == NONE => return Err(Unpackable::Frame),
                None => return Err(Unpackable::Dictionary(id)),
            };
            return templates::unpack(templates, values).map(|json| Some(json.into())).ok_or(Unpackable::Frame);
        }
        let frame = [&MAGIC, packed].concat();
        let size = zstd_safe::get_frame_content_size(&frame).ok().flatten().and_then(|size| usize::try_from(size).ok());
        let size = size.filter(|size| *size <= MAX_JSON_BYTES).ok_or(Unpackable::Frame)?;
        self.unpack(&frame, size).map(|json| Some(json.into()))
    }

    /// The same from two columns of a row.
    pub(super) fn json_of(&self, row: &Row<'_>, text: usize, packed: usize) -> rusqlite::Result<Option<Vec<u8>>> {
        let bytes = |column| row.get_ref(column)?.as_bytes_or_null().map_err(rusqlite::Error::from);
        let json = self.json(bytes(text)?, bytes(packed)?).map_err(|error| unreadable(packed, error))?;
        Ok(json.map(Cow::into_owned))
    }

    /// The bytes of a body of `size` bytes.
    pub(super) fn body(&self, encoding: &str, size: usize, content: Vec<u8>) -> Result<Vec<u8>, Unpackable> {
        match encoding {
            "raw" => Ok(content),
            "zstd" => self.unpack(&content, size),
            _ => Err(Unpackable::Frame),
        }
    }

    /// Decompresses a frame of at most `size` bytes.
    fn unpack(&self, frame: &[u8], size: usize) -> Result<Vec<u8>, Unpackable> {
        let id = zstd_safe::get_dict_id_from_frame(frame).map_or(NONE, u32::from);
        if let Some(Other::Zstd(dictionary)) = self.0.get(&id) {
            let unpacker = Decompressor::with_prepared_dictionary(dictionary);
            return unpacker.and_then(|mut it| it.decompress(frame, size)).map_err(|_| Unpackable::Frame);
        }
        if id != NONE && own(id).is_none() {
            return Err(Unpackable::Dictionary(id));
        }
        UNPACKERS.with_borrow_mut(|unpackers| {
            let unpacker = &mut unpackers[id as usize];
            if unpacker.is_none() {
                *unpacker = match own(id) {
                    Some(own) => Decompressor::with_prepared_dictionary(&own.decoder).ok(),
                    None => Decompressor::new().ok(),
                };
            }
            unpacker.as_mut().and_then(|it| it.decompress(frame, size).ok()).ok_or(Unpackable::Frame)
        })
    }
}

/// Compresses a body; `None` if that saves less than an eighth.
pub(super) fn pack_body(bytes: &[u8]) -> Option<Vec<u8>> {
    let dictionary = if bytes.len() < ALONE_FROM_BYTES { OF_TEXT } else { NONE };
    compress_with(dictionary, bytes).filter(|packed| packed.len() <= bytes.len() / 8 * 7)
}

/// Compresses without a dictionary; `None` if there is not enough memory.
pub(super) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    compress_with(NONE, bytes)
}

fn compress_with(dictionary: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    PACKERS.with_borrow_mut(|packers| {
        let packer = &mut packers[dictionary as usize];
        if packer.is_none() {
            *packer = match own(dictionary) {
                Some(own) => Compressor::with_prepared_dictionary(&own.encoder).ok(),
                None => Compressor::new(LEVEL).ok(),
            };
        }
        packer.as_mut()?.compress(bytes).ok()
    })
}

fn own(id: u32) -> Option<&'static Own> {
    PREPARED.iter().find(|own| own.id == id)
}

/// Stores everything but snapshots uncompressed, and entries with the hashes of their payloads and whole chain values, as
/// older homes do. It is for tests that search or change a journal.
#[doc(hidden)]
pub fn store_uncompressed(database: &Path) -> Result<(), Error> {
    let store = || {
        let mut connection = Connection::open(database)?;
        connection.busy_timeout(schema::BUSY)?;
        let dictionaries = Dictionaries::read(&connection)?;
        let transaction = connection.transaction()?;
        let sql = "SELECT position, payload, packed FROM entries WHERE coalesce(packed, payload) IS NOT NULL";
        let json = |row: &Row<'_>| Ok((row.get(0)?, dictionaries.json_of(row, 1, 2)?.unwrap_or_default()));
        let entries: Vec<(i64, Vec<u8>)> = transaction.prepare(sql)?.query_map([], json)?.collect::<Result<_, _>>()?;
        for (position, json) in entries {
            let sql =
                "UPDATE entries SET payload = CAST(?2 AS TEXT), packed = NULL, payload_hash = ?3 WHERE position = ?1";
            transaction.execute(sql, (position, &json, Hash::of(&json).0))?;
        }
        let sql = "SELECT branch, seq FROM entries WHERE length(chain) < 32 ORDER BY position";
        let of = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?));
        let short: Vec<(i64, i64)> = transaction.prepare(sql)?.query_map([], of)?.collect::<Result<_, _>>()?;
        for (branch, seq) in short {
            if let Some(head) = stored::head_at(&transaction, branch, Seq(seq as u64))? {
                let sql = "UPDATE entries SET chain = ?3 WHERE branch = ?1 AND seq = ?2";
                transaction.execute(sql, (branch, seq, head.chain.0))?;
            }
        }
        rows::store_uncompressed(&transaction, &dictionaries)?;
        let sql = "SELECT rowid, encoding, size, content FROM bodies WHERE content IS NOT NULL";
        let body = |row: &Row<'_>| {
            let encoding: String = row.get(1)?;
            let unpacked = dictionaries.body(&encoding, row.get::<_, i64>(2)? as usize, row.get(3)?);
            Ok((row.get(0)?, unpacked.map_err(|error| unreadable(3, error))?))
        };
        let bodies: Vec<(i64, Vec<u8>)> = transaction.prepare(sql)?.query_map([], body)?.collect::<Result<_, _>>()?;
        for body in bodies {
            transaction.execute("UPDATE bodies SET encoding = 'raw', content = ?2 WHERE rowid = ?1", body)?;
        }
        transaction.commit()
    };
    store().map_err(failed(database))
}

pub(super) fn unreadable(column: usize, error: Unpackable) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error))
}

/// Ids of dictionaries of this program that the home lacks or has with other bytes.
pub(super) fn missing(connection: &Connection) -> rusqlite::Result<Vec<u32>> {
    let sql = "SELECT 1 FROM dictionaries WHERE id = ?1 AND bytes = ?2";
    let is_there = |(id, bytes): &(u32, &[u8])| connection.prepare_cached(sql)?.exists((id, bytes));
    let mut missing = vec![];
    for own in OWN {
        if !is_there(&own)? {
            missing.push(own.0);
        }
    }
    Ok(missing)
}

/// The same without templates that nothing in the home needs: the home may be older than they are.
pub(super) fn lost(connection: &Connection) -> rusqlite::Result<Vec<u32>> {
    let exists = |sql: &str| connection.prepare(sql)?.exists([]);
    let mut lost = missing(connection)?;
    if lost.contains(&OF_TEMPLATES) && !exists("SELECT 1 FROM dictionaries WHERE id = 3")? {
        let needs =
            |table| exists(&format!("SELECT 1 FROM {table} WHERE substr(packed, 1, 1) = x'0b'")).unwrap_or(false);
        let is_needed = ["entries", "view_runs", "view_receipts"].into_iter().any(needs);
        lost.retain(|id| is_needed || *id != OF_TEMPLATES);
    }
    Ok(lost)
}

/// Writes the dictionaries of this program where they are missing or have other bytes.
pub(super) fn write(connection: &Connection) -> rusqlite::Result<()> {
    for own in OWN {
        connection.execute("INSERT OR REPLACE INTO dictionaries(id, bytes) VALUES (?1, ?2)", own)?;
    }
    Ok(())
}

//! Files with the rows of a first load: CSV, JSONL, or a table of another SQLite file. Knows the columns that
//! it is to read; not what becomes of them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::ValueRef;

use crate::ports::{PortError, PortResult, RowSource, SeedRow};
use crate::pure::formats::native::column_value;
use crate::pure::schema::{Column, ColumnType, Table};
use crate::pure::seq::Seq;
use crate::pure::sql::quote_identifier;
use crate::pure::value::Value;

/// The column that carries a row's own sequence, where a file has it and the table has none of that name.
pub const SEQ_COLUMN: &str = "source_seq";

/// A file to load, by its form.
pub enum RowFile {
    Csv(PathBuf),
    Jsonl(PathBuf),
    Sqlite { file: PathBuf, table: String },
}

impl RowFile {
    /// `FILE.csv`, `FILE.jsonl`, or `sqlite:FILE#table`.
    pub fn parse(text: &str) -> PortResult<Self> {
        let wrong = || {
            PortError::permanent(format!("--from {text}: the form of the file is not known"))
                .with_hint("name FILE.csv, FILE.jsonl, or sqlite:FILE#table")
        };
        if let Some(rest) = text.strip_prefix("sqlite:") {
            let (file, table) = rest.rsplit_once('#').ok_or_else(wrong)?;
            return Ok(RowFile::Sqlite { file: file.into(), table: table.to_owned() });
        }
        match Path::new(text).extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(RowFile::Csv(text.into())),
            Some("jsonl") => Ok(RowFile::Jsonl(text.into())),
            _ => Err(wrong()),
        }
    }

    /// Opens it for the rows of `table`. `progress` is told how many bytes, or rows of SQLite, were read.
    pub fn open(self, table: Arc<Table>, progress: Box<dyn FnMut(u64)>) -> RowReader {
        RowReader { file: self, table, progress }
    }

    /// What [`open`](RowFile::open)'s `progress` will sum up to, where that is known.
    pub fn length(&self) -> Option<u64> {
        match self {
            RowFile::Csv(file) | RowFile::Jsonl(file) => std::fs::metadata(file).ok().map(|file| file.len()),
            RowFile::Sqlite { .. } => None,
        }
    }
}

/// Reads the rows of one file.
pub struct RowReader {
    file: RowFile,
    table: Arc<Table>,
    progress: Box<dyn FnMut(u64)>,
}

impl RowSource for RowReader {
    fn each(&mut self, sink: &mut dyn FnMut(SeedRow) -> PortResult<()>) -> PortResult<()> {
        match &self.file {
            RowFile::Csv(file) => csv_rows(file, &self.table, &mut self.progress, sink),
            RowFile::Jsonl(file) => jsonl_rows(file, &self.table, &mut self.progress, sink),
            RowFile::Sqlite { file, table } => {
                sqlite_rows(file, table, &self.table, &mut self.progress, sink)
            }
        }
    }
}

type Sink<'a> = &'a mut dyn FnMut(SeedRow) -> PortResult<()>;

fn at(file: &Path, place: impl std::fmt::Display, what: impl std::fmt::Display) -> PortError {
    PortError::permanent(format!("{}: {place}: {what}", file.display()))
        .with_hint("correct the file; nothing was loaded")
}

fn open(file: &Path) -> PortResult<File> {
    File::open(file).map_err(|error| {
        PortError::permanent(format!("{}: {error}", file.display()))
            .with_hint("name a readable file in --from")
    })
}

/// Counts the bytes that pass.
struct Counting<'a, R> {
    inner: R,
    progress: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}

fn csv_rows(file: &Path, table: &Table, progress: &mut dyn FnMut(u64), sink: Sink<'_>) -> PortResult<()> {
    let mut reader = csv::Reader::from_reader(Counting { inner: open(file)?, progress });
    let header = reader.headers().map_err(|error| at(file, "header", error))?.clone();
    let position = |name: &str| header.iter().position(|column| column == name);
    let columns: Vec<usize> = table
        .columns
        .iter()
        .map(|column| {
            position(&column.name)
                .ok_or_else(|| at(file, "header", format!("column {} is missing", column.name)))
        })
        .collect::<PortResult<_>>()?;
    let seq_column = position(SEQ_COLUMN);
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        let more =
            reader.read_record(&mut record).map_err(|error| at(file, format!("line {line}"), error))?;
        if !more {
            return Ok(());
        }
        let place = format!("line {line}");
        let field = |index: usize| record.get(index).unwrap_or_default();
        let row = table
            .columns
            .iter()
            .zip(&columns)
            .map(|(column, &index)| csv_value(column, field(index)).map_err(|what| at(file, &place, what)))
            .collect::<PortResult<_>>()?;
        let seq = seq_column
            .map(|index| {
                field(index).parse().map_err(|_| at(file, &place, format!("{SEQ_COLUMN} is no sequence")))
            })
            .transpose()?;
        sink(SeedRow { row, seq, place: format!("{}: {place}", file.display()) })?;
    }
}

/// A CSV field: an empty one is null where the column allows it and is no text.
fn csv_value(column: &Column, text: &str) -> Result<Value, String> {
    let json = match column.column_type {
        ColumnType::Integer | ColumnType::Date if text.is_empty() => serde_json::Value::Null,
        ColumnType::Integer => text
            .parse::<i64>()
            .map(Into::into)
            .map_err(|_| format!("{} is {text:?}, it must be an integer of 64 bits", column.name))?,
        ColumnType::Text | ColumnType::Date => text.into(),
    };
    column_value(column, &json).map_err(|(_, detail)| detail)
}

fn jsonl_rows(file: &Path, table: &Table, progress: &mut dyn FnMut(u64), sink: Sink<'_>) -> PortResult<()> {
    let reader = BufReader::with_capacity(1 << 20, Counting { inner: open(file)?, progress });
    for (index, line) in reader.lines().enumerate() {
        let place = format!("line {}", index + 1);
        let line = line.map_err(|error| at(file, &place, error))?;
        if line.trim().is_empty() {
            continue;
        }
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&line).map_err(|error| at(file, &place, error))?;
        let row = table
            .columns
            .iter()
            .map(|column| {
                let json = object
                    .get(&*column.name)
                    .ok_or_else(|| at(file, &place, format!("column {} is missing", column.name)))?;
                column_value(column, json).map_err(|(_, detail)| at(file, &place, detail))
            })
            .collect::<PortResult<_>>()?;
        let seq = match object.get(SEQ_COLUMN) {
            None | Some(serde_json::Value::Null) => None,
            Some(json) => Some(
                json.as_u64()
                    .map(Seq::at)
                    .ok_or_else(|| at(file, &place, format!("{SEQ_COLUMN} is no sequence")))?,
            ),
        };
        sink(SeedRow { row, seq, place: format!("{}: {place}", file.display()) })?;
    }
    Ok(())
}

fn sqlite_rows(
    file: &Path,
    source: &str,
    table: &Table,
    progress: &mut dyn FnMut(u64),
    sink: Sink<'_>,
) -> PortResult<()> {
    let fail = |error: rusqlite::Error| at(file, source, error);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(file, flags).map_err(fail)?;
    let mut columns: Vec<String> =
        table.columns.iter().map(|column| quote_identifier(&column.name)).collect();
    if column_exists(&connection, source)? {
        columns.push(quote_identifier(SEQ_COLUMN));
    }
    let mut statement = connection
        .prepare(&format!("SELECT {} FROM {}", columns.join(", "), quote_identifier(source)))
        .map_err(fail)?;
    let mut rows = statement.query([]).map_err(fail)?;
    let mut number = 0u64;
    while let Some(found) = rows.next().map_err(fail)? {
        number += 1;
        let place = format!("{source} row {number}");
        let json = |index: usize| -> PortResult<serde_json::Value> {
            Ok(match found.get_ref(index).map_err(fail)? {
                ValueRef::Null => serde_json::Value::Null,
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(bytes) => {
                    std::str::from_utf8(bytes).map_err(|error| at(file, &place, error))?.into()
                }
                ValueRef::Blob(_) => serde_json::Value::Array(Vec::new()),
            })
        };
        let row = table
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                column_value(column, &json(index)?).map_err(|(_, detail)| at(file, &place, detail))
            })
            .collect::<PortResult<_>>()?;
        let seq = if columns.len() > table.columns.len() {
            json(table.columns.len())?.as_u64().map(Seq::at)
        } else {
            None
        };
        progress(1);
        sink(SeedRow { row, seq, place: format!("{}: {place}", file.display()) })?;
    }
    Ok(())
}

/// A quoted name that is no column would read as text.
fn column_exists(connection: &rusqlite::Connection, source: &str) -> PortResult<bool> {
    connection
        .query_row(
            "SELECT count(*) > 0 FROM pragma_table_info(?1) WHERE name = ?2",
            [source, SEQ_COLUMN],
            |row| row.get(0),
        )
        .map_err(|error| PortError::permanent(format!("{source}: {error}")))
}

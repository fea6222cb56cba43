//! The auditor's reader of log records. It shares no code with production's reader and writer, so that a defect there cannot hide itself.

use super::PUBLISHER_BITS;

/// Bytes before the first record of a kdb+ log.
pub const HEAD_BYTES: usize = 8;

/// Tables of a simulated day.
pub const TABLES: [&str; 2] = ["trade", "quote"];

/// First columns of each table, with their types.
pub const COLUMNS: [(&str, i8); 4] = [("time", 16), ("sym", 11), ("id", 7), ("row", 7)];

/// Most columns that may be added to a table: `x1`, `x2`, … of longs, with the update's id in each row.
pub const MAX_EXTRAS: usize = 3;

/// Number of added columns of each table.
pub type Extras = [usize; TABLES.len()];

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An update with rows.
    Update,
    /// Adds columns to its table, up to `extras`.
    Change,
    /// The number that a publisher gave to the next update, whose id the record names.
    Number,
}

/// Text of the function in a record with a number.
const NUMBER_FUNCTION: &[u8] = b"{[user;publisher;seq;hash]}";

/// Place of a record that belongs to no table.
const NO_TABLE: usize = usize::MAX;

/// One update as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Id that its publisher gave it, found in each of its rows.
    pub id: u64,
    /// Index in [`TABLES`].
    pub table: usize,
    /// Symbol of each row, as its number.
    pub syms: Vec<u8>,
    /// Value of the time column in every row.
    pub time_ns: i64,
    /// Number of added columns.
    pub extras: usize,
    pub kind: Kind,
    /// Offset of the first byte behind it in the file.
    pub end: usize,
}

/// Cursor over the bytes of a record.
struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn int(&mut self) -> Option<usize> {
        let four: [u8; 4] = self.take(4)?.try_into().ok()?;
        usize::try_from(i32::from_le_bytes(four)).ok()
    }

    fn long(&mut self) -> Option<i64> {
        let eight: [u8; 8] = self.take(8)?.try_into().ok()?;
        Some(i64::from_le_bytes(eight))
    }

    /// Returns the text up to its NUL.
    fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        self.at = self.at.checked_add(length)?.checked_add(1)?;
        rest.get(..length)
    }
}

/// Reason why no record could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The bytes end inside the record.
    Short,
    /// No simulated publisher could have sent the record.
    Strange(String),
}

/// Reads the record at offset `at`.
///
/// # Errors
/// [`Unread`].
pub fn read(bytes: &[u8], at: usize) -> Result<Record, Unread> {
    let mut from = Bytes { bytes, at };
    let strange = |what: &str| Unread::Strange(format!("{what} in the record at byte {at}"));
    let head = from.take(6).ok_or(Unread::Short)?;
    if head == [0, 0, 5, 0, 0, 0] {
        let id = numbered(&mut from).ok_or(Unread::Short)?.map_err(strange)?;
        let (table, end) = (NO_TABLE, from.at);
        return Ok(Record { id, table, syms: Vec::new(), time_ns: 0, extras: 0, kind: Kind::Number, end });
    }
    if head != [0, 0, 3, 0, 0, 0] {
        return Err(strange("no list of three"));
    }
    let mut name = || -> Result<Vec<u8>, Unread> {
        if from.byte().ok_or(Unread::Short)? != 245 {
            return Err(Unread::Strange(format!("no symbol in the record at byte {at}")));
        }
        Ok(from.text().ok_or(Unread::Short)?.to_vec())
    };
    let function = name()?;
    let table = name()?;
    let table = TABLES.iter().position(|known| known.as_bytes() == table).ok_or_else(|| strange("another table"))?;
    match function.as_slice() {
        b"upd" => {}
        b".u.schema" => {
            let extras = change(&mut from).ok_or(Unread::Short)?.map_err(|what| strange(&what))?;
            let end = from.at;
            return Ok(Record { id: 0, table, syms: Vec::new(), time_ns: 0, extras, kind: Kind::Change, end });
        }
        _ => return Err(strange("another function than upd and .u.schema")),
    }
    if from.take(2).ok_or(Unread::Short)? != [0, 0] {
        return Err(strange("no list of columns"));
    }
    let columns = from.int().ok_or(Unread::Short)?;
    let extras = columns.checked_sub(COLUMNS.len()).filter(|extras| *extras <= MAX_EXTRAS);
    let extras = extras.ok_or_else(|| strange("a list of so many columns"))?;
    let column = |ty: u8, from: &mut Bytes<'_>| -> Result<usize, Unread> {
        let found = from.byte().ok_or(Unread::Short)?;
        from.byte().ok_or(Unread::Short)?;
        let count = from.int().ok_or(Unread::Short)?;
        if found == ty { Ok(count) } else { Err(Unread::Strange(format!("a column of type {found} at byte {at}"))) }
    };
    let rows = column(16, &mut from)?;
    let time_ns = same(rows, &mut from)?.map_err(|()| strange("rows of two moments"))?;
    if column(11, &mut from)? != rows {
        return Err(strange("columns of other lengths"));
    }
    let mut syms = Vec::new();
    for _ in 0..rows {
        let text = from.text().ok_or(Unread::Short)?;
        let number =
            std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix('s')).and_then(|n| n.parse().ok());
        syms.push(number.ok_or_else(|| strange("another symbol"))?);
    }
    if column(7, &mut from)? != rows {
        return Err(strange("columns of other lengths"));
    }
    let id = same(rows, &mut from)?.map_err(|()| strange("rows of two updates"))?;
    if column(7, &mut from)? != rows {
        return Err(strange("columns of other lengths"));
    }
    for row in 0..rows {
        if from.long().ok_or(Unread::Short)? != i64::try_from(row).unwrap_or(-1) {
            return Err(strange("rows in another order"));
        }
    }
    let id = id.ok_or_else(|| strange("no rows"))?;
    for _ in 0..extras {
        if column(7, &mut from)? != rows {
            return Err(strange("columns of other lengths"));
        }
        for _ in 0..rows {
            if from.long().ok_or(Unread::Short)? != id {
                return Err(strange("another number in a column that was added"));
            }
        }
    }
    let id = u64::try_from(id).map_err(|_| strange("no rows"))?;
    let time_ns = time_ns.unwrap_or_default();
    Ok(Record { id, table, syms, time_ns, extras, kind: Kind::Update, end: from.at })
}

/// Reads a column's items, which must be equal. Returns them as one; `None` without rows.
fn same(rows: usize, from: &mut Bytes<'_>) -> Result<Result<Option<i64>, ()>, Unread> {
    let mut all = None;
    for _ in 0..rows {
        let own = from.long().ok_or(Unread::Short)?;
        if all.replace(own).is_some_and(|before| before != own) {
            return Ok(Err(()));
        }
    }
    Ok(Ok(all))
}

/// Reads the rest of a record with a number and returns the id of its update; `None` if the bytes end inside it.
fn numbered(from: &mut Bytes<'_>) -> Option<Result<u64, &'static str>> {
    if from.take(4)? != [100, 0, 10, 0] || from.int()? != NUMBER_FUNCTION.len() {
        return Some(Err("no function of a number"));
    }
    if from.take(NUMBER_FUNCTION.len())? != NUMBER_FUNCTION {
        return Some(Err("another function in a list of five"));
    }
    let mut names = [Vec::new(), Vec::new()];
    for name in &mut names {
        if from.byte()? != 245 {
            return Some(Err("no symbol before a number"));
        }
        *name = from.text()?.to_vec();
    }
    let mut longs = [0; 2];
    for long in &mut longs {
        if from.byte()? != 249 {
            return Some(Err("no number"));
        }
        *long = from.long()?;
    }
    let ([_, publisher], [seq, _]) = (names, longs);
    let publisher =
        std::str::from_utf8(&publisher).ok().and_then(|name| name.strip_prefix("feed")?.parse::<u64>().ok());
    let id = publisher.zip(u64::try_from(seq).ok()).map(|(publisher, seq)| (publisher << PUBLISHER_BITS) | seq);
    Some(id.ok_or("another publisher's number"))
}

/// Reads the empty table of a schema change and returns its number of added columns; `None` if the bytes end inside it.
fn change(from: &mut Bytes<'_>) -> Option<Result<usize, String>> {
    if from.take(5)? != [98, 0, 99, 11, 0] {
        return Some(Err("no table".to_string()));
    }
    let count = from.int()?;
    let Some(extras) = count.checked_sub(COLUMNS.len()).filter(|extras| *extras <= MAX_EXTRAS) else {
        return Some(Err("a table of so many columns".to_string()));
    };
    let added = (1..=extras).map(|number| (format!("x{number}"), 7));
    let columns: Vec<(String, i8)> = COLUMNS.iter().map(|(name, ty)| ((*name).to_string(), *ty)).chain(added).collect();
    for (name, _) in &columns {
        if from.text()? != name.as_bytes() {
            return Some(Err("a column of another name".to_string()));
        }
    }
    if from.take(2)? != [0, 0] || from.int()? != count {
        return Some(Err("no columns".to_string()));
    }
    for (_, ty) in &columns {
        let found = from.byte()?;
        from.byte()?;
        if i8::from_le_bytes([found]) != *ty || from.int()? != 0 {
            return Some(Err("a column of another type, or with rows".to_string()));
        }
    }
    Some(Ok(extras))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_record_is_distinguished_from_an_invalid_one() {
        assert_eq!(read(&[0, 0, 3], 0), Err(Unread::Short));
        assert!(matches!(read(&[0, 0, 2, 0, 0, 0, 245], 0), Err(Unread::Strange(_))));
    }
}

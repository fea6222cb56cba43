//! Updates with the id and sequence number of their publisher: `` (".u.upd";`trade;data;`feed1;42) ``.

use super::call::{self, Call};
use super::{Accepted, Batch, Refusal, Rules, Stamp, Tables, publish};
use crate::log::{Sequence, set_hash};
use proto::{Endian, Limits, types, walk};

/// A publisher's call that returns the index of the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequenced<'a> {
    pub call: Call<'a>,
    /// Id and number; `None` in `` (".u.upd";`trade;data;`) ``, which only requests the index.
    pub number: Option<(&'a [u8], i64)>,
}

/// Returns the call in a little-endian message body, `None` for any other message. The data's structure is validated, because the end of the
/// data is the start of the id.
pub fn recognise<'a>(body: &'a [u8], limits: &Limits) -> Option<Sequenced<'a>> {
    let (count, table, rest) = call::longer(body).filter(|(count, ..)| matches!(count, 4 | 5))?;
    let (data, rest) = rest.split_at_checked(walk::object(rest, Endian::Little, limits).ok()?)?;
    let rest = rest.strip_prefix(&[types::SYMBOL_ATOM.cast_unsigned()])?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (publisher, rest) = (rest.get(..end)?, rest.get(end.checked_add(1)?..)?);
    let number = match (count, rest.split_first()) {
        (4, None) => None,
        (5, Some((ty, seq))) if ty.cast_signed() == types::LONG.checked_neg()? => {
            Some((publisher, i64::from_le_bytes(seq.try_into().ok()?)))
        }
        _ => return None,
    };
    // An id without a number is an error, which the general path reports.
    (number.is_some() || publisher.is_empty()).then_some(Sequenced { call: Call { table, data }, number })
}

/// As [`publish`], with the record of the sequence number before the update's. An update without rows leaves only that record.
///
/// # Errors
/// Why the update is rejected; the batch is unchanged.
pub fn publish_sequenced(
    tables: &Tables,
    (call, sequence): (&Call<'_>, &Sequence<'_>),
    stamp: Stamp,
    rules: Rules<'_>,
    batch: &mut Batch,
) -> Result<Accepted, Refusal> {
    let mut record = Vec::new();
    sequence.append(&mut record).map_err(|error| Refusal {
        table: call.table.to_vec(),
        reason: super::Reason::Sequence { term: "limit", text: error.to_string() },
    })?;
    let place = batch.push_other(&record);
    let published = publish(tables, call, stamp, rules, batch);
    match &published {
        Ok(Accepted { update, .. }) if update.rows > 0 => {
            set_hash(&mut record, batch.columns(update));
            batch.set_other(place, &record);
        }
        Ok(_) => {}
        Err(_) => batch.take_back_other(place),
    }
    published
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Value, encode};

    fn body(items: impl IntoIterator<Item = Value>) -> Vec<u8> {
        let mut body = Vec::new();
        let call = [Value::chars(".u.upd"), Value::symbol("trade")].into_iter().chain(items);
        encode::encode_object(&Value::list(call), &mut body).expect("encodes");
        body
    }

    fn data() -> Value {
        // The bytes of a number may look like those of a symbol or a long.
        Value::list([
            Value::symbols(["a", "b"]),
            Value::longs([i64::from_le_bytes([0xf5, 1, 0, 0xf9, 0, 0, 0xf5, 0]), 2]),
        ])
    }

    /// Id and number in a call.
    type Number = Option<(Vec<u8>, i64)>;

    fn recognised(items: impl IntoIterator<Item = Value>) -> Option<(Vec<u8>, Number)> {
        let body = body(items);
        let found = recognise(&body, &Limits::default())?;
        Some((found.call.data.to_vec(), found.number.map(|(id, seq)| (id.to_vec(), seq))))
    }

    #[test]
    fn an_id_and_a_long_follow_the_data() {
        let mut bytes = Vec::new();
        encode::encode_object(&data(), &mut bytes).expect("encodes");
        let id = || Value::symbol("feed1");
        assert_eq!(recognised([data(), id(), Value::Long(7)]), Some((bytes.clone(), Some((b"feed1".to_vec(), 7)))));
        assert_eq!(recognised([data(), Value::symbol("")]), Some((bytes, None)));
        for other in
            [vec![data()], vec![data(), id()], vec![data(), id(), Value::Int(7)], vec![data(), Value::Long(7), id()]]
        {
            assert_eq!(recognised(other.clone()), None, "{other:?}");
        }
        let whole = body([data(), id(), Value::Long(7)]);
        for end in 0..whole.len() {
            assert_eq!(recognise(&whole[..end], &Limits::default()), None, "{end}");
        }
    }
}

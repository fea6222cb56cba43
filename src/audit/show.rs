//! A query as the audit log shows it: bounded text, or a hash.

use super::record::{Shown, readable};
use crate::config::{AuditQueries, Limit, Limits};
use crate::log::show;
use crate::metrics;
use proto::{Endian, View, types};
use ring::digest;

/// Items shown of a vector or list.
const ITEMS: usize = 8;
/// Bytes of a message that its hash covers: a longer one would delay other clients.
const HASHED_BYTES: usize = 64 << 10;
/// Length of a list of which only the first item, the function, is shown.
const WALKED_BYTES: usize = 64 << 10;
/// Bytes of the head of a char vector on the wire: type, attribute, length.
const CHARS_HEAD: usize = 6;

/// How queries are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Showing {
    queries: AuditQueries,
    text_bytes: usize,
    codec: proto::Limits,
}

impl Showing {
    pub(super) fn new(queries: AuditQueries, limits: &Limits) -> Showing {
        let text_bytes = usize::try_from(limits.audit_text_bytes).unwrap_or(usize::MAX);
        Showing { queries, text_bytes, codec: limits.codec() }
    }

    /// Returns what is recorded of a text.
    pub fn text(&self, text: &[u8]) -> Shown {
        match self.queries {
            AuditQueries::None => Shown::None,
            AuditQueries::Hash => hash(text),
            AuditQueries::Text => {
                let is_cut = text.len() > self.text_bytes;
                if is_cut {
                    metrics::refused(Limit::audit_text_bytes);
                }
                Shown::Text { text: readable(cut(text, self.text_bytes)), is_cut }
            }
        }
    }

    /// Returns what is recorded of a message: the text of an expression; otherwise the function with its arguments.
    pub fn message(&self, view: &View<'_>) -> Shown {
        if let Some(text) = view.chars() {
            return self.text(text);
        }
        match self.queries {
            AuditQueries::None => Shown::None,
            AuditQueries::Hash => hash(view.raw()),
            AuditQueries::Text => {
                let (mut text, mut is_cut) = (String::new(), false);
                put(view, self.text_bytes, &mut text, &mut is_cut);
                if text.len() > self.text_bytes {
                    metrics::refused(Limit::audit_text_bytes);
                    text = readable(cut(text.as_bytes(), self.text_bytes));
                    is_cut = true;
                }
                Shown::Text { text, is_cut }
            }
        }
    }

    /// Cuts the text of an error to the length of a query's.
    pub(super) fn cut_error(&self, error: &mut String) {
        let whole = cut(error.as_bytes(), self.text_bytes).len();
        error.truncate(whole);
    }

    /// As [`Showing::message`], for a message that may be no object.
    pub fn bytes(&self, body: &[u8], endian: Endian) -> Shown {
        if body.first() == Some(&types::CHAR.cast_unsigned()) {
            return self.text(body.get(CHARS_HEAD..).unwrap_or_default());
        }
        if self.queries == AuditQueries::Hash {
            return hash(body);
        }
        match View::parse(body, endian, &self.codec) {
            Ok((view, _)) => self.message(&view),
            Err(_) => Shown::None,
        }
    }
}

/// The beginning of a text, without half a character at its end.
fn cut(text: &[u8], most: usize) -> &[u8] {
    let Some(begin) = text.get(..most) else { return text };
    match str::from_utf8(begin) {
        Err(error) if error.error_len().is_none() => begin.get(..error.valid_up_to()).unwrap_or(begin),
        _ => begin,
    }
}

fn hash(bytes: &[u8]) -> Shown {
    let digest = digest::digest(&digest::SHA256, bytes.get(..HASHED_BYTES).unwrap_or(bytes));
    Shown::Hash(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Appends a value in q's notation, until the text is longer than `most`. Big-endian numbers are shown by their type. Sets `is_cut` if the text
/// does not show all of the value.
fn put(view: &View<'_>, most: usize, out: &mut String, is_cut: &mut bool) {
    if out.len() > most {
        return;
    }
    let short = |text: &[u8]| readable(cut(text, most.saturating_add(1)));
    let ty = view.type_code();
    if let Some(list) = view.list() {
        out.push('(');
        // Every item behind the first costs a walk over those before it.
        let shown = if view.raw().len() > WALKED_BYTES { 1 } else { ITEMS };
        put_items(list.iter().take(shown), most, out, is_cut);
        let is_whole = list.count <= shown;
        *is_cut |= !is_whole;
        out.push_str(if is_whole { ")" } else { ";..)" });
    } else if let Some(chars) = view.chars() {
        out.push('"');
        out.push_str(&short(chars).replace('\\', "\\\\").replace('"', "\\\""));
        out.push('"');
    } else if let Some(symbol) = view.symbol() {
        out.push('`');
        out.push_str(&short(symbol));
    } else if let Some((_, source)) = view.lambda() {
        out.push_str(&short(source));
    } else if (types::PROJECTION..=types::EACH_LEFT).contains(&ty) && view.raw().len() <= WALKED_BYTES {
        put_function(view, most, out, is_cut);
    } else if let Some(vector) = view.vector().filter(|vector| vector.ty == types::SYMBOL) {
        for symbol in vector.symbols().take(ITEMS) {
            out.push('`');
            out.push_str(&short(symbol));
        }
        *is_cut |= vector.count > ITEMS;
        out.push_str(if vector.count > ITEMS { ".." } else { "" });
    } else if view.table().is_some() {
        *is_cut = true;
        out.push_str("<table>");
    } else if view.dict().is_some() {
        *is_cut = true;
        out.push_str("<dictionary>");
    } else if view.endian() == Endian::Little && ty < types::PROJECTION {
        *is_cut |= view.vector().is_some_and(|vector| vector.count > ITEMS);
        show::text(view, ITEMS, out);
    } else {
        *is_cut = true;
        out.push_str(types::name(ty));
    }
}

fn put_items<'a>(items: impl Iterator<Item = View<'a>>, most: usize, out: &mut String, is_cut: &mut bool) {
    for (at, item) in items.enumerate() {
        out.push_str(if at > 0 { ";" } else { "" });
        put(&item, most, out, is_cut);
    }
}

/// Appends a projection, composition or derived function with the code that it is made of.
fn put_function(view: &View<'_>, most: usize, out: &mut String, is_cut: &mut bool) {
    let mut parts = view.parts();
    let end = match view.type_code() {
        types::COMPOSITION => {
            out.push_str("'[");
            put_items(parts.by_ref().take(ITEMS), most, out, is_cut);
            "]"
        }
        ty => {
            parts.by_ref().take(1).for_each(|function| put(&function, most, out, is_cut));
            match ty {
                types::PROJECTION => {
                    out.push('[');
                    put_items(parts.by_ref().take(ITEMS), most, out, is_cut);
                    "]"
                }
                types::EACH => "'",
                types::OVER => "/",
                types::SCAN => "\\",
                types::EACH_PRIOR => "':",
                types::EACH_RIGHT => "/:",
                _ => "\\:",
            }
        }
    };
    *is_cut |= parts.next().is_some();
    out.push_str(end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Value, encode};

    fn showing(queries: AuditQueries, text_bytes: u64) -> Showing {
        Showing::new(queries, &Limits { audit_text_bytes: text_bytes, ..Limits::default() })
    }

    fn object(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        encode::encode_object(value, &mut out).unwrap();
        out
    }

    fn text_of(value: &Value, most: u64) -> (String, bool) {
        match showing(AuditQueries::Text, most).bytes(&object(value), Endian::Little) {
            Shown::Text { text, is_cut } => (text, is_cut),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_expression_is_its_text_and_a_call_looks_as_in_q() {
        assert_eq!(text_of(&Value::chars("1+1"), 100), ("1+1".to_string(), false));
        let call = Value::list([Value::symbol("f"), Value::Long(1), Value::chars("a\"b")]);
        assert_eq!(text_of(&call, 100), ("(`f;1;\"a\\\"b\")".to_string(), false));
    }

    #[test]
    fn code_inside_a_function_is_shown() {
        let lambda = Value::Lambda { namespace: Vec::new(), source: b"{value y}".to_vec() };
        let hidden = Value::chars("evil");
        for (function, wanted) in [
            (Value::Projection(vec![lambda.clone(), hidden.clone()]), "({value y}[\"evil\"];1)"),
            (Value::Composition(vec![lambda.clone(), lambda.clone()]), "('[{value y};{value y}];1)"),
            (Value::Derived(types::OVER, Box::new(lambda.clone())), "({value y}/;1)"),
        ] {
            let call = Value::list([function, Value::Long(1)]);
            assert_eq!(text_of(&call, 100), (wanted.to_string(), false));
        }
    }

    #[test]
    fn what_is_left_out_is_marked() {
        let long = |item: Value| Value::list(std::iter::repeat_n(item, 9));
        let dict = Value::Dict { sorted: false, keys: Box::new(Value::list([])), values: Box::new(Value::list([])) };
        let padded = Value::list([Value::symbol("value"), Value::chars(" ".repeat(WALKED_BYTES))]);
        for value in [long(Value::Long(1)), long(Value::symbol("s")), Value::list([dict]), padded] {
            assert!(text_of(&value, 1000).1, "{value:?}");
        }
    }

    #[test]
    fn a_long_one_is_cut_between_characters() {
        assert_eq!(text_of(&Value::chars("aé"), 2), ("a".to_string(), true));
    }

    #[test]
    fn a_nested_list_costs_no_more_than_its_text() {
        let wide = |inner: Value| Value::list(std::iter::repeat_n(inner, 8));
        let nested = wide(wide(wide(wide(wide(Value::symbol("abcdefgh"))))));
        let (text, is_cut) = text_of(&nested, 64);
        assert!(is_cut && text.len() <= 64, "{text}");
    }

    #[test]
    fn a_hash_is_that_of_the_text() {
        let shown = showing(AuditQueries::Hash, 1).bytes(&object(&Value::chars("abc")), Endian::Little);
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(shown, Shown::Hash(known.to_string()));
        assert_eq!(showing(AuditQueries::None, 9).text(b"abc"), Shown::None);
    }

    #[test]
    fn bytes_that_are_no_object_show_nothing() {
        assert_eq!(showing(AuditQueries::Text, 9).bytes(&[0, 0, 255, 255, 255, 255], Endian::Little), Shown::None);
        assert_eq!(
            showing(AuditQueries::Text, 9).bytes(&[10], Endian::Little),
            Shown::Text { text: String::new(), is_cut: false }
        );
    }
}

//! Search filters (RFC 4515) with places for a user's name. A name is put in after parsing, so it cannot change what is searched for.

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Present(String),
    Equal(String, Vec<Piece>),
    /// `(attribute:rule:=value)`.
    Matches {
        attribute: String,
        rule: String,
        value: Vec<Piece>,
    },
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(Vec<u8>),
    /// `{user}`: the user's name.
    User,
    /// `{dn}`: the distinguished name of the user's entry.
    Dn,
}

impl Piece {
    /// Returns a value with its places filled.
    pub fn fill(pieces: &[Piece], user: &str, dn: &str) -> Vec<u8> {
        let bytes = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::User => user.as_bytes().to_vec(),
            Piece::Dn => dn.as_bytes().to_vec(),
        };
        pieces.iter().flat_map(bytes).collect()
    }
}

/// Maximum nesting of a filter.
const MAX_DEPTH: usize = 16;

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// What is wrong, or not supported: substrings and comparisons.
    pub(super) fn parse(text: &str) -> Result<Filter, String> {
        let mut rest = text.trim();
        let filter = next(&mut rest, MAX_DEPTH).map_err(|reason| format!("filter {text:?}: {reason}"))?;
        match rest.trim().is_empty() {
            true => Ok(filter),
            false => Err(format!("filter {text:?}: text after its end: {rest:?}")),
        }
    }

    /// Whether a value of the filter has this place.
    pub(super) fn has(&self, place: &Piece) -> bool {
        match self {
            Filter::And(all) | Filter::Or(all) => all.iter().any(|filter| filter.has(place)),
            Filter::Not(one) => one.has(place),
            Filter::Present(_) => false,
            Filter::Equal(_, value) | Filter::Matches { value, .. } => value.contains(place),
        }
    }
}

fn next(rest: &mut &str, depth: usize) -> Result<Filter, String> {
    let depth = depth.checked_sub(1).ok_or_else(|| "is nested too deep".to_string())?;
    *rest = rest.trim_start().strip_prefix('(').ok_or_else(|| "expected an opening parenthesis".to_string())?;
    let filter = match rest.as_bytes().first() {
        Some(b'&') => Filter::And(list(rest, depth)?),
        Some(b'|') => Filter::Or(list(rest, depth)?),
        Some(b'!') => {
            *rest = rest.get(1..).unwrap_or_default();
            Filter::Not(Box::new(next(rest, depth)?))
        }
        _ => {
            let end = rest.find(')').ok_or_else(unclosed)?;
            let (item, after) = rest.split_at(end);
            *rest = after;
            comparison(item)?
        }
    };
    *rest = rest.trim_start().strip_prefix(')').ok_or_else(unclosed)?;
    Ok(filter)
}

fn unclosed() -> String {
    "a parenthesis is not closed".to_string()
}

fn list(rest: &mut &str, depth: usize) -> Result<Vec<Filter>, String> {
    *rest = rest.get(1..).unwrap_or_default();
    let mut filters = Vec::new();
    while rest.trim_start().starts_with('(') {
        filters.push(next(rest, depth)?);
    }
    match filters.is_empty() {
        true => Err("& and | need at least one filter".to_string()),
        false => Ok(filters),
    }
}

fn comparison(item: &str) -> Result<Filter, String> {
    let (left, value) = item.split_once('=').ok_or_else(|| format!("{item:?} compares nothing"))?;
    if left.ends_with(['<', '>', '~']) {
        return Err(format!("{item:?}: only = is supported"));
    }
    let (attribute, rule) = match left.strip_suffix(':') {
        Some(left) => left.split_once(':').map(|(attribute, rule)| (attribute, Some(rule))).unwrap_or((left, Some(""))),
        None => (left, None),
    };
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-;".contains(&byte))
    };
    if !is_name(attribute) || rule.is_some_and(|rule| !is_name(rule)) {
        return Err(format!("{item:?}: {left:?} is no attribute"));
    }
    match (rule, value) {
        (None, "*") => Ok(Filter::Present(attribute.to_string())),
        (None, _) => Ok(Filter::Equal(attribute.to_string(), pieces(value)?)),
        (Some(rule), _) => {
            Ok(Filter::Matches { attribute: attribute.to_string(), rule: rule.to_string(), value: pieces(value)? })
        }
    }
}

/// Splits a value at its places; `\28` stands for a parenthesis.
fn pieces(value: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = value;
    while let Some(first) = rest.chars().next() {
        let place = [("{user}", Piece::User), ("{dn}", Piece::Dn)].into_iter().find(|(name, _)| rest.starts_with(name));
        if let Some((name, place)) = place {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(place);
            rest = rest.get(name.len()..).unwrap_or_default();
            continue;
        }
        let used = match first {
            '\\' => {
                let digits = rest.get(1..3).ok_or_else(|| format!("{value:?}: a backslash needs two hex digits"))?;
                let byte = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
                text.push(byte.ok_or_else(|| format!("{value:?}: a backslash needs two hex digits"))?);
                3
            }
            '*' | '{' | '}' | '(' => {
                return Err(format!("{value:?}: {first:?} is not supported; places are {{user}} and {{dn}}"));
            }
            other => {
                text.extend(other.encode_utf8(&mut [0; 4]).bytes());
                other.len_utf8()
            }
        };
        rest = rest.get(used..).unwrap_or_default();
    }
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

//! Mutates expressions of the case files: tokens removed, doubled, swapped, moved between expressions.

/// Splits a text into tokens as far as mutation needs: words with their dots, numbers with their suffixes, symbols, strings, spaces, single
/// glyphs. Concatenated, they are the text.
pub fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '.' || c == '_' || c == ':';
        let length = match first {
            '"' => string_length(rest),
            ' ' => rest.len() - rest.trim_start_matches(' ').len(),
            '`' => 1 + rest[1..].find(|c: char| !word(c)).unwrap_or(rest.len() - 1),
            c if c.is_alphabetic() || c == '.' => {
                rest.find(|c: char| !word(c) || c == ':').unwrap_or(rest.len()).max(1)
            }
            c if c.is_ascii_digit() => rest.find(|c: char| !word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, tail) = rest.split_at(length);
        out.push(token);
        rest = tail;
    }
    out
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return i + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Tokens that replace others or are inserted.
const STRANGE: [&str; 40] = [
    "0N",
    "0W",
    "-1",
    "()",
    "`",
    "\"\"",
    "0n",
    "1b",
    "::",
    ";",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    "/",
    "\\",
    "/:",
    "':",
    ",",
    "!",
    "?",
    "@",
    ".",
    "$",
    "#",
    "_",
    "~",
    "^",
    "0#t",
    "enlist ",
    "each ",
    "neg ",
    "`s#",
    "9223372036854775807",
    "1000000",
    "{x}",
    " ",
];

/// Returns a text made from `tokens` by one to three changes; `other` supplies tokens.
pub fn mutant(tokens: &[&str], other: &[&str], random: &mut fastrand::Rng) -> String {
    let mut own: Vec<String> = tokens.iter().map(|t| (*t).to_owned()).collect();
    for _ in 0..random.usize(1..4) {
        if own.is_empty() {
            break;
        }
        let at = random.usize(0..own.len());
        let to = random.usize(0..own.len());
        match random.u8(0..9) {
            0 => {
                own.remove(at);
            }
            1 => own.swap(at, to),
            2 => own.insert(at, own[to].clone()),
            3 => own[at] = STRANGE[random.usize(0..STRANGE.len())].to_owned(),
            4 => own.insert(at, STRANGE[random.usize(0..STRANGE.len())].to_owned()),
            5 if !other.is_empty() => own[at] = other[random.usize(0..other.len())].to_owned(),
            6 if !other.is_empty() => {
                let start = random.usize(0..other.len());
                let end = random.usize(start..other.len()) + 1;
                own.splice(at..at, other[start..end].iter().map(|t| (*t).to_owned()));
            }
            7 => {
                // The whole of the other expression as an operand.
                own[at] = format!("({})", other.concat());
            }
            8 => own.truncate(at + 1),
            _ => own[at] = number_like(&own[at], random),
        }
    }
    own.concat()
}

/// Returns a number with one digit changed, and any other token in parentheses.
fn number_like(token: &str, random: &mut fastrand::Rng) -> String {
    if !token.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("({token})");
    }
    let at = random.usize(0..token.len());
    let digit = char::from(b'0' + random.u8(0..10));
    token.char_indices().map(|(i, c)| if i == at && c.is_ascii_digit() { digit } else { c }).collect()
}

/// Returns arbitrary bytes: glyphs, any bytes, or a text with bytes changed.
pub fn garbage(text: &str, random: &mut fastrand::Rng) -> Vec<u8> {
    let pieces = b"()[]{};'/\\:`\"+-*%&|^=<>$,#_~!?@.0123456789abcxyz \n\t\0";
    match random.u8(0..4) {
        0 => (0..random.usize(0..40)).map(|_| random.u8(..)).collect(),
        1 => {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..random.usize(1..4) {
                if !bytes.is_empty() {
                    let at = random.usize(0..bytes.len());
                    bytes[at] = random.u8(..);
                }
            }
            bytes
        }
        _ => (0..random.usize(0..40)).map(|_| pieces[random.usize(0..pieces.len())]).collect(),
    }
}

//! A letter applied to text: `"k"@"#:'x"` evaluates the text in that language.

use crate::runtime::context::Context;
use crate::runtime::error::Origin;
use crate::runtime::host::Made;
use crate::runtime::values::Result;
use crate::verbs::above::Evaluate;
use columns::table::Value;
use columns::table::symbol;

/// Text, or the list `(file;line;text)`: loaders of scripts apply the last letter of the file's name to each of its expressions.
pub(super) fn line(x: &Value) -> Option<(Vec<u8>, Option<Origin>)> {
    if let Some(text) = x.as_text() {
        return Some((text.to_vec(), None));
    }
    if x.count() != 3 {
        return None;
    }
    let file = match x.at(0) {
        Value::Sym(name) => symbol::text(name).to_vec(),
        text => text.as_text()?.to_vec(),
    };
    let line = u32::try_from(x.at(1).as_long()?).ok()?;
    Some((x.at(2).as_text()?.to_vec(), Some(Origin { file: file.into(), line, column: 0 })))
}

/// Evaluates text as the line `q)text`, `k)text` or, with the function `.p.e`, `p)text` of a script.
pub(super) fn evaluate(context: &mut Context, letter: u8, text: &[u8], origin: Option<Origin>) -> Result {
    let line = match letter {
        b'q' => text.to_vec(),
        _ => [&[letter, b')'], text].concat(),
    };
    context.host.makes_code(Made::Text(&line))?;
    let (value, shown) = context.line(&line, origin)?;
    Ok(if shown { value } else { Value::Null })
}

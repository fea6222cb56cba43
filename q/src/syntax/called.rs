//! Recognises messages that call one named function with plain values, for allow-lists.

use crate::syntax::ast::{Kind, Node};
use crate::syntax::parse;
use columns::table::{Items, Sym, Value, Vector};

/// Returns the function that a message calls, and its arguments; `None` for anything beyond such a call. Accepted forms:
/// ``(`f;x;y)``, `` `f ``, and the texts `f[x;y]`, `f x` and `f` with literals as arguments.
pub fn called(message: &Value) -> Option<(Sym, Vec<Value>)> {
    match message {
        Value::Sym(name) => Some((*name, Vec::new())),
        Value::Vector(Vector { items: Items::Sym(names), .. }) => {
            let (name, arguments) = names.split_first()?;
            Some((*name, arguments.iter().map(|s| Value::Sym(*s)).collect()))
        }
        Value::Vector(Vector { items: Items::List(list), .. }) => match list.split_first()? {
            (Value::Sym(name), arguments) => Some((*name, arguments.to_vec())),
            (head, arguments) => {
                let (name, given) = written(head.as_text()?)?;
                given.is_empty().then(|| (name, arguments.to_vec()))
            }
        },
        text => written(text.as_text()?),
    }
}

fn written(text: &[u8]) -> Option<(Sym, Vec<Value>)> {
    let program = parse::program(text, Sym::NULL).ok()?;
    let [statement] = &program.code.body[..] else { return None };
    match &statement.kind {
        Kind::Global(name) | Kind::Name(name) => Some((*name, Vec::new())),
        Kind::Apply(function, arguments) => {
            let (Kind::Global(name) | Kind::Name(name)) = &function.kind else { return None };
            let arguments = arguments.iter().map(|argument| literal(argument.as_ref()?)).collect::<Option<_>>()?;
            Some((*name, arguments))
        }
        _ => None,
    }
}

/// The value of a literal or a list of literals.
fn literal(node: &Node) -> Option<Value> {
    match &node.kind {
        Kind::Const(Value::Func(_)) => None,
        Kind::Const(value) => Some(value.clone()),
        Kind::List(nodes) => Some(Value::collapse(nodes.iter().map(literal).collect::<Option<_>>()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_line;
    use columns::table::symbol;

    fn shown(message: &Value) -> Option<String> {
        let (name, arguments) = called(message)?;
        let shown = |v: &Value| String::from_utf8_lossy(&one_line(v)).into_owned();
        let arguments: Vec<String> = arguments.iter().map(shown).collect();
        Some(format!("{} {}", String::from_utf8_lossy(symbol::text(name)), arguments.join(" ")))
    }

    #[test]
    fn calls_with_literals_are_known() {
        for (text, expected) in [
            ("f[1;`a]", "f 1 `a"),
            ("f `a`b", "f `a`b"),
            (".api.vwap[`IBM;(2024.01.01;\"x\")]", ".api.vwap `IBM (2024.01.01;\"x\")"),
            ("f[-1]", "f -1"),
            ("f", "f "),
            ("f \"text\"", "f \"text\""),
        ] {
            assert_eq!(shown(&Value::chars(text.as_bytes())).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn anything_more_is_no_call() {
        for text in [
            "f[g 1]",
            "f[1];g 2",
            "{x}[1]",
            "f[x]",
            "1+1",
            "a:f 1",
            "f[{x}]",
            "f[;1]",
            "select from t",
            "(f;1)",
            "\\ls",
            "f[+]",
        ] {
            assert_eq!(shown(&Value::chars(text.as_bytes())), None, "{text}");
        }
    }

    #[test]
    fn a_list_calls_by_symbol_or_name() {
        let f = symbol::intern(b"f").expect("room");
        let list = |head: Value| Value::list(vec![head, Value::chars(&b"exit 0"[..]), Value::Long(1)]);
        assert_eq!(shown(&list(Value::Sym(f))).as_deref(), Some("f \"exit 0\" 1"));
        assert_eq!(shown(&list(Value::chars(&b"f"[..]))).as_deref(), Some("f \"exit 0\" 1"));
        assert_eq!(shown(&list(Value::chars(&b"{x}"[..]))), None);
        assert_eq!(shown(&list(Value::chars(&b"f 1"[..]))), None);
    }
}

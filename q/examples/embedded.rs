//! q inside a program: data of the program's own becomes a table, and each argument is an expression over it, with a limit of time and
//! memory: `cargo run -p elastick-q --example embedded -- "select max price by sym from trade"`.

use columns::table::{Items, Sym, Table, Value, Vector, symbol};
use elastick_q::session::Session;
use elastick_q::{Console, Host, Limits, QError, eval_text, show};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let mut session = Session::new();
    if let Err(error) = name(b"trade").and_then(|trade| session.assign(trade, trades()?)) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given = if given.is_empty() { vec!["select max price by sym from trade".to_string()] } else { given };
    for expression in given {
        let deadline = Some(Instant::now() + Duration::from_secs(3));
        let limits = Limits { deadline, memory_bytes: 64 << 20, ..Limits::default() };
        match eval_text(&mut session, expression.as_bytes(), &limits) {
            Ok(value) => print!("{}", String::from_utf8_lossy(&show(&value, &Console::default()))),
            Err(error) => eprintln!("{error}"),
        }
    }
    ExitCode::SUCCESS
}

fn name(text: &[u8]) -> Result<Sym, QError> {
    symbol::intern(text).map_err(|full| QError::with("limit", full.to_string()))
}

/// A table of three rows.
fn trades() -> Result<Value, QError> {
    let syms = [b"A", b"B", b"A"].into_iter().map(|sym| name(sym)).collect::<Result<Vec<Sym>, QError>>()?;
    let columns = vec![Vector::from(Items::Sym(syms.into())), Vector::from(Items::Float(vec![1.5, 2.5, 3.5].into()))];
    Ok(Value::Table(Arc::new(Table { sorted: false, names: vec![name(b"sym")?, name(b"price")?], columns })))
}

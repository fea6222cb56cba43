//! Publishes two trades to a tickerplant: `cargo run --example publish -- localhost:5010`.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use elastick_proto::{Limits, MessageKind, Value, decode, encode, handshake};

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("localhost:5010".into());
    let mut socket = TcpStream::connect(address)?;

    // Login: the server replies with one byte, or closes the connection.
    socket.write_all(&handshake::hello(b"feed", b"", handshake::CAPABILITY))?;
    socket.read_exact(&mut [0])?;

    // (".u.upd"; `trade; columns): one row per trade, in the columns of elastick's default schema; the tickerplant adds the time.
    let update = Value::list([
        Value::chars(".u.upd"),
        Value::symbol("trade"),
        Value::list([
            Value::symbols(["AAPL", "MSFT"]),
            Value::floats([231.5, 412.25]),
            Value::longs([100, 200]),
            Value::chars("BS"),
            Value::symbols(["Q", "Q"]),
        ]),
    ]);
    // A sync request: the response shows whether the update was accepted. A feed sends async messages, and a sync request now and then.
    socket.write_all(&encode::message(MessageKind::Sync, &update).map_err(io::Error::other)?)?;
    let mut message = vec![0; elastick_proto::HEADER_BYTES];
    socket.read_exact(&mut message)?;
    let header = elastick_proto::Header::parse(&message).map_err(io::Error::other)?;
    socket.take(header.total_bytes - message.len() as u64).read_to_end(&mut message)?;
    let (_, answer) = decode::message(&message, &Limits::default()).map_err(io::Error::other)?;
    match answer.as_error() {
        Some(error) => Err(io::Error::other(format!("the tickerplant rejected it: '{}", error.escape_ascii()))),
        None => {
            println!("published");
            Ok(())
        }
    }
}

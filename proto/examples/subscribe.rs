//! Subscribes to all tables and prints what arrives: `cargo run --example subscribe -- localhost:5010`.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use elastick_proto::{Compression, compress, encode, handshake};
use elastick_proto::{Endian, FrameReader, HEADER_BYTES, Limits, MessageKind, Value, View};

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("localhost:5010".into());
    let mut socket = TcpStream::connect(address)?;
    socket.write_all(&handshake::hello(b"", b"", handshake::CAPABILITY))?;
    socket.read_exact(&mut [0])?;

    // .u.sub[`;`]: every table, every symbol. The response is a list of (name; empty table).
    let request = Value::list([Value::chars(".u.sub"), Value::symbol(""), Value::symbol("")]);
    socket.write_all(&encode::message(MessageKind::Sync, &request).map_err(io::Error::other)?)?;

    let mut reader = FrameReader::new(Limits::default());
    loop {
        let count = socket.read(reader.spare())?;
        if count == 0 {
            return Ok(());
        }
        reader.filled(count);
        while let Some((header, message)) = reader.next().map_err(io::Error::other)? {
            if header.compression == Compression::None {
                print(message, header.endian)?;
            } else {
                let plain = compress::decompress(message, &Limits::default()).map_err(io::Error::other)?;
                print(&plain, header.endian)?;
            }
        }
    }
}

/// Prints an update `(upd; table; rows)` as one line, read in place; other messages as values.
fn print(message: &[u8], endian: Endian) -> io::Result<()> {
    let body = message.get(HEADER_BYTES..).unwrap_or_default();
    let (view, _) = View::parse(body, endian, &Limits::default()).map_err(io::Error::other)?;
    let parts = view.list().filter(|list| list.count >= 3);
    let update = parts.and_then(|parts| {
        let mut parts = parts.iter();
        Some((parts.next()?.text()?, parts.next()?.text()?, parts.next()?.table()?))
    });
    match update {
        Some((function, table, rows)) => {
            println!("{} {}: {} rows", function.escape_ascii(), table.escape_ascii(), rows.rows());
        }
        None => println!("{:?}", view.to_value()),
    }
    Ok(())
}

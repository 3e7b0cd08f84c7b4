#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const KNOWN: u8 = b'k';

/// Echoes bytes; an end that sends [`KNOWN`] first is a known one.
async fn echo(mut stream: TcpStream, admitted: &Admitted) -> Result<()> {
    loop {
        let byte = stream.read_u8().await?;
        if byte == KNOWN {
            assert!(admitted.prove("known"));
        }
        stream.write_u8(byte).await?;
    }
}

async fn echoed(stream: &mut TcpStream, byte: u8) -> bool {
    stream.write_u8(byte).await.is_ok() && stream.read_u8().await.is_ok_and(|read| read == byte)
}

#[tokio::test]
async fn idle_connections_keep_no_known_end_out_and_never_end_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let start = |arrival: Arrival| drop(tokio::spawn(arrival.serve(echo)));
    tokio::spawn(async move { accept(listener, "a test", start).await });
    let mut strangers = Vec::new();
    for _ in 0..200 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    let mut known = TcpStream::connect(address).await.unwrap();
    assert!(echoed(&mut known, KNOWN).await);
    for _ in 0..200 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(echoed(&mut known, b'x').await);
    // All but the last of the strangers are closed, though none of them has asked for anything.
    strangers.truncate(400 - LIMITS.unauthenticated_per_address);
    for mut stranger in strangers {
        assert!(stranger.read_u8().await.is_err());
    }
}

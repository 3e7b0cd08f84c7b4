//! Processor cost of TCP alone: a server that only receives requests and answers each from memory, with the lengths of
//! cached 4 KiB reads over NVMe/TCP. It is a lower bound for every target over the same connection.

use crate::bench::{self, Options};
use crate::stats;
use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Requests in flight.
const DEPTH: usize = 32;
/// A command capsule; data header, data, and a response capsule, as for a host with flow control.
const REQUEST_BYTES: usize = 72;
const HEADER_BYTES: usize = 24;
const DATA_BYTES: usize = 4096;
const ANSWER_BYTES: usize = HEADER_BYTES + DATA_BYTES + HEADER_BYTES;
/// Memory of the answers, in random order, so that no processor cache contains them.
const MEMORY_BYTES: usize = 64 << 20;

/// Processor time of the server for each answer in microseconds: the median of the rounds. The calling thread stays on
/// the client's core.
///
/// # Errors
/// The system's error.
pub fn measure(options: Options) -> Result<f64> {
    let rounds: Result<Vec<f64>> = (0..options.rounds).map(|_| round(options)).collect();
    Ok(stats::middle(rounds?).context("no round was measured")?.median)
}

fn round(options: Options) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || {
        bench::pin(options.target_core)?;
        serve(listener.accept()?.0)
    });
    bench::pin(options.client_core)?;
    let asked = ask(TcpStream::connect(address)?, options.time);
    let (answers, used) = server.join().ok().context("the server has panicked")??;
    ensure!(asked? == answers && answers > 0, "answers were lost");
    Ok(used.as_secs_f64() * 1e6 / answers as f64)
}

/// Answers until the client disconnects; returns the number of answers and the processor time.
fn serve(mut stream: TcpStream) -> Result<(u64, Duration)> {
    stream.set_nodelay(true)?;
    let (memory, header) = (vec![7; MEMORY_BYTES], [0; HEADER_BYTES]);
    let (mut requests, mut held) = (vec![0; DEPTH * REQUEST_BYTES], 0);
    let (mut answers, mut at) = (0_u64, 0_usize);
    let before = thread_time()?;
    loop {
        let received = stream.read(&mut requests[held..])?;
        if received == 0 {
            return Ok((answers, thread_time()?.saturating_sub(before)));
        }
        held += received;
        let count = held / REQUEST_BYTES;
        held %= REQUEST_BYTES;
        let mut slices = Vec::with_capacity(3 * count);
        for _ in 0..count {
            // A step that is coprime to the number of blocks visits all of them.
            at = (at + 9973) % (MEMORY_BYTES / DATA_BYTES);
            let data = &memory[at * DATA_BYTES..][..DATA_BYTES];
            slices.extend([IoSlice::new(&header), IoSlice::new(data), IoSlice::new(&header)]);
        }
        send(&mut stream, &mut slices)?;
        answers += count as u64;
    }
}

fn send(stream: &mut TcpStream, mut slices: &mut [IoSlice<'_>]) -> Result<()> {
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Keeps [`DEPTH`] requests in flight for a time; returns the number of answers.
fn ask(mut stream: TcpStream, time: Duration) -> Result<u64> {
    stream.set_nodelay(true)?;
    let requests = [0; DEPTH * REQUEST_BYTES];
    let mut buffer = vec![0; 1 << 20];
    let (mut answers, mut received, mut in_flight, began) = (0, 0, 0, Instant::now());
    loop {
        if began.elapsed() < time {
            stream.write_all(&requests[..(DEPTH - in_flight) * REQUEST_BYTES])?;
            in_flight = DEPTH;
        }
        if in_flight == 0 {
            return Ok(answers);
        }
        let more = stream.read(&mut buffer)?;
        ensure!(more > 0, "the server has left");
        received += more;
        let whole = received / ANSWER_BYTES;
        received %= ANSWER_BYTES;
        in_flight -= whole;
        answers += whole as u64;
    }
}

/// Processor time of the calling thread.
fn thread_time() -> Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    ensure!(result == 0, std::io::Error::last_os_error());
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Content;

    #[test]
    fn every_request_is_answered_and_costs_time() {
        let options = Options {
            time: Duration::from_millis(1),
            rounds: 1,
            content: Content::Half,
            span: 0,
            target_core: 0,
            client_core: 0,
        };
        // A separate thread, since it is pinned to a core.
        let measured = std::thread::spawn(move || measure(options)).join().unwrap().unwrap();
        assert!(measured > 0.0, "{measured}");
    }
}

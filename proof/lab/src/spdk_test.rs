use super::*;
use std::io::Write;
use std::os::unix::net::UnixListener;

/// A program that sends these responses, in pieces, and returns the requests.
fn program(
    answers: &[&'static str],
) -> (PathBuf, std::thread::JoinHandle<Vec<Value>>, crate::scratch::Scratch) {
    let scratch =
        crate::scratch::Scratch::new(&std::env::temp_dir(), &format!("spdk-{}", answers.len())).unwrap();
    let socket = scratch.path().join("rpc");
    let listener = UnixListener::bind(&socket).unwrap();
    let answers = answers.to_vec();
    let asked = std::thread::spawn(move || {
        let serve = |answer: &str| {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = serde_json::Deserializer::from_reader(&stream).into_iter::<Value>().next();
            for piece in answer.as_bytes().chunks(7) {
                stream.write_all(piece).unwrap();
            }
            asked.unwrap().unwrap()
        };
        answers.into_iter().map(serve).collect()
    });
    (socket, asked, scratch)
}

#[test]
fn an_answer_is_the_result_and_a_refusal_says_what_was_asked() {
    let (socket, asked, _scratch) = program(&[
        r#"{"jsonrpc":"2.0","id":1,"result":["lun0"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-17,"message":"File exists"}}"#,
    ]);
    let params = json!({ "name": "lun0" });
    assert_eq!(call(&socket, "bdev_malloc_create", &params).unwrap(), json!(["lun0"]));
    let refused = call(&socket, "bdev_malloc_create", &params).unwrap_err().to_string();
    assert!(refused.contains("bdev_malloc_create") && refused.contains("lun0"), "{refused}");
    assert!(refused.contains("File exists"), "{refused}");
    let asked = asked.join().unwrap();
    assert_eq!(
        asked[0],
        json!({ "jsonrpc": "2.0", "id": 1, "method": "bdev_malloc_create", "params": params })
    );
}

#[test]
fn a_program_that_goes_away_is_an_error() {
    let (socket, asked, _scratch) = program(&[""]);
    assert!(call(&socket, "rpc_get_methods", &Value::Null).unwrap_err().to_string().contains("no answer"));
    assert_eq!(asked.join().unwrap()[0].get("params"), None);
    assert!(call(&socket, "rpc_get_methods", &Value::Null).unwrap_err().to_string().contains("can't reach"));
}

use super::*;
use axum::http::StatusCode;

/// `let a`, by `gzip -n`.
const PACKED_SCRIPT: &[u8] =
    &[31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 203, 73, 45, 81, 72, 4, 0, 128, 223, 209, 106, 5, 0, 0, 0];

const SOME: &[(&str, &[u8])] = &[
    ("/assets/index-1a2b.js.gz", PACKED_SCRIPT),
    ("/favicon.svg", b"<svg/>"),
    ("/index.html", b"<meta nonce=\"{{nonce}}\">"),
    ("/sw.js", b"self"),
];

async fn get(path: &str) -> Response {
    let request = Request::builder().uri(path).body(axum::body::Body::empty()).unwrap();
    answer(request, || "n0nce".into()).await
}

#[test]
fn pages_are_the_document_and_files_are_themselves() {
    for page in ["/", "/index.html", "/volumes", "/volumes/db1", "/volumes/a.b.c", "/hosts/esx1.example.org"]
    {
        assert_eq!(choose(SOME, page), Some("/index.html"), "{page}");
    }
    assert_eq!(choose(SOME, "/favicon.svg"), Some("/favicon.svg"));
    assert_eq!(choose(SOME, "/assets/index-1a2b.js"), Some("/assets/index-1a2b.js"));
    for none in ["/assets/index-old.js", "/assets/", "/assets/../index.html", "/other.svg"] {
        assert_eq!(choose(SOME, none), None, "{none}");
    }
}

#[tokio::test]
async fn who_cannot_read_compressed_files_gets_them_unpacked() {
    let bytes = |gzip| axum::body::to_bytes(file(SOME, "/assets/index-1a2b.js", gzip).into_body(), 100);
    assert_eq!(bytes(false).await.unwrap(), "let a");
    assert_eq!(bytes(true).await.unwrap(), PACKED_SCRIPT);
}

#[test]
fn compressed_files_go_to_those_who_can_read_them() {
    let header = |gzip: bool, name: HeaderName| {
        file(SOME, "/assets/index-1a2b.js", gzip)
            .headers()
            .get(name)
            .map(|it| it.to_str().unwrap().to_owned())
    };
    assert_eq!(header(true, CONTENT_ENCODING).as_deref(), Some("gzip"));
    assert_eq!(header(false, CONTENT_ENCODING), None);
    assert_eq!(header(true, CONTENT_TYPE).as_deref(), Some("text/javascript; charset=utf-8"));
    assert_eq!(header(true, CACHE_CONTROL).as_deref(), Some(FOR_EVER));
    assert!(file(SOME, "/favicon.svg", true).headers().get(CONTENT_ENCODING).is_none());
}

#[test]
fn only_the_worker_may_ask_for_files() {
    let policy =
        |name| file(SOME, name, false).headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    assert!(policy("/sw.js").ends_with("connect-src 'self'"));
    assert_eq!(policy("/favicon.svg"), "default-src 'none'");
    assert_eq!(file(SOME, "/sw.js", false).headers()[CACHE_CONTROL], "no-cache");
}

#[tokio::test]
async fn the_top_is_a_page_that_loads_nothing_from_elsewhere() {
    let page = get("/").await;
    assert_eq!(page.status(), StatusCode::OK);
    assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[tokio::test]
async fn styles_in_the_document_carry_the_number_of_the_answer() {
    for nonce in ["one", "another"] {
        let page = document(SOME, nonce);
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains(&format!("style-src 'self' 'nonce-{nonce}';")), "{policy}");
        let text = axum::body::to_bytes(page.into_body(), 100).await.unwrap();
        assert_eq!(text, format!("<meta nonce=\"{nonce}\">"));
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem() {
    for path in ["/api", "/api/v1/nothing", "/api/", "/assets/none.js"] {
        let answer = get(path).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/problem+json", "{path}");
    }
    let post = Request::builder().method("POST").uri("/").body(axum::body::Body::empty()).unwrap();
    assert_eq!(answer(post, String::new).await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn the_files_are_those_of_the_checkout_that_is_built() {
    let folder = std::env::temp_dir().join(format!("ashlar-gui-{}", std::process::id()));
    let (script, out) = (folder.join("build-script"), folder.join("out"));
    std::fs::create_dir_all(&out).unwrap();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    // Compiled in one place, as cargo keeps it, and run for another: the checkout was moved.
    let mut compile = std::process::Command::new(compiler);
    compile.args(["--edition", "2024", "-o"]).arg(&script).arg(source);
    let compiled = compile.env("CARGO_MANIFEST_DIR", folder.join("elsewhere/control/api")).status().unwrap();
    assert!(compiled.success());
    let checkout = folder.join("moved/control/api");
    let dist = folder.join("moved/web/dist");
    std::fs::create_dir_all(&checkout).unwrap();
    let mut run = std::process::Command::new(&script);
    run.env("CARGO_MANIFEST_DIR", &checkout).env("OUT_DIR", &out);
    let warned = String::from_utf8(run.output().unwrap().stdout).unwrap();
    assert!(warned.contains("cargo::warning=the web interface is not built"), "{warned}");
    std::fs::create_dir_all(dist.join("assets")).unwrap();
    std::fs::write(dist.join("index.html"), "page").unwrap();
    std::fs::write(dist.join("assets/a.js"), "code").unwrap();
    std::fs::write(dist.join("assets/b.js"), "more").unwrap();
    std::fs::write(dist.join("assets/b.js.gz"), "packed").unwrap();
    let said = String::from_utf8(run.output().unwrap().stdout).unwrap();
    assert!(!said.contains("warning"), "{said}");
    let table = std::fs::read_to_string(out.join("gui.rs")).unwrap();
    assert!(
        table.contains("(\"/index.html\", include_bytes!(") && table.contains("(\"/assets/a.js\","),
        "{table}"
    );
    assert!(table.contains("(\"/assets/b.js.gz\",") && !table.contains("(\"/assets/b.js\","), "{table}");
    assert!(table.contains("moved/web/dist"), "{table}");
    std::fs::remove_dir_all(&folder).unwrap();
}

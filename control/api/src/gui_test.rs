use super::*;
use axum::http::StatusCode;

const SOME: &[(&str, &[u8])] = &[
    ("/assets/index-1a2b.js", b"let a"),
    ("/assets/index-1a2b.js.gz", b"packed"),
    ("/favicon.svg", b"<svg/>"),
    ("/index.html", b"<meta nonce=\"{{nonce}}\">"),
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

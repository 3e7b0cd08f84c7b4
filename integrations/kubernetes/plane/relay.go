package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"sync"
	"testing"

	"ashlar/integrations/rig"
)

// relay stands between a driver and the API of its array: there the network fails.
type relay struct {
	server *httptest.Server

	lock sync.Mutex
	// cut: connections break before anything reaches the array. refused counts the requests that this befell.
	cut     bool
	refused int
	// lose is asked about each request; true: the array carries it out, its response is lost, and the relay is cut.
	lose func(*http.Request) bool
	// then happens after that.
	then func()
}

// newRelay starts a relay with a certificate of the run's authority; it ends with the test.
func newRelay(t testing.TB, by *authority, to *rig.Array) *relay {
	t.Helper()
	trusted, err := os.ReadFile(to.Access.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trusted) {
		t.Fatal("the array's certificate is none")
	}
	address, err := url.Parse(to.Access.URL)
	if err != nil {
		t.Fatal(err)
	}
	by.issue(t, "relay-"+address.Port(), "relay")
	own, err := tls.LoadX509KeyPair(by.path("relay-"+address.Port()+".pem"), by.path("relay-"+address.Port()+"-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(address) },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		// An array that is gone is a connection that breaks, not a page of the relay.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	made := &relay{}
	made.server = httptest.NewUnstartedServer(made.handler(forward))
	made.server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	made.server.StartTLS()
	t.Cleanup(made.server.Close)
	return made
}

func (r *relay) handler(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.lock.Lock()
		cut, then := r.cut, func() {}
		if cut {
			r.refused++
		}
		lost := !cut && r.lose != nil && r.lose(request)
		if lost {
			r.cut, r.lose, then = true, nil, r.then
		}
		r.lock.Unlock()
		switch {
		case cut:
			panic(http.ErrAbortHandler)
		case lost:
			forward.ServeHTTP(httptest.NewRecorder(), request)
			then()
			panic(http.ErrAbortHandler)
		default:
			forward.ServeHTTP(w, request)
		}
	})
}

// loseResponse loses the response to the next request of a method whose path matches, and everything after it until
// [relay.mend]. What is given happens when the array has carried out that request.
func (r *relay) loseResponse(method, path string, then func()) {
	matches := regexp.MustCompile("^/api/v1/" + path + "$")
	r.lock.Lock()
	defer r.lock.Unlock()
	r.refused, r.then = 0, then
	r.lose = func(request *http.Request) bool {
		return request.Method == method && matches.MatchString(request.URL.Path)
	}
}

// attempts is how often the driver itself sends a request whose response does not come.
const attempts = 3

// calledAgain returns an error until a response was lost and a sidecar has repeated the call that this made fail.
func (r *relay) calledAgain(context.Context) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.cut || r.refused < attempts {
		return not("response lost: %t, %d requests refused", r.cut, r.refused)
	}
	return nil
}

// mend lets everything pass again. It reports whether a response was lost.
func (r *relay) mend() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	lost := r.cut
	r.cut = false
	return lost
}

func (r *relay) url() string {
	return "https://" + net.JoinHostPort("127.0.0.1", port(r.server.URL))
}

func port(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Port()
}

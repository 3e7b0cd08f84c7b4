package admission

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// serve runs a server whose requests to /wait last until release is closed. Each handler that began sends its path.
func serve(t *testing.T) (address string, begun chan string, release chan struct{}) {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun, release = make(chan string, 2*MaxConnections), make(chan struct{})
	handler := http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		begun <- in.URL.Path
		if in.URL.Path == "/wait" {
			<-release
		}
		_, _ = io.Copy(out, in.Body)
	})
	limits, server := New(), &http.Server{Handler: handler}
	limits.Apply(server)
	go func() { _ = server.Serve(limits.Listener(socket)) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket.Addr().String(), begun, release
}

func send(t *testing.T, address, text string) net.Conn {
	t.Helper()
	made, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	if _, err := io.WriteString(made, text); err != nil {
		t.Fatal(err)
	}
	return made
}

func answer(t *testing.T, from net.Conn) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(from), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func post(path, body string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
}

func TestRequestsWhoseBodyNeverComesTakeNoSlot(t *testing.T) {
	address, begun, _ := serve(t)
	for range 4 * MaxRequests {
		send(t, address, post("/never", "{", 1000))
	}
	// Connections that send nothing at all are no other.
	for range 2 * MaxConnectionsPerAddress {
		send(t, address, "")
	}
	if status, body := answer(t, send(t, address, post("/", "here", 4))); status != http.StatusOK || body != "here" {
		t.Error(status, body)
	}
	if path := <-begun; path != "/" || len(begun) != 0 {
		t.Error("another request was begun:", path)
	}
}

func TestRequestsBeyondTheLimitWaitAndNoneGivesWay(t *testing.T) {
	address, begun, release := serve(t)
	var all []net.Conn
	for range MaxRequests + 1 {
		all = append(all, send(t, address, post("/wait", "x", 1)))
	}
	for range MaxRequests {
		<-begun
	}
	if len(begun) != 0 {
		t.Error("more than the limit are handled")
	}
	for range 2 * MaxConnectionsPerAddress {
		send(t, address, "")
	}
	close(release)
	for _, each := range all[:MaxRequests] {
		if status, _ := answer(t, each); status != http.StatusOK {
			t.Error(status)
		}
	}
}

func TestALargeBodyIsRefused(t *testing.T) {
	address, begun, _ := serve(t)
	chunked := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", MaxBodyBytes+1, strings.Repeat("x", MaxBodyBytes+1))
	for _, text := range []string{post("/", "x", MaxBodyBytes+1), chunked} {
		if status, _ := answer(t, send(t, address, text)); status != http.StatusRequestEntityTooLarge {
			t.Error(status)
		}
	}
	if len(begun) != 0 {
		t.Error("it was handled")
	}
}

func TestAnAddressWithManyConnectionsLosesItsOwn(t *testing.T) {
	at := func(text string) *connection {
		one, _ := net.Pipe()
		return &connection{Conn: one, network: networkOf(&net.TCPAddr{IP: net.ParseIP(text)})}
	}
	limits, few := New(), []*connection{at("10.0.0.1"), at("2001:db8::1")}
	for _, it := range few {
		it.of = limits
		limits.admit(it)
	}
	for number := range 1000 {
		it := at(fmt.Sprintf("10.1.0.%d", number%7))
		it.of = limits
		if !limits.admit(it) {
			t.Fatal(number)
		}
	}
	if len(limits.open) != MaxConnections || limits.open[0] != few[0] || limits.open[1] != few[1] {
		t.Error(len(limits.open))
	}
	if at("2001:db8::1").network != at("2001:db8::ffff:2").network || at("::ffff:10.0.0.1").network != at("10.0.0.1").network {
		t.Error("addresses of one network")
	}
	_, _ = few[0].Close(), few[0].Close()
	if len(limits.open) != MaxConnections-1 {
		t.Error(len(limits.open))
	}
}

package dialect

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

func TestRequestsBeyondTheLimitWait(t *testing.T) {
	var now, most atomic.Int64
	started, end := make(chan struct{}, 2*MaxRequests), make(chan struct{})
	limited := Limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		started <- struct{}{}
		<-end
		now.Add(-1)
	}))
	var all sync.WaitGroup
	for range 2 * MaxRequests {
		all.Go(func() { limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)) })
	}
	for range MaxRequests {
		<-started
	}
	if len(started) != 0 {
		t.Error("more than the limit were handled")
	}
	close(end)
	all.Wait()
	if most.Load() > MaxRequests || len(started) != MaxRequests {
		t.Error(most.Load(), len(started))
	}
}

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := Listener(socket)
	var accepted []net.Conn
	for range MaxConnections + 1 {
		dialled, err := net.Dial("tcp", socket.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dialled.Close() }()
	}
	for range MaxConnections {
		it, err := limited.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, it)
	}
	last := make(chan error, 1)
	go func() {
		it, err := limited.Accept()
		if err == nil {
			_ = it.Close()
		}
		last <- err
	}()
	if held := len(limited.(*listener).slots); held != MaxConnections {
		t.Error("connections that count:", held)
	}
	// Closing one twice makes room for one.
	_, _ = accepted[0].Close(), accepted[0].Close()
	if err := <-last; err != nil {
		t.Error(err)
	}
	another, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = another.Close() }()
	if it, err := limited.Accept(); err != nil {
		t.Error(err)
	} else {
		accepted = append(accepted, it)
	}
	go func() {
		_, err := limited.Accept()
		last <- err
	}()
	_ = limited.Close()
	if err := <-last; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for _, it := range accepted {
		_ = it.Close()
	}
}

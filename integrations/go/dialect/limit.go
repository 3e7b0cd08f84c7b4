package dialect

import (
	"net"
	"net/http"
	"sync"
)

const (
	// MaxRequests in progress; the array takes 64 connections of one address, which other programs may need as well.
	MaxRequests = 32
	// MaxConnections of clients.
	MaxConnections = 256
	// MaxHeaderBytes and MaxBodyBytes bound a request before the array has identified the client.
	MaxHeaderBytes = 64 << 10
	MaxBodyBytes   = 1 << 20
)

// Limited lets at most [MaxRequests] requests be handled at a time. Others wait for their turn or until their client goes away.
func Limited(handler http.Handler) http.Handler {
	slots := make(chan struct{}, MaxRequests)
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			handler.ServeHTTP(out, in)
		case <-in.Context().Done():
		}
	})
}

// Listener accepts at most [MaxConnections] connections at a time: others wait in the system's queue.
func Listener(of net.Listener) net.Listener {
	return &listener{Listener: of, slots: make(chan struct{}, MaxConnections), closed: make(chan struct{})}
}

type listener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &connection{Conn: accepted, free: func() { <-l.slots }}, nil
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type connection struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *connection) Close() error {
	c.once.Do(c.free)
	return c.Conn.Close()
}

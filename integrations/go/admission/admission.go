// Package admission bounds what clients that have not authenticated can take of an HTTP server. Connections are limited by address
// and in all, and one without a complete request gives way to a new one, so that no client is kept out by connections that send
// nothing. A request takes a slot only after it has arrived as a whole, in time and within a size.
package admission

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// MaxRequests in progress; the array protects 48 connections of one address, which other programs may need as well.
	MaxRequests = 32
	// MaxConnections of clients, and MaxConnectionsPerAddress of one of them; of IPv6 from one network of 64 bits.
	MaxConnections           = 256
	MaxConnectionsPerAddress = 64
	// MaxHeaderBytes and MaxBodyBytes bound a request before the array has identified the client.
	MaxHeaderBytes = 64 << 10
	MaxBodyBytes   = 256 << 10
	// BodyTimeout bounds the arrival of a body.
	BodyTimeout = 10 * time.Second
)

// Server has the limits of one HTTP server.
type Server struct {
	slots chan struct{}
	mutex sync.Mutex
	// open connections, oldest first.
	open []*connection
}

type connection struct {
	net.Conn
	of      *Server
	network netip.Prefix
	// busy requests have a slot, or wait for one. Guarded by of.mutex.
	busy int
}

type key struct{}

// New makes the limits of a server without connections.
func New() *Server { return &Server{slots: make(chan struct{}, MaxRequests)} }

// Apply makes an HTTP server keep the limits: its handler, its headers, its connections. It is to be served with [Server.Listener].
func (s *Server) Apply(to *http.Server) {
	to.Handler, to.MaxHeaderBytes = s.handler(to.Handler), MaxHeaderBytes
	// Over HTTP/2 a connection would have many requests at a time, each with a body in memory.
	to.Protocols = new(http.Protocols)
	to.Protocols.SetHTTP1(true)
	to.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if over, is := conn.(interface{ NetConn() net.Conn }); is {
			conn = over.NetConn()
		}
		return context.WithValue(ctx, key{}, conn)
	}
}

// handler reads a request to its end, and then handles it in a slot. Others wait for their turn or until their client goes away.
func (s *Server) handler(of http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if status := receive(out, in); status != 0 {
			out.Header().Set("Connection", "close")
			http.Error(out, http.StatusText(status), status)
			return
		}
		if from, is := in.Context().Value(key{}).(*connection); is {
			s.count(from, 1)
			defer s.count(from, -1)
		}
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
			of.ServeHTTP(out, in)
		case <-in.Context().Done():
		}
	})
}

// receive replaces the body of a request by its bytes. It returns the status of a refusal, or 0.
func receive(out http.ResponseWriter, in *http.Request) int {
	if in.ContentLength > MaxBodyBytes {
		return http.StatusRequestEntityTooLarge
	}
	control := http.NewResponseController(out)
	// What is no connection, as in a test, has no deadlines.
	_ = control.SetReadDeadline(time.Now().Add(BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(out, in.Body, MaxBodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case err != nil:
		return http.StatusRequestTimeout
	}
	_ = control.SetReadDeadline(time.Time{})
	in.Body = io.NopCloser(bytes.NewReader(body))
	return 0
}

func (s *Server) count(of *connection, more int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of.busy += more
}

// Listener accepts every connection for which another one can give way, and closes the others.
func (s *Server) Listener(of net.Listener) net.Listener { return &listener{of, s} }

type listener struct {
	net.Listener
	of *Server
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		made := &connection{Conn: accepted, of: l.of, network: networkOf(accepted.RemoteAddr())}
		if l.of.admit(made) {
			return made, nil
		}
		_ = accepted.Close()
	}
}

// networkOf is what connections are counted by.
func networkOf(address net.Addr) netip.Prefix {
	parsed, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return netip.Prefix{}
	}
	bits, at := 64, parsed.Addr().Unmap()
	if at.Is4() {
		bits = 32
	}
	network, _ := at.WithZone("").Prefix(bits)
	return network
}

func (s *Server) admit(made *connection) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	counts := map[netip.Prefix]int{}
	for _, it := range s.open {
		counts[it.network]++
	}
	ok := true
	switch {
	case counts[made.network] >= MaxConnectionsPerAddress:
		ok = s.makeRoom(func(it *connection) bool { return it.network == made.network })
	case len(s.open) >= MaxConnections:
		most := 0
		for _, it := range s.open {
			if it.busy == 0 {
				most = max(most, counts[it.network])
			}
		}
		ok = s.makeRoom(func(it *connection) bool { return counts[it.network] == most })
	}
	if ok {
		s.open = append(s.open, made)
	}
	return ok
}

// makeRoom closes the oldest connection without a complete request among some.
func (s *Server) makeRoom(among func(*connection) bool) bool {
	for at, it := range s.open {
		if it.busy == 0 && among(it) {
			s.open = append(s.open[:at], s.open[at+1:]...)
			_ = it.Conn.Close()
			return true
		}
	}
	return false
}

// Close gives the place of the connection back, once.
func (c *connection) Close() error {
	c.of.mutex.Lock()
	for at, it := range c.of.open {
		if it == c {
			c.of.open = append(c.of.open[:at], c.of.open[at+1:]...)
			break
		}
	}
	c.of.mutex.Unlock()
	return c.Conn.Close()
}

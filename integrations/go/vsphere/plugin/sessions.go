package plugin

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"ashlar/integrations/vsphere/vcenter"
)

const (
	// sessionLifetime is how long a cloned session is used. A user who has left the vSphere Client is refused after it.
	sessionLifetime = 10 * time.Minute
	// cloneTimeout bounds the cloning of a session.
	cloneTimeout = 30 * time.Second
	// maxSessions bounds the sessions that are kept at once; each is one of vCenter's, too.
	maxSessions = 200
)

// sessions are those of users in vCenter: each is cloned from that of the vSphere Client, kept for a while, and ended.
type sessions struct {
	clone func(ctx context.Context, token, vcenter string) (*vcenter.Client, error)
	now   func() time.Time

	mu   sync.Mutex
	open map[sessionKey]*userSession
	// ending counts sessions that are being ended.
	ending sync.WaitGroup
}

// sessionKey is the digest of a token, which itself is not kept, and the vCenter.
type sessionKey struct {
	token   [sha256.Size]byte
	vcenter string
}

// userSession is a session with those who use it: requests and work that is under way.
type userSession struct {
	ready  chan struct{}
	client *vcenter.Client
	err    error
	born   time.Time
	// guarded by sessions.mu.
	users   int
	retired bool
	name    string
	// known are the privileges that were asked for lately.
	known map[string]answered
}

func newSessions(clone func(ctx context.Context, token, vcenter string) (*vcenter.Client, error)) *sessions {
	return &sessions{clone: clone, now: time.Now, open: map[sessionKey]*userSession{}}
}

var errBusy = errors.New("too many users have sessions at once: try again in a minute")

// acquire returns the session of a token, which the caller must release. Requests that come together clone it once.
func (s *sessions) acquire(ctx context.Context, token, id string) (*userSession, error) {
	key := sessionKey{sha256.Sum256([]byte(token)), id}
	s.mu.Lock()
	s.evict()
	found := s.open[key]
	if found == nil {
		if len(s.open) >= maxSessions {
			s.mu.Unlock()
			return nil, errBusy
		}
		found = &userSession{ready: make(chan struct{}), born: s.now(), known: map[string]answered{}}
		s.open[key] = found
		found.users++
		s.mu.Unlock()
		s.begin(ctx, key, found, token, id)
		return s.checked(found)
	}
	found.users++
	s.mu.Unlock()
	select {
	case <-found.ready:
		return s.checked(found)
	case <-ctx.Done():
		s.release(found)
		return nil, ctx.Err()
	}
}

// begin clones the session. One that is refused is forgotten at once, so that the next request tries again.
func (s *sessions) begin(ctx context.Context, key sessionKey, made *userSession, token, id string) {
	// Others wait for it, too: it does not end with the request that came first.
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), cloneTimeout)
	defer stop()
	made.client, made.err = s.clone(bounded, token, id)
	if made.err != nil {
		s.mu.Lock()
		if s.open[key] == made {
			delete(s.open, key)
		}
		s.mu.Unlock()
	}
	close(made.ready)
}

func (s *sessions) checked(found *userSession) (*userSession, error) {
	if found.err != nil {
		s.release(found)
		return nil, found.err
	}
	return found, nil
}

// hold is for work that continues after the request.
func (s *sessions) hold(it *userSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.users++
}

// release ends a session that was evicted with its last user.
func (s *sessions) release(it *userSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.users--
	s.end(it)
}

// retire forgets a session that vCenter has ended.
func (s *sessions) retire(it *userSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, found := range s.open {
		if found == it {
			s.drop(key)
		}
	}
}

// evict forgets sessions that are too old. Locked.
func (s *sessions) evict() {
	for key, it := range s.open {
		if s.now().Sub(it.born) >= sessionLifetime {
			s.drop(key)
		}
	}
}

func (s *sessions) drop(key sessionKey) {
	it := s.open[key]
	delete(s.open, key)
	it.retired = true
	s.end(it)
}

// end logs out once an evicted session is not used any more. Locked; the log-out itself is not.
func (s *sessions) end(it *userSession) {
	if !it.retired || it.users > 0 || it.client == nil {
		return
	}
	client := it.client
	it.client = nil
	s.ending.Go(client.Close)
}

// sweep evicts sessions without a request.
func (s *sessions) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict()
}

// close ends all sessions, and returns once those without users are logged out.
func (s *sessions) close() {
	s.mu.Lock()
	for key := range s.open {
		s.drop(key)
	}
	s.mu.Unlock()
	s.ending.Wait()
}

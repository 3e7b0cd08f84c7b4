package k2

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"sync"

	"ashlar/integrations/array"
)

// maxAccesses bounds the connections that are kept, one for each token.
const maxAccesses = 64

// tokens is what tokens consist of: anything else could not be sent to the array.
var tokens = regexp.MustCompile(`^[!-~]+$`)

// accesses keeps a connection for each token. The array decides about a token at every request.
type accesses struct {
	of    array.Access
	mutex sync.Mutex
	apis  map[[sha256.Size]byte]*array.API
}

// api returns access to the array with the credentials of a request: the password is an API token. The user's name is free,
// since a token has an owner.
func (a *accesses) api(in *http.Request) (*array.API, error) {
	_, token, given := in.BasicAuth()
	if !given || !tokens.MatchString(token) {
		return nil, fail(http.StatusUnauthorized, "give an API token of the array as the password: `ashlar token create NAME --role operator` makes one")
	}
	key := sha256.Sum256([]byte(token))
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.apis[key]; known != nil {
		return known, nil
	}
	access := a.of
	access.Token = token
	made, err := array.Connect(access)
	if err != nil {
		return nil, err
	}
	if a.apis == nil || len(a.apis) >= maxAccesses {
		a.apis = map[[sha256.Size]byte]*array.API{}
	}
	a.apis[key] = made
	return made, nil
}

// Peer is another array that this one is paired with.
type Peer struct {
	// RemoteArray is its name on this array.
	RemoteArray string `json:"remote_array"`
	// ManagementHost is the address of the other array's server as its clients write it, such as 10.0.0.9:8443.
	ManagementHost string `json:"management_host"`
	// Array is the address of its API. Certificate and TokenFile name files, as for this array.
	Array       string `json:"array"`
	Certificate string `json:"certificate"`
	TokenFile   string `json:"token_file"`
}

type peer struct {
	Peer
	api *array.API
}

func connectPeer(it Peer) (*peer, error) {
	if it.RemoteArray == "" || it.ManagementHost == "" {
		return nil, fmt.Errorf("a peer needs remote_array and management_host")
	}
	api, err := array.Connect(array.Access{URL: it.Array, TokenFile: it.TokenFile, CAFile: it.Certificate, Program: program})
	if err != nil {
		return nil, fmt.Errorf("peer %s: %w", it.RemoteArray, err)
	}
	return &peer{Peer: it, api: api}, nil
}

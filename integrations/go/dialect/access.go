// Package dialect has what the servers for clients of other arrays have in common. Each interface is a package below.
package dialect

import (
	"crypto/sha256"
	"regexp"
	"sync"

	"ashlar/integrations/array"
)

// Program is what the array's audit log calls these servers.
const Program = "ashlar-dialect/" + array.Version

// maxAccesses bounds the connections that are kept, one for each token.
const maxAccesses = 64

// tokens is what tokens consist of: anything else could not be sent to the array.
var tokens = regexp.MustCompile(`^[!-~]+$`)

// Accesses keeps a connection to the array for each token. The array decides about a token at every request.
type Accesses struct {
	// Of is the access without a token.
	Of    array.Access
	mutex sync.Mutex
	apis  map[[sha256.Size]byte]*array.API
}

// API returns access to the array with a client's token.
func (a *Accesses) API(token string) (*array.API, error) {
	if !tokens.MatchString(token) {
		return nil, &array.Error{Kind: array.Unauthorized,
			Detail: "an API token of the array is needed: `ashlar token create NAME --role operator` makes one"}
	}
	key := sha256.Sum256([]byte(token))
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.apis[key]; known != nil {
		return known, nil
	}
	access := a.Of
	access.Token, access.Program = token, Program
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

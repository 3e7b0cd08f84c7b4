package k2

import (
	"fmt"

	"ashlar/integrations/array"
	"ashlar/integrations/dialect"
)

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
	api, err := array.Connect(array.Access{URL: it.Array, TokenFile: it.TokenFile, CAFile: it.Certificate, Program: dialect.Program})
	if err != nil {
		return nil, fmt.Errorf("peer %s: %w", it.RemoteArray, err)
	}
	return &peer{Peer: it, api: api}, nil
}

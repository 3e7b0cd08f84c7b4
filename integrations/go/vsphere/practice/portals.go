package practice

import (
	"net"
	"net/url"
)

// Reachable are an array's portals as hosts reach them: an array that listens on all addresses is reached at that of its API.
func Reachable(portals []string, api string) []string {
	var made []string
	for _, portal := range portals {
		address, port, err := net.SplitHostPort(portal)
		if at, failed := url.Parse(api); err == nil && failed == nil && net.ParseIP(address).IsUnspecified() {
			portal = net.JoinHostPort(at.Hostname(), port)
		}
		made = append(made, portal)
	}
	return made
}

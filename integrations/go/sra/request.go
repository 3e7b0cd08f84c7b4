// Package sra is a Storage Replication Adapter for VMware Site Recovery Manager: a command in XML comes on standard input,
// the response goes to a file. It keeps nothing between commands: what there is to know is on the arrays.
package sra

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Namespace of requests and responses.
const Namespace = "http://www.vmware.com/srm/sra/v2"

// maxRequest bounds a request, in bytes.
const maxRequest = 16 << 20

// Command is a request of Site Recovery Manager.
type Command struct {
	XMLName      xml.Name
	Name         string
	OutputFile   string
	StatusFile   string
	LogLevel     string
	LogDirectory string
	Connections  []Connection `xml:"Connections>Connection"`
	// Others has the element with the parameters, which is called after the command.
	Others []Parameters `xml:",any"`
}

// Connection is an array as an administrator entered it for an array manager.
type Connection struct {
	ID        string  `xml:"id,attr"`
	Addresses []Value `xml:"Addresses>Address"`
	Username  string
	Password  string
	Opaques   []Value `xml:"Opaques>Opaque"`
}

// Value is a field of a connection.
type Value struct {
	ID   string `xml:"id,attr"`
	Text string `xml:",chardata"`
}

// Parameters of a command; each has some of them.
type Parameters struct {
	XMLName           xml.Name
	Locale            string
	ArrayID           string             `xml:"ArrayId"`
	PeerArrayID       string             `xml:"PeerArrayId"`
	AccessGroups      []AccessGroup      `xml:"AccessGroups>AccessGroup"`
	ConsistencyGroups []ConsistencyGroup `xml:"ConsistencyGroups>ConsistencyGroup"`
	SourceDevices     []Device           `xml:"SourceDevices>SourceDevice"`
	Devices           []Device           `xml:"Devices>Device"`
	TargetGroups      []TargetGroup      `xml:"TargetGroups>TargetGroup"`
	TargetDevices     []TargetDevice     `xml:"TargetDevices>TargetDevice"`
}

// AccessGroup is a set of hosts, usually a cluster.
type AccessGroup struct {
	ID         string      `xml:"id,attr"`
	Initiators []Initiator `xml:"Initiator"`
}

// Initiator is a port of a host.
type Initiator struct {
	ID   string `xml:"id,attr"`
	Type string `xml:"type,attr"`
}

// Reference names an access group.
type Reference struct {
	ID string `xml:"id,attr"`
}

// ConsistencyGroup is a replication, of which the array is the source.
type ConsistencyGroup struct {
	ID      string   `xml:"id,attr"`
	SyncID  string   `xml:"syncId,attr"`
	Devices []Device `xml:"Devices>Device"`
}

// Device is a volume, of which the array has the source.
type Device struct {
	ID           string      `xml:"id,attr"`
	AccessGroups []Reference `xml:"AccessGroups>AccessGroup"`
}

// TargetGroup is a replication, of which the array is the target.
type TargetGroup struct {
	Key     string         `xml:"key,attr"`
	SyncID  string         `xml:"syncId,attr"`
	Devices []TargetDevice `xml:"TargetDevices>TargetDevice"`
}

// TargetDevice is a volume, of which the array has the points.
type TargetDevice struct {
	Key          string      `xml:"key,attr"`
	AccessGroups []Reference `xml:"AccessGroups>AccessGroup"`
}

// Read reads a request.
func Read(in io.Reader) (*Command, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("the request can't be read: %w", err)
	}
	if len(text) > maxRequest {
		return nil, fmt.Errorf("the request is longer than %d bytes", maxRequest)
	}
	command := &Command{}
	if err := xml.Unmarshal(text, command); err != nil {
		return nil, fmt.Errorf("the request is not the XML of a command: %w", err)
	}
	if command.XMLName.Local != "Command" || command.XMLName.Space != Namespace {
		return nil, fmt.Errorf("the request is a %q of %q, not a Command of %s: this version of Site Recovery Manager is not supported",
			command.XMLName.Local, command.XMLName.Space, Namespace)
	}
	command.Name = strings.TrimSpace(command.Name)
	if strings.TrimSpace(command.OutputFile) == "" {
		return nil, fmt.Errorf("command %q names no OutputFile", command.Name)
	}
	return command, nil
}

// parameters returns the element of the command's parameters; an empty one if it has none.
func (c *Command) parameters() *Parameters {
	for at := range c.Others {
		if strings.EqualFold(c.Others[at].XMLName.Local, c.Name+"Parameters") {
			return &c.Others[at]
		}
	}
	return &Parameters{}
}

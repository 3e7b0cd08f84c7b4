package sra

import (
	"context"
	"encoding/xml"
	"fmt"
	"sort"

	"ashlar/integrations/array"
)

// identifier of the adapter for Site Recovery Manager, in every version.
const identifier = "5d0b0b3c-8c55-4d6c-9d5e-2a8a1f6c7e41"

// Fields of a connection.
const (
	connectionID  = "array"
	addressID     = "management"
	fingerprintID = "fingerprint"
)

// Replication software and model, as responses name them.
const (
	model    = "Ashlar"
	software = "Ashlar replication"
	release  = "1"
	english  = "en"
)

var texts = map[string]string{
	"adapter.name":      "Ashlar Storage Replication Adapter",
	"adapter.vendor":    "Ashlar",
	"connection.title":  "Ashlar array",
	"connection.hint":   "The array of this site.",
	"address.title":     "Address of the management API",
	"address.hint":      "https://HOST:PORT",
	"username.title":    "Name of the service account",
	"username.hint":     "For your information only: the token says which account it is.",
	"password.title":    "API token",
	"password.hint":     "ashlar token create srm --role admin",
	"fingerprint.title": "SHA-256 of the array's certificate",
	"fingerprint.hint":  "openssl x509 -in tls.pem -noout -fingerprint -sha256",
}

type text struct {
	ID    string `xml:"stringId,attr"`
	Value string `xml:",chardata"`
}

func said(id string) text { return text{ID: id, Value: texts[id]} }

func queryInfo(context.Context, *call) (any, error) {
	return struct {
		XMLName xml.Name `xml:"AdapterInfo"`
		Name    text
		Version string
		Vendor  text
		Uuid    string
	}{Name: said("adapter.name"), Version: array.Version, Vendor: said("adapter.vendor"), Uuid: identifier}, nil
}

type stringText struct {
	ID    string `xml:"id,attr"`
	Value string `xml:",chardata"`
}

func queryStrings(_ context.Context, c *call) (any, error) {
	all := map[string]string{}
	for id, value := range texts {
		all[id] = value
	}
	for _, it := range definitions {
		all[descriptionID(it.code)], all[hintID(it.code)] = it.description, it.hint
	}
	var sorted []stringText
	for id, value := range all {
		sorted = append(sorted, stringText{id, value})
	}
	sort.Slice(sorted, func(a, b int) bool { return sorted[a].ID < sorted[b].ID })
	return struct {
		XMLName xml.Name     `xml:"Strings"`
		Locale  string       `xml:"locale,attr"`
		Strings []stringText `xml:"String"`
	}{Locale: english, Strings: sorted}, nil
}

func descriptionID(code int) string { return fmt.Sprintf("error.%d", code) }
func hintID(code int) string        { return fmt.Sprintf("error.%d.hint", code) }

type defined struct {
	Code        int `xml:"code,attr"`
	Description text
	FixHint     text
}

func queryErrorDefinitions(context.Context, *call) (any, error) {
	var all []defined
	for _, it := range definitions {
		all = append(all, defined{it.code, text{descriptionID(it.code), it.description}, text{hintID(it.code), it.hint}})
	}
	return struct {
		XMLName xml.Name  `xml:"ErrorDefinitions"`
		All     []defined `xml:"ErrorDefinition"`
	}{All: all}, nil
}

type arrayModel struct {
	Name   string
	Vendor text
}

type softwareVersion struct {
	Name    string
	Version string
}

type supported struct {
	Name    string `xml:"name,attr"`
	Where   string `xml:"ExecutionLocation,omitempty"`
	Locales *locales
}

type locales struct {
	Locale []localeID
}

type localeID struct {
	ID string `xml:"id,attr"`
}

type features struct {
	ConsistencyGroups        Empty
	DynamicAccessRestriction Empty
	DeviceIdentification     string
	Protocols                []string `xml:"Protocols>Protocol"`
}

func queryCapabilities(context.Context, *call) (any, error) {
	var commands []supported
	for _, known := range verbs() {
		if known.name == settingsCommand {
			continue
		}
		it := supported{Name: known.name, Where: known.where}
		if known.name == "queryStrings" {
			it.Locales = &locales{Locale: []localeID{{english}}}
		}
		commands = append(commands, it)
	}
	return struct {
		XMLName   xml.Name          `xml:"AdapterCapabilities"`
		Softwares []softwareVersion `xml:"ReplicationSoftwares>ReplicationSoftware"`
		Models    []arrayModel      `xml:"ArrayModels>ArrayModel"`
		Features  features
		Commands  []supported `xml:"Commands>Command"`
	}{
		Softwares: []softwareVersion{{software, release}},
		Models:    []arrayModel{{model, said("adapter.vendor")}},
		Features:  features{DeviceIdentification: "wwn", Protocols: []string{"iSCSI"}},
		Commands:  commands,
	}, nil
}

type titled struct {
	ID    string `xml:"id,attr,omitempty"`
	Title text
	Hint  text
}

func titledBy(id, name string) titled {
	return titled{ID: id, Title: said(name + ".title"), Hint: said(name + ".hint")}
}

func queryConnectionParameters(context.Context, *call) (any, error) {
	type connection struct {
		ID        string `xml:"id,attr"`
		Title     text
		Hint      text
		Addresses []titled `xml:"Addresses>Address"`
		Username  titled
		Password  titled
		Opaques   []titled `xml:"Opaques>Opaque"`
	}
	return struct {
		XMLName    xml.Name `xml:"AdapterConnectionParameters"`
		Connection connection
	}{Connection: connection{
		ID: connectionID, Title: said("connection.title"), Hint: said("connection.hint"),
		Addresses: []titled{titledBy(addressID, "address")},
		Username:  titledBy("", "username"), Password: titledBy("", "password"),
		Opaques: []titled{titledBy(fingerprintID, "fingerprint")},
	}}, nil
}

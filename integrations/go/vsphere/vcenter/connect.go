// Package vcenter is the connection to a vCenter: log-in with a pinned certificate, the hosts and datastores of an
// inventory, and errors of vSphere as sentences that say what to do.
package vcenter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"

	"ashlar/integrations/pin"
	"ashlar/integrations/vsphere/secret"
)

// Access is the address of a vCenter and the credentials for it.
type Access struct {
	// Address is a host with an optional port, or a URL; the path /sdk is added.
	Address string
	User    string
	// PasswordFile has the password; only its owner may read it. It is read for each log-in, so that a new password is
	// used at once. Without it Password is used, and without that the credential [CredentialName] of the service.
	PasswordFile string
	Password     string
	// Thumbprint is the SHA-256 of vCenter's certificate in hexadecimal, with or without colons. No other certificate is
	// accepted then, even one that an authority signed.
	Thumbprint string
	// CAFile has certificates in PEM that are trusted besides those of the system. Not used with a thumbprint.
	CAFile string
}

// Client is a session with a vCenter.
type Client struct {
	*govmomi.Client
	access Access
}

// connectTimeout bounds one attempt to connect.
const connectTimeout = 30 * time.Second

// Connect logs in.
func Connect(ctx context.Context, access Access) (*Client, error) {
	password, err := access.password()
	if err != nil {
		return nil, err
	}
	if access.User == "" || password == "" {
		return nil, errors.New("vCenter needs a user and a password: --user, and --password-file, the credential " + CredentialName +
			" of a service of systemd, or VSPHERE_PASSWORD")
	}
	client, err := open(ctx, access)
	if err != nil {
		return nil, err
	}
	return client, client.LogIn(ctx)
}

// open connects without a session.
func open(ctx context.Context, access Access) (*Client, error) {
	address, err := soap.ParseURL(access.Address)
	if err != nil || address == nil || address.Host == "" {
		return nil, fmt.Errorf("%q is no address of a vCenter: write it as vcenter.example.com", access.Address)
	}
	address.User = nil
	verify, err := access.verification()
	if err != nil {
		return nil, err
	}
	transport := soap.NewClient(address, false)
	transport.Timeout = 0
	transport.DefaultTransport().TLSClientConfig = verify
	transport.DefaultTransport().TLSHandshakeTimeout = connectTimeout
	// govmomi's own dialer accepts what an authority signed before it looks at a thumbprint.
	transport.DefaultTransport().DialTLSContext = nil
	vim, err := vim25.NewClient(ctx, transport)
	if err != nil {
		return nil, Explain(fmt.Errorf("vCenter %s: %w", address.Host, err))
	}
	if vim.ServiceContent.About.ApiType != "VirtualCenter" {
		return nil, fmt.Errorf("%s is no vCenter but a single host: give the address of the vCenter that manages it", address.Host)
	}
	return &Client{Client: &govmomi.Client{Client: vim, SessionManager: session.NewManager(vim)}, access: access}, nil
}

// LogIn begins a session, also after the previous one has expired.
func (c *Client) LogIn(ctx context.Context) error {
	password, err := c.access.password()
	if err != nil {
		return err
	}
	if err := c.SessionManager.Login(ctx, url.UserPassword(c.access.User, password)); err != nil {
		return Explain(fmt.Errorf("log-in to vCenter %s as %s: %w", c.URL().Host, c.access.User, err))
	}
	return nil
}

// Close ends the session. A session that has expired is over already.
func (c *Client) Close() {
	ctx, stop := context.WithTimeout(context.Background(), connectTimeout)
	defer stop()
	_ = c.Logout(ctx)
	c.release()
}

// release closes connections that nothing uses any more.
func (c *Client) release() { c.Client.Client.CloseIdleConnections() }

// CredentialName is what the password is called among the credentials of a service of systemd.
const CredentialName = "ashlar-vsphere.password"

func (a Access) password() (string, error) {
	var read []byte
	var err error
	switch {
	case a.PasswordFile != "":
		read, err = secret.Read(a.PasswordFile)
	case a.Password != "":
		return a.Password, nil
	default:
		read, _, err = secret.Credential(CredentialName)
	}
	if err != nil {
		return "", fmt.Errorf("the password of vCenter can't be read: %w", err)
	}
	return strings.TrimRight(string(read), "\r\n"), nil
}

func (a Access) verification() (*tls.Config, error) {
	if a.Thumbprint == "" {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if a.CAFile == "" {
			return config, nil
		}
		pem, err := os.ReadFile(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the certificates to trust can't be read: %w", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", a.CAFile)
		}
		return config, nil
	}
	return pin.Config(a.Thumbprint, "vCenter")
}

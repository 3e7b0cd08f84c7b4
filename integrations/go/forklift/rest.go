package forklift

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config is what Forklift's secret for an array says.
type Config struct {
	// Hostname is STORAGE_HOSTNAME: HOST, HOST:PORT or https://HOST:PORT.
	Hostname string
	// Token is STORAGE_TOKEN: an API token of an operator. It may be STORAGE_PASSWORD instead, which Forklift requires.
	Token string
	// SkipVerification is STORAGE_SKIP_SSL_VERIFICATION.
	SkipVerification bool
	// CA is ASHLAR_CA: the array's tls.pem, trusted besides the authorities of the system.
	CA string
	// Timeout is STORAGE_HTTP_TIMEOUT_SECONDS: of one attempt of a request; 0: 30 s.
	Timeout time.Duration
}

const (
	// usualPort is that of an array's API.
	usualPort = "8080"
	// usualTimeout bounds one attempt of a request.
	usualTimeout = 30 * time.Second
	// attempts of a request whose connection failed. The array carries out what has one Idempotency-Key once.
	attempts   = 3
	retryDelay = 200 * time.Millisecond
	// maxResponse bounds what is read of a response, in bytes.
	maxResponse = 64 << 20
	// driverAPI is the version of the driver interface that this package is written for.
	driverAPI = 1
)

// Kinds of the array's errors that have a meaning here.
const (
	kindNotFound = "not_found"
	kindDiffers  = "differs"
)

// refusal is an error that the array reported.
type refusal struct {
	kind, detail string
}

func (r *refusal) Error() string { return r.detail }

func isKind(err error, kind string) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.kind == kind
}

// Objects of the API, with the fields that are needed.
type (
	status struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		Version   string `json:"version"`
		TargetIQN string `json:"target_iqn"`
		Driver    struct {
			Min int `json:"min"`
			Max int `json:"max"`
		} `json:"driver_api"`
	}
	volume struct {
		ID          string            `json:"id"`
		Name        string            `json:"name"`
		NAA         string            `json:"naa"`
		Size        int64             `json:"size"`
		Labels      map[string]string `json:"labels"`
		Connections []connection      `json:"connections"`
	}
	connection struct {
		Host      string `json:"host_id"`
		HostGroup string `json:"host_group_id"`
	}
	host struct {
		ID         string   `json:"id"`
		Name       string   `json:"name"`
		HostGroup  string   `json:"host_group_id"`
		Initiators []string `json:"initiators"`
		WWPNs      []string `json:"wwpns"`
	}
	list[T any] struct {
		Items []T `json:"items"`
	}
)

// client sends requests to one array.
type client struct {
	base, token string
	http        *http.Client
	// delay before the second attempt of a request; it doubles with each further one.
	delay time.Duration
}

func newClient(config Config) (*client, error) {
	address := strings.TrimRight(config.Hostname, "/")
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Hostname() == "" || base.Path != "" {
		return nil, fmt.Errorf("STORAGE_HOSTNAME %q is no address of an array: write HOST, HOST:PORT or https://HOST:PORT", config.Hostname)
	}
	if base.Port() == "" {
		base.Host += ":" + usualPort
	}
	if config.Token == "" {
		return nil, errors.New("no API token: create one with `ashlar token create forklift --role operator`, and set STORAGE_TOKEN or STORAGE_PASSWORD to it")
	}
	trusted, err := x509.SystemCertPool()
	if err != nil {
		trusted = x509.NewCertPool()
	}
	if config.CA != "" && !trusted.AppendCertsFromPEM([]byte(config.CA)) {
		return nil, errors.New("ASHLAR_CA has no certificate in PEM: give the array's tls.pem")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: trusted,
		InsecureSkipVerify: config.SkipVerification, //nolint:gosec // Asked for in the secret.
	}
	timeout := config.Timeout
	if timeout == 0 {
		timeout = usualTimeout
	}
	return &client{base: base.String(), token: config.Token, http: &http.Client{Transport: transport, Timeout: timeout}, delay: retryDelay}, nil
}

// call sends a request and reads the object of its response. One whose connection failed is repeated.
func (c *client) call(ctx context.Context, method, path string, body, object any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	key := rand.Text()
	delay := c.delay
	for attempt := 1; ; attempt++ {
		answer, code, err := c.once(ctx, method, path, key, sent)
		if err == nil {
			return understood(answer, code, object)
		}
		var unknown *tls.CertificateVerificationError
		if attempt == attempts || ctx.Err() != nil || errors.As(err, &unknown) {
			return fmt.Errorf("the array at %s can't be reached: %w", c.base, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		delay *= 2
	}
}

func (c *client) once(ctx context.Context, method, path, key string, body []byte) ([]byte, int, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("User-Agent", "forklift-ashlar")
	if method != http.MethodGet {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	return answer, response.StatusCode, err
}

// understood reads a response: the object, or what the array refuses.
func understood(answer []byte, code int, object any) error {
	if code/100 != 2 {
		var problem struct {
			Kind   string `json:"kind"`
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(answer, &problem); err != nil || problem.Kind == "" {
			return fmt.Errorf("the array responded with HTTP status %d and no reason: is STORAGE_HOSTNAME the address of its API?", code)
		}
		if code == http.StatusUnauthorized {
			problem.Detail += ": the token was deleted or has expired; create one with `ashlar token create forklift --role operator` and replace it in the secret"
		}
		return &refusal{kind: problem.Kind, detail: problem.Detail}
	}
	if object == nil {
		return nil
	}
	if err := json.Unmarshal(answer, object); err != nil {
		return fmt.Errorf("the array's response is not what this provider understands: %w", err)
	}
	return nil
}

// check refuses an array whose driver interface does not fit.
func (c *client) check(ctx context.Context) (status, error) {
	var shown status
	if err := c.call(ctx, http.MethodGet, "/status", nil, &shown); err != nil {
		return shown, err
	}
	if shown.Driver.Min > driverAPI || shown.Driver.Max < driverAPI {
		return shown, fmt.Errorf("this provider needs version %d of the driver interface, and array %s (%s) has %d to %d: update the older of the two",
			driverAPI, shown.Name, shown.Version, shown.Driver.Min, shown.Driver.Max)
	}
	return shown, nil
}

func (c *client) volume(ctx context.Context, name string) (volume, error) {
	var shown volume
	return shown, c.call(ctx, http.MethodGet, "/volumes/"+url.PathEscape(name), nil, &shown)
}

// volumeByNAA returns the volume with an identifier; false if there is none.
func (c *client) volumeByNAA(ctx context.Context, naa string) (volume, bool, error) {
	var found list[volume]
	err := c.call(ctx, http.MethodGet, "/volumes?filter="+url.QueryEscape("naa="+naa), nil, &found)
	if err != nil || len(found.Items) == 0 {
		return volume{}, false, err
	}
	return found.Items[0], true, nil
}

func (c *client) hosts(ctx context.Context) ([]host, error) {
	var found list[host]
	return found.Items, c.call(ctx, http.MethodGet, "/hosts", nil, &found)
}

// label sets a label of a volume; an empty value removes it.
func (c *client) label(ctx context.Context, id, key, value string) error {
	labels := map[string]any{key: nil}
	if value != "" {
		labels[key] = value
	}
	return c.call(ctx, http.MethodPatch, "/volumes/"+id, map[string]any{"labels": labels}, nil)
}

// connect connects a volume to a host, or to a host group. A connection that is there already stays as it is.
func (c *client) connect(ctx context.Context, id, kind, to string) error {
	err := c.call(ctx, http.MethodPost, "/connections", map[string]any{"volume": id, kind: to, "min_lun": 1}, nil)
	if isKind(err, kindDiffers) {
		return nil
	}
	return err
}

// disconnect is the contrary. What is gone already need not be removed.
func (c *client) disconnect(ctx context.Context, id, kind, from string) error {
	path := "/connections/" + id + "/"
	if kind == kindGroup {
		path += "host-groups/"
	}
	err := c.call(ctx, http.MethodDelete, path+url.PathEscape(from), nil, nil)
	if isKind(err, kindNotFound) {
		return nil
	}
	return err
}

// overwrite makes a volume's content that of another, with the data shared. Its size stays.
func (c *client) overwrite(ctx context.Context, id, source string) error {
	return c.call(ctx, http.MethodPost, "/volumes/"+id+"/restore", map[string]any{"source": source, "keep_size": true}, nil)
}

// Package array is the Go client of an array's management API: types and requests generated from openapi/array.json,
// with access, retries and errors added. Every driver of this module speaks to the array through it.
package array

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../../../openapi/array.json

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/pin"
)

// Access is the address of an array and the credentials for it.
type Access struct {
	// URL of the API, such as https://10.0.0.1:8080, without a path.
	URL string
	// Token is an API token. TokenFile is used instead if Token is empty.
	Token string
	// TokenFile is read for every request, so that a replaced token is used at once.
	TokenFile string
	// CAFile has certificates in PEM that are trusted besides those of the system: `tls.pem` of the array's data folder.
	CAFile string
	// CA has the same as text.
	CA string
	// Fingerprint is the SHA-256 of the array's certificate in hexadecimal digits. No other certificate is accepted then.
	Fingerprint string
	// OnBehalf: requests name the user that they are made for, see [OnBehalfOf]. The array refuses it unless the token was
	// created for that (`ashlar token create NAME --on-behalf`).
	OnBehalf bool
	// Program is what the array's audit log and this program's errors call the client, such as `ashlar-csi/0.1.0`.
	Program string
}

// API is a connection to the management API of one array.
type API struct {
	*Client
	// URL of the array, for errors.
	URL string

	sender *sender
}

const (
	// requestTimeout bounds one attempt; the array answers from memory.
	requestTimeout = 30 * time.Second
	// attempts of a request whose connection failed. A repeated change has the same Idempotency-Key and takes effect once.
	attempts = 3
	// retryDelay doubles with each attempt.
	retryDelay = 200 * time.Millisecond
	// maxResponse bounds what is read of a response, in bytes.
	maxResponse = 64 << 20
)

// Connect prepares access to an array. It sends nothing: an array that can't be reached is reported by the first request.
func Connect(access Access) (*API, error) {
	url := strings.TrimRight(access.URL, "/")
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		return nil, fmt.Errorf("%q is no address of an array: write it as https://HOST:PORT", access.URL)
	}
	if access.Token == "" && access.TokenFile == "" {
		return nil, errors.New("no API token: create one with `ashlar token create NAME --role operator`")
	}
	verify, err := verification(access)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = verify
	transport.MaxIdleConnsPerHost = 16
	doer := &sender{access: access, http: &http.Client{Transport: transport, Timeout: requestTimeout}}
	client, err := NewClient(url, WithHTTPClient(doer))
	if err != nil {
		return nil, err
	}
	return &API{Client: client, URL: url, sender: doer}, nil
}

// As returns the same connection with another token.
func (a *API) As(token string) *API {
	doer := *a.sender
	doer.access.Token, doer.access.TokenFile = token, ""
	client := *a.Client
	client.Client = &doer
	return &API{Client: &client, URL: a.URL, sender: &doer}
}

func verification(access Access) (*tls.Config, error) {
	if access.Fingerprint != "" {
		return pin.Config(access.Fingerprint, "the array")
	}
	roots, err := trusted(access)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, err
}

// trusted returns the certificates that the array's may be signed by; nil stands for those of the system.
func trusted(access Access) (*x509.CertPool, error) {
	pem := []byte(access.CA)
	if access.CAFile != "" {
		read, err := os.ReadFile(access.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the certificates to trust can't be read: %w", err)
		}
		pem = append(append(pem, '\n'), read...)
	}
	if len(bytes.TrimSpace(pem)) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("the certificates to trust have none in PEM: give the array's tls.pem")
	}
	return roots, nil
}

// sender adds the token to requests and repeats those whose connection failed.
type sender struct {
	access Access
	http   *http.Client
}

// idempotencyKey is the header by which the array carries out a request once, however often it comes.
const idempotencyKey = "Idempotency-Key"

// Once makes a request one that is carried out once, also if it is sent again with the same key. The array lets the second
// one wait for the first, so that its response says what became of both.
func Once(key string) RequestEditorFn {
	return func(_ context.Context, request *http.Request) error {
		request.Header.Set(idempotencyKey, key)
		return nil
	}
}

// representedKey is the key of a user's name in a context.
type representedKey struct{}

// maxRepresentedBytes is the longest name of a user that the array takes.
const maxRepresentedBytes = 256

// OnBehalfOf makes requests with the context name a user that they are made for. The array records the name with that of the
// token's owner; it gives no right. Letters that a header can't have are replaced, and a name that is too long is cut.
func OnBehalfOf(ctx context.Context, name string) context.Context {
	name = strings.Map(func(letter rune) rune {
		if unicode.IsControl(letter) {
			return '?'
		}
		return letter
	}, strings.ToValidUTF8(name, "?"))
	for len(name) > maxRepresentedBytes {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return context.WithValue(ctx, representedKey{}, name)
}

// Do sends a request. Its context bounds all attempts together.
func (s *sender) Do(request *http.Request) (*http.Response, error) {
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("User-Agent", s.access.Program)
	if name, is := request.Context().Value(representedKey{}).(string); is && s.access.OnBehalf {
		request.Header.Set("Ashlar-On-Behalf-Of", name)
	}
	// A caller that may have to send a change again has a key of its own.
	if request.Method != http.MethodGet && request.Header.Get(idempotencyKey) == "" {
		request.Header.Set(idempotencyKey, uuid.NewString())
	}
	delay := retryDelay
	for attempt := 1; ; attempt++ {
		response, err := s.http.Do(request)
		if err == nil {
			return response, nil
		}
		if attempt == attempts || request.Context().Err() != nil || !passing(err) {
			return nil, &Error{Kind: Unreachable, Detail: fmt.Sprintf("the array at %s can't be reached: %v",
				s.access.URL, cause(err)), cause: err}
		}
		select {
		case <-request.Context().Done():
		case <-time.After(delay):
		}
		delay *= 2
		if request.GetBody != nil {
			if request.Body, err = request.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

func (s *sender) token() (string, error) {
	if s.access.Token != "" {
		return s.access.Token, nil
	}
	read, err := os.ReadFile(s.access.TokenFile)
	if err != nil {
		return "", &Error{Kind: Unauthorized, Detail: fmt.Sprintf("the API token can't be read: %v", err), cause: err}
	}
	return strings.TrimSpace(string(read)), nil
}

// passing reports whether a failure may be over soon. A certificate that is not trusted stays so.
func passing(err error) bool {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var pinned *pin.Error
	return !errors.As(err, &pinned) && !errors.As(err, &unknown) && !errors.As(err, &name) && !errors.As(err, &invalid)
}

// cause leaves out what net/http puts before an error: method and address.
func cause(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// Decode returns the object of a response, or the problem that the array reports.
func Decode[T any](response *http.Response, err error) (T, error) {
	var object T
	body, err := read(response, err)
	if err != nil {
		return object, err
	}
	if err := unmarshal(body, &object); err != nil {
		return object, &Error{Kind: Failed, Status: response.StatusCode, cause: err,
			Detail: fmt.Sprintf("the array's response is not what this program understands: %v", err)}
	}
	return object, nil
}

// Done is for responses without an object.
func Done(response *http.Response, err error) error {
	_, err = read(response, err)
	return err
}

func read(response *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, &Error{Kind: Unreachable, Detail: fmt.Sprintf("the array's response broke off: %v", err), cause: err}
	}
	if response.StatusCode/100 == 2 {
		return body, nil
	}
	return nil, problem(response.StatusCode, body)
}

// page is how many items a list is asked for at a time.
const page = 500

// All returns every item of a list, page by page.
func All[T any](list func(limit, offset int) (items []T, total int, err error)) ([]T, error) {
	var all []T
	for {
		items, total, err := list(page, len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if len(items) == 0 || len(all) >= total {
			return all, nil
		}
	}
}

// AllVolumes returns the volumes with the given labels (see [LabelQuery]).
func (a *API) AllVolumes(ctx context.Context, label string) ([]Volume, error) {
	return All(func(limit, offset int) ([]Volume, int, error) {
		list, err := Decode[Volumes](a.ListVolumes(ctx, &ListVolumesParams{Limit: &limit, Offset: &offset, Label: optional(label)}))
		return list.Items, list.Total, err
	})
}

// AllSnapshots returns the snapshots with the given labels (see [LabelQuery]).
func (a *API) AllSnapshots(ctx context.Context, label string) ([]Snapshot, error) {
	return All(func(limit, offset int) ([]Snapshot, int, error) {
		list, err := Decode[Snapshots](a.ListSnapshots(ctx, &ListSnapshotsParams{Limit: &limit, Offset: &offset, Label: optional(label)}))
		return list.Items, list.Total, err
	})
}

// AllHosts returns the hosts with the given labels (see [LabelQuery]).
func (a *API) AllHosts(ctx context.Context, label string) ([]Host, error) {
	return All(func(limit, offset int) ([]Host, int, error) {
		list, err := Decode[Hosts](a.ListHosts(ctx, &ListHostsParams{Limit: &limit, Offset: &offset, Label: optional(label)}))
		return list.Items, list.Total, err
	})
}

// AllGroups returns the volume groups with the given labels (see [LabelQuery]).
func (a *API) AllGroups(ctx context.Context, label string) ([]Group, error) {
	return All(func(limit, offset int) ([]Group, int, error) {
		list, err := Decode[Groups](a.ListGroups(ctx, &ListGroupsParams{Limit: &limit, Offset: &offset, Label: optional(label)}))
		return list.Items, list.Total, err
	})
}

// AllReplications returns the replications.
func (a *API) AllReplications(ctx context.Context) ([]Replication, error) {
	return All(func(limit, offset int) ([]Replication, int, error) {
		list, err := Decode[Replications](a.ListReplications(ctx, &ListReplicationsParams{Limit: &limit, Offset: &offset}))
		return list.Items, list.Total, err
	})
}

// HostOf returns the host that an iSCSI initiator belongs to; nil if there is none.
func (a *API) HostOf(ctx context.Context, initiator string) (*Host, error) {
	list, err := Decode[Hosts](a.ListHosts(ctx, &ListHostsParams{Initiator: &initiator}))
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Made is Decode for requests that create something: it also reports whether the object is new, or was there already with
// the same content.
func Made[T any](response *http.Response, err error) (object T, isNew bool, failed error) {
	object, failed = Decode[T](response, err)
	return object, failed == nil && response.StatusCode == http.StatusCreated, failed
}

// Value returns what a field of a response has; the zero value if it is null or missing.
func Value[T any](field nullable.Nullable[T]) T {
	found, err := field.Get()
	if err != nil {
		var none T
		return none
	}
	return found
}

package array

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Kinds of errors: those of the array's problems (RFC 9457), and one of this client.
const (
	NotFound     = "not_found"
	Conflict     = "conflict"
	Differs      = "differs"
	Invalid      = "invalid"
	Precondition = "precondition"
	Stale        = "stale"
	Forbidden    = "forbidden"
	Failed       = "failed"
	Unauthorized = "unauthorized"
	// Skew: array and program have versions that do not fit.
	Skew = "skew"
	// Unreachable: no response came; whether the request took effect is not known.
	Unreachable = "unreachable"
)

// Error is a request that the array refused, or that did not reach it.
type Error struct {
	// Kind is one of the constants above, or one of a newer array.
	Kind string
	// Status of the HTTP response; 0 if there was none.
	Status int
	// Detail says what is wrong and what to do.
	Detail string
	// Field of the request that is the reason; empty if the array names none.
	Field string
	cause error
}

func (e *Error) Error() string { return e.Detail }

// Unwrap returns what caused an error of this client.
func (e *Error) Unwrap() error { return e.cause }

// IsKind reports whether an error is of one of the kinds.
func IsKind(err error, kinds ...string) bool {
	var refused *Error
	if !errors.As(err, &refused) {
		return false
	}
	for _, kind := range kinds {
		if refused.Kind == kind {
			return true
		}
	}
	return false
}

// Unless returns nil for an error of the kind: something that is gone already need not be deleted.
func Unless(kind string, err error) error {
	if IsKind(err, kind) {
		return nil
	}
	return err
}

func unmarshal(body []byte, object any) error { return json.Unmarshal(body, object) }

// problem reads an error response. One that is no problem document comes from something between here and the array.
func problem(status int, body []byte) *Error {
	var sent struct {
		Kind   string `json:"kind"`
		Detail string `json:"detail"`
		Field  string `json:"field"`
	}
	if err := json.Unmarshal(body, &sent); err != nil || sent.Kind == "" {
		detail := fmt.Sprintf("the array responded with HTTP status %d and no reason: is this the address of its API?", status)
		return &Error{Kind: Failed, Status: status, Detail: detail}
	}
	if status == http.StatusUnauthorized {
		sent.Detail = "the array does not accept the API token (" + sent.Detail +
			"): it was deleted or has expired; create one with `ashlar token create NAME --role operator` and replace it here"
	}
	return &Error{Kind: sent.Kind, Status: status, Detail: sent.Detail, Field: sent.Field}
}

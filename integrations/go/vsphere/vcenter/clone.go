package vcenter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/vmware/govmomi/vim25/types"
)

// clonePath of vCenter exchanges the token of a session of the vSphere Client for a ticket, which begins a session like it.
const clonePath = "/api/ui/vcenter/session/clone-ticket"

// tokenHeader carries the token.
const tokenHeader = "vmware-api-session-id"

// maxTicketBytes bounds what is read of vCenter's response.
const maxTicketBytes = 1 << 16

// RefusedError is a session of the vSphere Client that vCenter does not know, or not any more.
type RefusedError struct{ reason error }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("vCenter does not accept the session of the vSphere Client (%v): reload the page, or log in again", e.reason)
}

// Expired is a session that vCenter has ended.
func Expired() error { return &RefusedError{errors.New("it has ended")} }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.reason }

// About returns a vCenter's identifier, which it gives to everybody, and its name.
func About(ctx context.Context, access Access) (types.AboutInfo, error) {
	client, err := open(ctx, access)
	if err != nil {
		return types.AboutInfo{}, err
	}
	client.release()
	return client.ServiceContent.About, nil
}

// CloneSession begins a session of the user who has one in the vSphere Client, by its token. The identifier is that of the
// vCenter among those that the client shows.
func CloneSession(ctx context.Context, access Access, token, id string) (*Client, error) {
	client, err := open(ctx, access)
	if err != nil {
		return nil, err
	}
	ticket, err := client.ticket(ctx, token, id)
	if err != nil {
		client.release()
		return nil, err
	}
	if err := client.SessionManager.CloneSession(ctx, ticket); err != nil {
		client.release()
		if _, refused := Fault(err).(*types.InvalidLogin); refused {
			return nil, &RefusedError{err}
		}
		return nil, Explain(err)
	}
	return client, nil
}

func (c *Client) ticket(ctx context.Context, token, id string) (string, error) {
	body, err := json.Marshal(map[string]string{"vc_guid": id})
	if err != nil {
		return "", err
	}
	address := *c.URL()
	address.Path = clonePath
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(tokenHeader, token)
	var sent struct {
		Ticket string `json:"session_clone_ticket"`
	}
	err = c.Client.Client.Do(ctx, request, func(response *http.Response) error {
		if response.StatusCode/100 != 2 {
			reason := fmt.Errorf("HTTP status %d", response.StatusCode)
			if response.StatusCode/100 == 4 {
				return &RefusedError{reason}
			}
			return fmt.Errorf("vCenter gives no ticket for the session: %w", reason)
		}
		return json.NewDecoder(io.LimitReader(response.Body, maxTicketBytes)).Decode(&sent)
	})
	if err == nil && sent.Ticket == "" {
		err = errors.New("vCenter's response to the request for a ticket has none")
	}
	return sent.Ticket, Explain(err)
}

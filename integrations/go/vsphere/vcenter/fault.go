package vcenter

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/pin"
)

// Fault returns the fault of vSphere in an error; nil if it has none.
func Fault(err error) types.BaseMethodFault {
	var failed task.Error
	if errors.As(err, &failed) && failed.LocalizedMethodFault != nil {
		return failed.Fault()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		switch {
		case soap.IsSoapFault(inner):
			if fault, ok := soap.ToSoapFault(inner).VimFault().(types.BaseMethodFault); ok {
				return fault
			}
			// Faults are decoded as values, and the interface is that of their pointers.
			return pointer(soap.ToSoapFault(inner).VimFault())
		case soap.IsVimFault(inner):
			return soap.ToVimFault(inner)
		}
	}
	return nil
}

func pointer(value any) types.BaseMethodFault {
	if value == nil {
		return nil
	}
	made := reflect.New(reflect.TypeOf(value))
	made.Elem().Set(reflect.ValueOf(value))
	fault, _ := made.Interface().(types.BaseMethodFault)
	return fault
}

// IsExpired reports whether a session has to begin again.
func IsExpired(err error) bool {
	_, expired := Fault(err).(*types.NotAuthenticated)
	return expired
}

// IsDenied reports whether the user lacks a privilege.
func IsDenied(err error) bool {
	_, denied := Fault(err).(*types.NoPermission)
	return denied
}

// IsMissing reports whether an object is not there, or not any more.
func IsMissing(err error) bool {
	switch Fault(err).(type) {
	case *types.ManagedObjectNotFound, *types.NotFound:
		return true
	}
	return false
}

// Explain adds to an error of vSphere what it means and what to do.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	var pin *pin.Error
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &pin):
		return fmt.Errorf("vCenter is not trusted: %w", pin)
	case errors.As(err, &unknown), errors.As(err, &name):
		return fmt.Errorf("vCenter's certificate is not trusted (%w): give its SHA-256 with --thumbprint, or the certificate "+
			"of its authority with --vcenter-certificate", err)
	}
	var network *url.Error
	if errors.As(err, &network) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("vCenter can't be reached: %w", network.Err)
	}
	switch fault := Fault(err).(type) {
	case *types.NotAuthenticated:
		return fmt.Errorf("the session with vCenter has expired, and what was under way is not done: log in again (%w)", err)
	case *types.NoPermission:
		object := "this object"
		if fault.Object != nil {
			object = fault.Object.Type + " " + fault.Object.Value
		}
		return fmt.Errorf("permission denied: the user lacks the privilege %s on %s; `ashlar-vsphere role` creates a role with "+
			"all that is needed (%w)", fault.PrivilegeId, object, err)
	case *types.InvalidLogin:
		return fmt.Errorf("vCenter does not accept this user with this password: %w", err)
	case *types.HostNotConnected, *types.HostCommunication, *types.HostNotReachable:
		return fmt.Errorf("vCenter has no connection to the host: reconnect it first (%w)", err)
	case *types.ResourceInUse:
		return fmt.Errorf("it is in use (%s): %w", strings.TrimSpace(fault.Type+" "+fault.Name), err)
	}
	return err
}

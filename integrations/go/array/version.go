package array

import (
	"context"
	"fmt"
	"net/http"
)

// driverAPI is the version of what drivers use of the API that this module is written for.
const driverAPI = 1

// Check asks the array for its status and refuses one whose API does not fit this program.
func (a *API) Check(ctx context.Context) (Status, error) {
	status, err := Decode[Status](a.ShowStatus(ctx))
	if IsKind(err, NotFound) {
		return status, &Error{Kind: Skew, Status: http.StatusNotFound, cause: err, Detail: fmt.Sprintf(
			"the array at %s has no status for drivers: it is older than this program (%s), or this is not the address of its API; update the array",
			a.URL, Version)}
	}
	if err != nil {
		return status, err
	}
	fits := status.DriverAPI
	if fits.Min > driverAPI || fits.Max < driverAPI {
		other := "update this program"
		if fits.Max < driverAPI {
			other = "update the array"
		}
		return status, &Error{Kind: Skew, Detail: fmt.Sprintf(
			"this program (%s) needs version %d of the API for drivers, and array %s (%s) has %d to %d: %s",
			Version, driverAPI, status.Name, status.Version, fits.Min, fits.Max, other)}
	}
	return status, nil
}

package sra

import (
	"errors"

	"ashlar/integrations/array"
	"ashlar/integrations/pin"
)

// Codes of errors. Site Recovery Manager shows their texts; they never change their meaning.
const (
	codeRequest      = 101
	codeUnknown      = 102
	codeConnection   = 103
	codeUnreachable  = 201
	codeCertificate  = 202
	codeToken        = 203
	codeRole         = 204
	codeRefused      = 205
	codeSkew         = 206
	codeWrongArray   = 301
	codeNotPaired    = 302
	codeNoGroup      = 401
	codeNoDevice     = 402
	codeNotSource    = 403
	codeNotTarget    = 404
	codeNoPoint      = 405
	codeLastPoint    = 406
	codeSplit        = 407
	codeTransfer     = 408
	codeInitiators   = 409
	codeNotPromoted  = 410
	codeSingleDevice = 411
)

// definition of an error: what is wrong, and what to do.
type definition struct {
	code              int
	description, hint string
}

var definitions = []definition{
	{codeRequest, "The request of Site Recovery Manager is not understood.", "Compare the versions of Site Recovery Manager and of the adapter."},
	{codeUnknown, "The adapter does not have this command.", "Install the same version of the adapter on both sites and rescan adapters."},
	{codeConnection, "The connection of the array manager is incomplete.", "Edit the array manager: the address as https://HOST:PORT, an API token as the password, and the SHA-256 of the array's certificate."},
	{codeUnreachable, "The array does not respond.", "Check the array, its address in the array manager, and the network between them."},
	{codeCertificate, "The array shows a certificate that is not the pinned one.", "If the certificate was replaced, enter the new fingerprint in the array manager. Otherwise find out what responds at this address."},
	{codeToken, "The array does not accept the API token.", "Create a token on the array with `ashlar token create srm --role admin`, and enter it as the password of the array manager."},
	{codeRole, "The API token may not do this.", "Use a token with the role admin: promoting, demoting and reversing replications needs it."},
	{codeRefused, "The array refused the request.", "The description has the array's reason."},
	{codeSkew, "The versions of the array and of the adapter do not fit.", "Update the older of them."},
	{codeWrongArray, "The array at this address has another serial number.", "Edit the address of the array manager, or create another array manager for this array."},
	{codeNotPaired, "The array is not paired with the peer array.", "Pair the arrays: `ashlar remote-array key` on one, `ashlar remote-array pair` on the other."},
	{codeNoGroup, "The array has no such replication.", "Discover devices again; `ashlar replication list` shows replications."},
	{codeNoDevice, "The replication has no such volume.", "Discover devices again, and edit the protection group."},
	{codeNotSource, "The array is not the source of the replication.", "Discover devices again. If a recovery was interrupted, run it again."},
	{codeNotTarget, "The array is not the target of the replication.", "Discover devices again. If a recovery was interrupted, run it again."},
	{codeNoPoint, "The target has no complete point yet.", "Wait for the first transfer: `ashlar replication show`."},
	{codeLastPoint, "The last point of the source is not complete on the target.", "Restore the connection between the arrays and repeat, or run a disaster recovery, which loses what was not transferred."},
	{codeSplit, "The volumes of both arrays take writes.", "Reprotect demotes the array that was recovered from. Otherwise decide which array loses its changes and use `ashlar replication demote --force` there."},
	{codeTransfer, "Points are not transferred.", "`ashlar replication show` on the source has the reason; resume a paused replication, make space on the target, or restore the connection."},
	{codeInitiators, "A group of hosts has no iSCSI initiator.", "Enable the software iSCSI adapter on the hosts of the recovery site; other transports are not supported."},
	{codeNotPromoted, "The other array was not recovered to, as far as this array knows.", "Restore the connection between the arrays and repeat. `ashlar replication demote --force` on this array demotes it without asking the other."},
	{codeSingleDevice, "Volumes are recovered in consistency groups only.", "Discover devices again, and edit the protection group."},
}

// problem is an error of the adapter itself.
type problem struct {
	code   int
	detail string
}

func (p *problem) Error() string { return p.detail }

func fail(code int, detail string) error { return &problem{code, detail} }

// failure returns an error for a response.
func failure(err error) *Failure {
	code := codeOf(err)
	made := &Failure{Code: code, Description: err.Error()}
	for _, known := range definitions {
		if known.code == code {
			made.FixHint = known.hint
		}
	}
	return made
}

func codeOf(err error) int {
	var own *problem
	var pinned *pin.Error
	var refused *array.Error
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &pinned):
		return codeCertificate
	case !errors.As(err, &refused):
		return codeRefused
	}
	switch refused.Kind {
	case array.Unreachable:
		return codeUnreachable
	case array.Unauthorized:
		return codeToken
	case array.Forbidden:
		return codeRole
	case array.Skew:
		return codeSkew
	}
	return codeRefused
}

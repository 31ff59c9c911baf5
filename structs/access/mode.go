package access

import (
	"slices"

	"berth/structs"
)

// The modes of access control, the loosest first.
const (
	ModeOff     = "off"     // requests need no token
	ModeLog     = "log"     // every request passes, and the log has what enforce would deny
	ModeEnforce = "enforce" // a request needs a token that gives it its right
)

// Modes are the modes of access control, the loosest first.
var Modes = []string{ModeOff, ModeLog, ModeEnforce}

// StricterMode returns the stricter one of two modes. A text that is no mode is looser than each mode.
func StricterMode(a, b string) string {
	if slices.Index(Modes, a) >= slices.Index(Modes, b) {
		return a
	}
	return b
}

// ControlMode is the one row with the mode of the whole cluster. Without it the mode is off. The
// configuration of a server only tightens it.
type ControlMode struct {
	Mode string
	structs.Indexes
}

// ModeChange stores the mode of the cluster. Without Loosen, a mode that is not stricter changes nothing, and
// neither does one before the first token was made: nobody could call the cluster.
type ModeChange struct {
	Mode   string
	Loosen bool
}

// ServerMode is the mode that the configuration of a server asks for.
type ServerMode struct{ Name, Mode string }

// ModeGet reads the mode of access control.
var ModeGet = structs.Read[ModeGetRequest, ModeGetResponse]("ACL.Mode")

// ModeGetRequest asks for the mode.
type ModeGetRequest struct {
	structs.QueryOptions
}

// ModeGetResponse has the modes of the cluster and of the server that answers: its own configuration may
// be stricter.
type ModeGetResponse struct {
	Mode   string // of the cluster
	Server string // the name of the server
	Here   string // the mode by which it decides
	structs.QueryMeta
}

// ModeSet stores the mode of the cluster, also a looser one: root does so at the operator socket of the
// leader.
var ModeSet = structs.Write[ModeSetRequest, structs.Empty]("ACL.SetMode")

// ModeSetRequest has the mode.
type ModeSetRequest struct {
	Mode string
	structs.WriteOptions
}

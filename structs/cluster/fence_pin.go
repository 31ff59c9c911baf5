package cluster

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/structs"
	"berth/structs/validate/field"
)

// The kinds of the key of a pin.
const (
	FencePinOfName = "name" // the name to which a join token bound the certificate of the node
	FencePinOfID   = "id"   // the ID of a registered node
)

// The bounds of pins.
const (
	MaxFencePins     = 64  // of one key
	MaxFencePinValue = 255 // bytes
	MaxFencePinRows  = 100_000
)

// FencePin is a value that root has given for a node, such as the address of its management controller. Fence
// devices refer to it by its name. A node has no part in it: a device must not act on the word of the machine
// that it is to switch off. Key: Kind, Key, Name.
type FencePin struct {
	Kind   string // FencePinOfName or FencePinOfID
	Key    string
	Name   string
	Value  string
	NodeID string // the node for which it was given: a successor of the name has another ID
	By     string // the name of the operator, unverified
	Time   int64  // UnixNano
	structs.Indexes
}

// NodeFencePin pins values for a node, and removes pins.
var NodeFencePin = structs.Write[NodeFencePinRequest, structs.Empty]("Node.FencePin")

// NodeFencePinRequest names the node and the pins. The servers decide on the key of the pins.
type NodeFencePinRequest struct {
	NodeID string
	// Left: NodeID is the name of pins whose node is no longer registered. They can only be removed.
	Left   bool
	Pins   map[string]string // values by their names
	Remove []string          // names
	By     string            // the name of the operator, unverified
	structs.WriteOptions
}

// pinName is the form of the name of a pin.
var pinName = field.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// IsFencePinName reports whether a text can be the name of a pin.
func IsFencePinName(name string) bool { return pinName().MatchString(name) }

// Validate names every fault of the names and the values.
func (r *NodeFencePinRequest) Validate() error {
	f := field.New("the pins")
	f.Require(len(r.By) <= structs.MaxName, "By may have %d bytes", structs.MaxName)
	f.Require(len(r.Pins)+len(r.Remove) > 0, "there are none: nothing is to be pinned or removed")
	f.Require(!r.Left || len(r.Pins) == 0, "a name without a registered node gets no new ones")
	if f.AtMost("pins", len(r.Pins)+len(r.Remove), MaxFencePins) < len(r.Pins)+len(r.Remove) {
		return f.Err()
	}

	for _, name := range slices.Sorted(maps.Keys(r.Pins)) {
		checkPinName(f, name)
		value := r.Pins[name]
		f.CheckBytes("the value of "+structs.Cut(name, structs.MaxQuoted), len(value), MaxFencePinValue)
		f.Require(IsFencePinValue(value), "the value of %q must be printable text of one line, not blank", name)
		f.Require(!slices.Contains(r.Remove, name), "%q is to be pinned and removed", name)
	}
	for _, name := range r.Remove {
		checkPinName(f, name)
	}
	return f.Err()
}

func checkPinName(f field.Errors, name string) {
	f.Require(IsFencePinName(name), "the name %q must be of letters, digits, '_' and '-', at most 64", name)
}

// IsFencePinValue reports whether a fence agent reads a text as one value: a line end would begin another
// option, and an empty plug names no machine.
func IsFencePinValue(value string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(value) && !strings.ContainsFunc(value, unprintable) && strings.TrimSpace(value) != ""
}

// NodeFencePins reads the pins, and says which nodes the devices of the server that answers cannot fence.
var NodeFencePins = structs.Read[structs.QueryRequest, NodeFencePinsResponse]("Node.FencePins")

// NodeFencePinsResponse has the pins by kind, key and name.
type NodeFencePinsResponse struct {
	Pins     []*FencePin
	Warnings []*FenceWarning // at most MaxFenceWarnings
	Unlisted int             // further warnings
	structs.QueryMeta
}

// MaxFenceWarnings is the most warnings of an answer.
const MaxFenceWarnings = 20

// FenceWarning says that a loss of a node would be no good case for the fence devices.
type FenceWarning struct {
	NodeID string
	Name   string // of the node
	Text   string // without the node
}

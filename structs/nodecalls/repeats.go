package nodecalls

import "berth/structs"

// Repeat is what follows a failed call of a plugin.
type Repeat int

// The answers to a failure.
const (
	// GiveUp makes no further call until an operator, the volume or an instance of the plugin changes.
	GiveUp Repeat = iota
	// Briefly repeats the call three times, after growing pauses of some seconds in all, and then gives up.
	Briefly
	// Seldom repeats the call each minute: somebody may change a right or the storage.
	Seldom
	// Growing repeats the call after growing pauses, without an end.
	Growing
)

// unimplemented is the code of a call that the plugin does not have.
const unimplemented = "Unimplemented"

// parked are the answers after which a node makes a call that takes a volume back no more, by their gRPC
// codes. Every other failure of such a call is Growing: only this call releases the volume.
var parked = map[string]bool{
	"InvalidArgument":         true,
	unimplemented:             true,
	structs.CSICodeEndsPlugin: true,
}

// repeats is the policy for all calls of plugins, by the kind of the failure and the RPC; "" is every other
// RPC. The servers and the nodes ask it. Other kinds are Growing: the outcome of the call is unknown.
//
// A volume that stays attached keeps its next user away, so a detach is never given up. A node that gives up
// a volume fails the allocation, which another node may start.
var repeats = map[structs.Kind]map[string]Repeat{
	structs.KindInvalid:  {"": GiveUp, "ControllerUnpublishVolume": Seldom},
	structs.KindConflict: {"": GiveUp, "ControllerUnpublishVolume": Seldom},
	structs.KindDenied:   {"": Seldom, "NodeStageVolume": GiveUp, "NodePublishVolume": GiveUp},
	structs.KindNotFound: {"": Growing, "NodeStageVolume": GiveUp, "NodePublishVolume": GiveUp},
	structs.KindPrecondition: {
		"": Growing, "NodeStageVolume": GiveUp, "NodePublishVolume": GiveUp,
	},
	structs.KindInternal: {"": Growing, "NodeStageVolume": Briefly, "NodePublishVolume": Briefly},
}

// RepeatOf returns what follows a failure of an RPC of a plugin. code is the name of its gRPC code.
func RepeatOf(rpc string, kind structs.Kind, code string) Repeat {
	if rpc == "NodeUnpublishVolume" || rpc == "NodeUnstageVolume" {
		if ParksRelease(code) {
			return GiveUp
		}
		return Growing
	}

	// Also the next call finds nobody who can make it, or ends him.
	if code == unimplemented || code == structs.CSICodeEndsPlugin {
		kind = structs.KindInvalid
	}
	byRPC, known := repeats[kind]
	if !known {
		return Growing
	}
	if r, ok := byRPC[rpc]; ok {
		return r
	}
	return byRPC[""]
}

// ParksRelease reports whether a node parks a call that takes a volume back after an answer with a code: it
// makes the call again only at another process of the plugin, or if an operator requests it.
func ParksRelease(code string) bool { return parked[code] }

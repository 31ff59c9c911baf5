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
	// Confirm repeats the call twice, each time after the servers have confirmed the claim on the volume.
	Confirm
	// Seldom repeats the call each minute: somebody may change a right or the storage.
	Seldom
	// Growing repeats the call after growing pauses, without an end.
	Growing
)

// The failures of the policy, by their gRPC codes or by the kinds of their errors.
const (
	invalid      = string(structs.KindInvalid)
	denied       = string(structs.KindDenied)
	notFound     = string(structs.KindNotFound)
	conflict     = string(structs.KindConflict)
	precondition = string(structs.KindPrecondition)
	internal     = string(structs.KindInternal)

	invalidArgument    = "InvalidArgument"
	failedPrecondition = "FailedPrecondition"
	unimplemented      = "Unimplemented" // the next call finds nobody, either, who can make it
	unknown            = "Unknown"
	endsPlugin         = structs.CSICodeEndsPlugin
)

// The calls that have another row of the policy than their RPC.
const (
	// OfflineExpansion is ControllerExpandVolume of a plugin that expands a volume only while no node has it.
	OfflineExpansion = "ControllerExpandVolume, offline"
	// UndoneSnapshot is a call that undoes the creation of a snapshot or of a group that never was ready.
	UndoneSnapshot = "DeleteSnapshot, never ready"
)

// answers are the answers to the failures of one call. A code precedes the kind of its error. All others are
// Growing: the outcome of the call is unknown.
type answers map[string]Repeat

// policy is the one policy for failed calls of plugins, which the servers and the nodes ask. The table of
// docs/storage/driver-errors.md shows it.
var policy = map[string]answers{
	"ControllerPublishVolume": attaching,
	// A volume that stays attached keeps its next user away, so this is never given up.
	"ControllerUnpublishVolume": {
		invalid: Seldom, conflict: Seldom, unimplemented: Seldom, endsPlugin: Seldom, denied: Seldom,
	},
	// A node that gives up fails the allocation, which another node may start.
	"NodeStageVolume":   mounting,
	"NodePublishVolume": mounting,
	// Only these calls release a volume.
	"NodeUnstageVolume":   releasing,
	"NodeUnpublishVolume": releasing,

	"CreateVolume":              creating,
	"CreateSnapshot":            creating,
	"CreateVolumeGroupSnapshot": creating,
	"DeleteVolume":              deleting,
	"DeleteSnapshot":            deleting,
	"DeleteVolumeGroupSnapshot": deleting,
	// Nobody looks for what such a call leaves, so it is never given up.
	UndoneSnapshot: {
		invalid: Seldom, conflict: Seldom, unimplemented: Seldom, endsPlugin: Seldom, denied: Seldom,
	},
	// The volume may be in use, or unknown for a while.
	"ControllerExpandVolume": {
		invalid: GiveUp, denied: GiveUp, notFound: Growing, conflict: GiveUp, precondition: GiveUp,
		failedPrecondition: Growing,
	},
	// Claims wait for it, and no node has the volume.
	OfflineExpansion: creating,
	"ControllerModifyVolume": {
		invalid: GiveUp, denied: GiveUp, notFound: Growing, conflict: GiveUp, precondition: GiveUp,
	},
	// The next stage makes the call. A command of the log asks for this row when it is applied, so a change of
	// it needs a level of the cluster.
	"NodeExpandVolume": {
		invalid: GiveUp, conflict: GiveUp, precondition: GiveUp, denied: Seldom, notFound: Seldom,
	},
}

// The answers of several calls.
var (
	attaching = answers{
		invalid: GiveUp, conflict: GiveUp, unimplemented: GiveUp, endsPlugin: GiveUp, denied: Seldom,
	}
	mounting = answers{
		invalid: GiveUp, denied: GiveUp, conflict: GiveUp, precondition: GiveUp, notFound: Confirm,
		internal: Briefly, unknown: Growing,
	}
	releasing = answers{invalidArgument: GiveUp, unimplemented: GiveUp, endsPlugin: GiveUp}
	creating  = answers{
		invalid: GiveUp, denied: GiveUp, notFound: GiveUp, conflict: GiveUp, precondition: GiveUp,
	}
	// An object in use is deleted once it is free.
	deleting = answers{
		invalid: GiveUp, denied: GiveUp, notFound: GiveUp, conflict: GiveUp, precondition: GiveUp,
		failedPrecondition: Growing,
	}
)

// RepeatOf returns what follows a failure of an RPC of a plugin. code is the name of its gRPC code.
func RepeatOf(rpc string, kind structs.Kind, code string) Repeat {
	row := policy[rpc]
	if r, ok := row[code]; ok {
		return r
	}
	if r, ok := row[string(kind)]; ok {
		return r
	}
	return Growing
}

// ParksRelease reports whether a node parks a call that takes a volume back after an answer with a code: it
// makes the call again only at another process of the plugin, or if an operator requests it.
func ParksRelease(code string) bool { return RepeatOf("NodeUnpublishVolume", "", code) == GiveUp }

// TriesOther reports whether another controller may be called at once: unavailable means that the node did
// not get the call or did not begin it. The calls that change storage are timeouts after each answer of the
// plugin that leaves the outcome open, so what is left are calls that only read. Their repeat with the same
// arguments is legal at any controller. After ABORTED it is not: the plugin works on another operation for
// the volume, and two controllers must not have calls for it at a time (CSI spec, "Concurrency"). For a list
// of volumes, ABORTED rejects the token of its page, which no other controller knows.
func TriesOther(kind structs.Kind, code string) bool {
	return kind == structs.KindUnavailable && code != structs.CSICodeAborted
}

package acl

import "slices"

// Capability is a right in a namespace, on a host volume, on a node pool, on the paths of variables or on a
// single volume. The names of the dialect are kept.
type Capability string

// Deny as a capability denies everything that a rule is about.
const Deny Capability = "deny"

// Capabilities in a namespace.
const (
	ListJobs           Capability = "list-jobs"
	ParseJob           Capability = "parse-job"
	ReadJob            Capability = "read-job"
	SubmitJob          Capability = "submit-job"
	DispatchJob        Capability = "dispatch-job"
	ReadLogs           Capability = "read-logs"
	ReadFS             Capability = "read-fs"
	AllocExec          Capability = "alloc-exec"
	AllocNodeExec      Capability = "alloc-node-exec"
	AllocLifecycle     Capability = "alloc-lifecycle"
	CSIRegisterPlugin  Capability = "csi-register-plugin"
	CSIListVolume      Capability = "csi-list-volume"
	CSIReadVolume      Capability = "csi-read-volume"
	CSIWriteVolume     Capability = "csi-write-volume"
	CSIMountVolume     Capability = "csi-mount-volume"
	ListScaling        Capability = "list-scaling-policies"
	ReadScaling        Capability = "read-scaling-policy"
	ReadJobScaling     Capability = "read-job-scaling"
	ScaleJob           Capability = "scale-job"
	HostVolumeCreate   Capability = "host-volume-create"
	HostVolumeRegister Capability = "host-volume-register"
	HostVolumeRead     Capability = "host-volume-read"
	HostVolumeWrite    Capability = "host-volume-write"
	HostVolumeDelete   Capability = "host-volume-delete"
	// SubmitRecommendation and SentinelOverride are accepted, so that policies of the dialect load. Nothing
	// asks for them.
	SubmitRecommendation Capability = "submit-recommendation"
	SentinelOverride     Capability = "sentinel-override"

	// SubmitRawExec lets jobs have tasks of raw_exec, which run as root without a sandbox. No shorthand has
	// it.
	SubmitRawExec Capability = "submit-raw-exec"
	// SubmitPrivileged lets jobs have privileged containers, or containers in namespaces of the host. No
	// shorthand has it.
	SubmitPrivileged Capability = "submit-privileged"
	// CSIForceVolume lets a caller release or delete a volume without the word of its node, where two nodes
	// might write to it. No shorthand has it.
	CSIForceVolume Capability = "csi-force-volume"
)

// Rights on single volumes: see VolumeRule.
const (
	VolumeRead     Capability = "read"
	VolumeClaim    Capability = "claim"
	VolumeWrite    Capability = "write" // create, register, change, delete and deregister
	VolumeExpand   Capability = "expand"
	VolumeSnapshot Capability = "snapshot"
	VolumeDetach   Capability = "detach"
	VolumeForce    Capability = "force"
)

// Rights on the paths of variables.
const (
	VariablesList    Capability = "list"
	VariablesRead    Capability = "read"
	VariablesWrite   Capability = "write"
	VariablesDestroy Capability = "destroy"
)

// Rights of tasks on host volumes.
const (
	MountReadOnly  Capability = "mount-readonly"
	MountReadWrite Capability = "mount-readwrite"
)

// Rights on node pools.
const (
	PoolRead   Capability = "read"
	PoolWrite  Capability = "write"
	PoolDelete Capability = "delete"
)

// family is the capabilities that rules of one kind may have, and what their shorthands stand for.
type family struct {
	kind       string // in messages
	all        []Capability
	shorthands map[string][]Capability
}

var readNamespace = []Capability{
	ListJobs, ParseJob, ReadJob, CSIListVolume, CSIReadVolume,
	ListScaling, ReadScaling, ReadJobScaling, HostVolumeRead,
}

var scaleNamespace = []Capability{ListScaling, ReadScaling, ReadJobScaling, ScaleJob}

var writeNamespace = slices.Concat(readNamespace, []Capability{
	ScaleJob, SubmitJob, DispatchJob, ReadLogs, ReadFS, AllocExec, AllocLifecycle,
	CSIWriteVolume, CSIMountVolume, HostVolumeCreate, HostVolumeWrite, SubmitRecommendation,
})

var namespaceFamily = family{
	kind: "namespace",
	all: slices.Concat(writeNamespace, []Capability{
		AllocNodeExec, CSIRegisterPlugin, HostVolumeRegister, HostVolumeDelete, SentinelOverride,
		SubmitRawExec, SubmitPrivileged, CSIForceVolume,
	}),
	shorthands: map[string][]Capability{
		"read":  readNamespace,
		"scale": scaleNamespace,
		"write": writeNamespace,
	},
}

// implied are the rights on host volumes that others give, as in the dialect.
var implied = map[Capability][]Capability{
	HostVolumeWrite:    {HostVolumeCreate, HostVolumeRegister, HostVolumeRead, HostVolumeDelete},
	HostVolumeRegister: {HostVolumeCreate, HostVolumeRead},
	HostVolumeCreate:   {HostVolumeRead},
}

var volumeFamily = family{
	kind: "volume",
	all: []Capability{
		VolumeRead, VolumeClaim, VolumeWrite, VolumeExpand, VolumeSnapshot, VolumeDetach, VolumeForce,
	},
	shorthands: map[string][]Capability{
		"read":  {VolumeRead},
		"write": {VolumeRead, VolumeClaim, VolumeWrite, VolumeExpand, VolumeSnapshot, VolumeDetach},
	},
}

var variablesFamily = family{
	kind: "variables",
	all:  []Capability{VariablesList, VariablesRead, VariablesWrite, VariablesDestroy},
}

var hostVolumeFamily = family{
	kind: "host_volume",
	all:  []Capability{MountReadOnly, MountReadWrite},
	shorthands: map[string][]Capability{
		"read":  {MountReadOnly},
		"write": {MountReadOnly, MountReadWrite},
	},
}

var nodePoolFamily = family{
	kind: "node_pool",
	all:  []Capability{PoolRead, PoolWrite, PoolDelete},
	shorthands: map[string][]Capability{
		"read":  {PoolRead},
		"write": {PoolRead, PoolWrite, PoolDelete},
	},
}

// csiCapability is what a namespace must give for a right on a volume for which no volume rule decides.
var csiCapability = map[Capability]Capability{
	VolumeRead:     CSIReadVolume,
	VolumeClaim:    CSIMountVolume,
	VolumeWrite:    CSIWriteVolume,
	VolumeExpand:   CSIWriteVolume,
	VolumeSnapshot: CSIWriteVolume,
	VolumeDetach:   CSIWriteVolume,
	VolumeForce:    CSIForceVolume,
}

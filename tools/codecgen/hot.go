package codecgen

// WirePackages are the folders of the packages whose exported structs are rows, or bodies of requests and
// answers. Tests of the codec, of the fields, of the methods and of the levels read their source. The structs
// of Hot are all in the first. No two of the packages have a type of the same name: the lists of stored
// fields have the names without the packages.
var WirePackages = []string{
	"structs",
	"structs/access",
	"structs/cluster",
	"structs/storage",
	"structs/event",
	"structs/admission",
	"structs/nodecalls",
	"structs/quota",
}

// Hot lists the structs of package structs that have generated codecs. These are the rows that fill a
// snapshot, and the messages and log entries that nodes, the scheduler and submitters of jobs send by the
// thousand, each with its parts. docs/performance has their rates. The other structs go through
// reflection, also where they are a part of a hot one.
var Hot = []string{
	// Parts of nearly every row and message.
	"Empty", "Indexes", "Origin", "QueryMeta", "QueryOptions", "QueryRequest", "WriteMeta", "WriteOptions",

	// A node: its row, its registration, its fingerprints and its heartbeats.
	"DriverInfo", "HostVolume", "Node", "NodeCPUResources", "NodeDiskResources", "NodeEvent",
	"NodeMemoryResources", "NodeNetworkAddress", "NodeNetworkResource", "NodeReservedCPU",
	"NodeReservedNetworks", "NodeReservedResources", "NodeResources",
	"AgentProof", "FromAgent", "LeaseGrant", "NodeEpoch", "NodeGetRequest", "NodeHeartbeatRequest",
	"NodeHeartbeatResponse", "NodeListResponse",
	"NodeListStub", "NodeRegisterRequest", "NodeRegisterResponse", "NodeStatusUpdate", "NodeUpdateCSIRequest",

	// A plugin instance, and the plugin, which an answer assembles from the instances of the whole fleet.
	"CSIHealth", "CSIInfo", "CSINodeInfo", "CSIPlugin", "CSIPluginGetResponse", "CSIPluginInstance",
	"CSIStorageHealth", "CSITopology",

	// A volume.
	"CSIMountOptions", "CSIVolume", "CSIVolumeCapability", "CSIVolumeDetail", "CSIVolumeGetRequest",
	"CSIVolumeGetResponse", "CSIVolumeListRequest", "CSIVolumeListResponse", "CSIVolumeListStub",
	"CSIVolumeOrigin", "CSIVolumeRegisterRequest", "CSIVolumeSpec", "CSIVolumeStatus",

	// A claim, with the queue and the attachment of its volume.
	"CSIAttachment", "CSIClaim", "CSIClaimGetRequest", "CSIClaimGetResponse", "CSIClaimKey",
	"CSIClaimListResponse", "CSIClaimQueueRow", "CSIClassCount", "CSIVolumeClaimRequest",
	"CSIVolumeClaimResponse", "CSIVolumeUnpublishRequest",

	// A job with the parts that nearly every job has.
	"Constraint", "EphemeralDisk", "Job", "JobRegisterRequest", "LogConfig", "ReschedulePolicy",
	"RestartPolicy", "Task", "TaskGroup", "UpdateStrategy", "VolumeMount", "VolumeRequest",

	// An allocation, and the plan, the evaluation and the deployment that make it.
	"AllocClientUpdate", "AllocListResponse", "AllocListStub", "AllocMetric", "AllocatedPort", "Allocation",
	"AllocsClientUpdateRequest", "AllocsResponse", "CSIVolumeUse", "Deployment", "DeploymentState",
	"EvalUpdateRequest", "Evaluation", "NodeScoreMeta", "Plan", "PlanStop", "PlanUpdate", "Resources",
	"TaskEvent", "TaskState",
}

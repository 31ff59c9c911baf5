package event

// Types has the types of the events of each topic.
var Types = map[Topic][]string{
	Job: {
		"JobRegistered", "JobDeregistered", "JobBatchDeregistered",
		// The status of the job has changed, by the command of that name.
		"PlanResult", "EvaluationUpdated", "AllocationUpdated",
		"JobVersionTagged", "JobVersionUntagged", // the payload has the version
	},
	Evaluation: {"EvaluationUpdated"},
	Allocation: {"AllocationUpdated", "AllocationUpdateDesiredStatus", "PlanResult"},
	Deployment: {"DeploymentStatusUpdate", "DeploymentPromotion", "DeploymentAllocHealth", "PlanResult"},
	Node:       {"NodeRegistration", "NodeDeregistration", "NodeEligibility", "NodeDrain", "NodeStreamEvent"},
	NodePool:   {"NodePoolUpserted", "NodePoolDeleted"},
	Service:    {"ServiceRegistration", "ServiceDeregistration"},
	CSIVolume: {
		"CSIVolumeRegistered", "CSIVolumeUpdated", "CSIVolumeClaim", "CSIVolumeGrown", "CSIVolumeDeregistered",
	},
	CSIPlugin:  {"CSIPluginUpserted", "CSIPluginDeleted"},
	HostVolume: {"HostVolumeRegistered", "HostVolumeDeleted"},
	ACLToken:   {"ACLTokenUpserted", "ACLTokenDeleted"},
	ACLPolicy:  {"ACLPolicyUpserted", "ACLPolicyDeleted"},
	ACLRole:    {"ACLRoleUpserted", "ACLRoleDeleted"},
	Claim:      {"ClaimRequested", "ClaimGranted", "ClaimUpdated", "ClaimReleased"},
	Attachment: {
		"AttachmentRequested", "AttachmentAttached", "AttachmentDetaching", "AttachmentDetached",
		"AttachmentUpdated",
	},
	Instance: {
		"InstanceRegistered", "InstanceHealthy", "InstanceUnhealthy", "InstanceUpdated", "InstanceDeregistered",
	},
	Snapshot: {
		"SnapshotRequested", "SnapshotReady", "SnapshotFailed", "SnapshotUpdated", "SnapshotDeleted",
	},
	Operation: {"OperationBegun", "OperationFailed", "OperationEnded"},
	Fence: {
		"FenceOrdered", "FenceOrderEnded", "FenceBegun", "FenceProved", "FenceFailed", "FenceVoid", "FenceDeleted",
	},
	Clock: {"ClockWrong", "ClockRight"},
}

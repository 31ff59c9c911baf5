package schema

// Topics that a leader's loop can subscribe to. The comments name the parts of mvcc.Change.Key.
var (
	NodeRows       = Nodes.Topic(0)       // node
	InstanceRows   = Instances.Topic(0)   // plugin, kind, node
	VolumeRows     = Volumes.Topic(0)     // namespace, volume
	AttachmentRows = Attachments.Topic(0) // namespace, volume, node
	RootKeyRows    = RootKeys.Topic(0)    // key

	// ActiveDeploymentRows are deployments that have not ended, or had not before the change: namespace, job,
	// deployment.
	ActiveDeploymentRows = ActiveDeployments.Topic(0)

	// EndedClaimRows are claims that outlive their allocations, or did before the change: namespace, volume,
	// allocation.
	EndedClaimRows = EndedClaims.Topic(1)

	// GrowingClaimRows are claims that GrowingClaims yields, or yielded before the change: namespace, volume,
	// allocation.
	GrowingClaimRows = GrowingClaims.Topic(2)

	// RevokedSITokenRows are tokens that RevokedSITokens yields, or yielded before the change: allocation,
	// task, accessor.
	RevokedSITokenRows = RevokedSITokens.Topic(1)
)

// AuthorityRows are the authorities: ID.
var AuthorityRows = Authorities.Topic(0)

// SigningKeyRows are the keys that sign identities: key.
var SigningKeyRows = SigningKeys.Topic(0)

// LockedVariableRows are variables that LockedVariables yields, or yielded before the change: namespace,
// path.
var LockedVariableRows = LockedVariables.Topic(0)

// RevocationRows are the revocations: ID.
var RevocationRows = Revocations.Topic(0)

// PluginConfigRows are the settings of plugins: plugin.
var PluginConfigRows = PluginConfigs.Topic(0)

// SnapshotRows are the snapshots of volumes: namespace, name.
var SnapshotRows = Snapshots.Topic(0)

// SnapshotGroupRows are the group snapshots: namespace, name.
var SnapshotGroupRows = SnapshotGroups.Topic(0)

// SnapshotScheduleRows are the schedules of snapshots: namespace, name.
var SnapshotScheduleRows = SnapshotSchedules.Topic(0)

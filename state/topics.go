package state

// Topics that a leader's loop can subscribe to. The comments name the parts of mvcc.Change.Key.
var (
	NodeRows       = nodes.Topic(0)       // node
	InstanceRows   = instances.Topic(0)   // plugin, kind, node
	VolumeRows     = volumes.Topic(0)     // namespace, volume
	AttachmentRows = attachments.Topic(0) // namespace, volume, node
	RootKeyRows    = rootKeys.Topic(0)    // key

	// ActiveDeploymentRows are deployments that have not ended, or had not before the change: namespace, job,
	// deployment.
	ActiveDeploymentRows = activeDeployments.Topic(0)

	// EndedClaimRows are claims that outlive their allocations, or did before the change: namespace, volume,
	// allocation.
	EndedClaimRows = endedClaims.Topic(1)

	// GrowingClaimRows are claims that GrowingClaims yields, or yielded before the change: namespace, volume,
	// allocation.
	GrowingClaimRows = growing.Topic(2)

	// RevokedSITokenRows are tokens that RevokedSITokens yields, or yielded before the change: allocation, task,
	// accessor.
	RevokedSITokenRows = revokedSITokens.Topic(1)
)

// AuthorityRows are the authorities: ID.
var AuthorityRows = authorities.Topic(0)

// LockedVariableRows are variables that LockedVariables yields, or yielded before the change: namespace,
// path.
var LockedVariableRows = lockedVariables.Topic(0)

// RevocationRows are the revocations: ID.
var RevocationRows = revocations.Topic(0)

package operator

import "strings"

// keptByKey has the maps whose keys are no fields: names of tasks, groups, plugins and the like, and the
// facts that a node tells of its machine. Their texts stay.
var keptByKey = nameSet(`
	Attributes ClassExhausted ClassFiltered Devices DimensionExhausted Drivers FailedTGAllocs HostVolumes
	NodesAvailable QueuedAllocations Scores Segments TaskGroups TaskStates Volumes`)

// keptNames has the fields whose texts, lists and objects stay: names and IDs, states, and what places an
// allocation.
//
// Texts of users and of plugins are not among them: environments, configurations of drivers, templates,
// artifacts, metadata, payloads, tags, parameters, checks, messages and descriptions.
var keptNames = nameSet(`
	AccessMode AccessibleTopologies AccessibleTopology Addresses Affinities Alias AllocID AllowedTopologies
	AttachmentMode Attribute AwaitedAllocations
	Binding BlockedEval BlockedOn BootID
	CIDR CPU CSIInfo CSIPlugins CSIVolumes Call Capabilities Claim Class Classes ClientStatus CloneID
	CloneSource ComputedClass Constraints ControllerInfo
	Datacenter Datacenters DelayFunction DeleteCause DeploymentID DeploymentStatus DesiredStatus Device
	DeviceIDs DisabledTaskDrivers Disconnect Disk DrainSpec DrainStrategy Driver DynamicPorts
	EnabledTaskDrivers EphemeralDisk EvalID Events ExpandError ExternalID ExternalNodeID ExternalVolumeID
	FSType Family Filter FollowupEvalID ForceDeadline Forced FormerProvider Freed
	Group Grow Grown
	HealthCheck Hook Host HostIP HostNetwork HTTPAddr
	ID IP Indexes Inline Instances
	JobID
	Key Kind
	LTarget Label Last LastDrain LastError LastSnapshot Level Lifecycle Limits Locality LogConfig
	MacAddress Memory Metrics Migrate Mode
	Name Namespace NetworkStatus Networks Next NextAllocation NextEval Node NodeClass NodeID NodeInfo NodeName
	NodeNetworks NodePool NodeResources
	Of OnDeadMount OnNodeLoss Op Operand
	ParameterizedJob ParentID Periodic PlacedCanaries PluginCalls PluginDrift PluginID Ports PortLabel
	PreemptedAllocations PreemptedByAllocation PreemptionConfig Preferred PrevAllocID PrevNodeID
	PreviousAllocation PreviousEval Progress PropagationMode Provider ProviderVersion
	Quota QuotaExhausted QuotaLimitReached
	RTarget Reclaim Reconcile Region RegionLimit Rejections ReleaseError RequestedCapabilities
	RequestedTopologies Required ReschedulePolicy RescheduleTracker ReservableCpuCores ReservedHostPorts
	ReservedPorts ReservedResources Resources RestartPolicy
	SchedulerAlgorithm SchedulerConfiguration SchedulingEligibility ScoreMetaData Server ServerID
	ServiceName Services Shape Snapshot SnapshotID Source Spec SpecType Specs SpreadTarget Spreads
	State Status StopCause Storage StorageHealth String Subsystem
	Tally TaskGroup TaskName Tasks Then TimeZone Topologies TriggeredBy TurnedReadOnly Type
	Unguarded Unit Update
	Vendor Version Volume VolumeID VolumeMounts`)

func nameSet(names string) map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(names) {
		all[name] = true
	}
	return all
}

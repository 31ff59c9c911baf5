package debug

// capture is an answer of the API that goes into the archive.
type capture struct {
	file   string // without .json
	path   string // of the route; with items, the path of a list
	query  string
	fields shownFields
	// item is the path of one element of the list, without its ID, and id the field with the ID. The file is
	// then a list of the answers for all elements.
	item string
	id   string
}

// The allowed fields. None is free text of users, plugins or drivers, and none has a map whose keys or values
// users choose: such a value may be a secret.
const (
	indexes   = ` CreateIndex ModifyIndex `
	jobFields = `ID ParentID Name Namespace Type Priority Datacenters NodePool Status StatusDescription Stop
		Stable Version AllAtOnce SubmitTime JobModifyIndex Dispatched` + indexes + `
		Periodic.(Enabled,Spec,ProhibitOverlap,TimeZone)
		Update.(MaxParallel,HealthCheck,MinHealthyTime,HealthyDeadline,ProgressDeadline)
		Update.(AutoRevert,AutoPromote,Canary)
		TaskGroups.(Name,Count,ShutdownDelay,MaxRunDuration)
		TaskGroups.RestartPolicy.(Attempts,Interval,Delay,Mode)
		TaskGroups.ReschedulePolicy.(Attempts,Interval,Delay,MaxDelay,Unlimited)
		TaskGroups.Update.(MaxParallel,HealthCheck,MinHealthyTime,HealthyDeadline,AutoRevert,AutoPromote,Canary)
		TaskGroups.EphemeralDisk.(SizeMB,Sticky,Migrate)
		TaskGroups.Networks.Mode
		TaskGroups.Networks.ReservedPorts.(Label,Value,To)
		TaskGroups.Networks.DynamicPorts.(Label,Value,To)
		TaskGroups.Volumes.*.(Name,Type,Source,ReadOnly,AccessMode,AttachmentMode,PerAlloc,Sticky)
		TaskGroups.Tasks.(Name,Driver,User,Leader,KillTimeout,KillSignal,Kind,ShutdownDelay)
		TaskGroups.Tasks.Resources.(CPU,Cores,MemoryMB,MemoryMaxMB)
		TaskGroups.Tasks.Lifecycle.(Hook,Sidecar)
		TaskGroups.Tasks.Templates.(DestPath,ChangeMode,ChangeSignal,Perms)
		TaskGroups.Tasks.VolumeMounts.(Volume,Destination,ReadOnly,PropagationMode)
		TaskGroups.Tasks.CSIPluginConfig.(ID,Type,MountDir,StagePublishBaseDir,HealthTimeout)`
	allocFields = `ID EvalID Name Namespace NodeID NodeName JobID JobType JobVersion TaskGroup DesiredStatus
		DesiredDescription ClientStatus FollowupEvalID NextAllocation PreemptedByAllocation CreateTime ModifyTime` +
		indexes + `
		DeploymentStatus.(Healthy,Timestamp,Canary)
		TaskStates.*.(State,Failed,Restarts,LastRestart,StartedAt,FinishedAt)
		TaskStates.*.Events.(Type,Time,ExitCode,Signal)`
	evalFields = `ID Namespace Priority Type TriggeredBy JobID NodeID DeploymentID Status StatusDescription
		WaitUntil NextEval PreviousEval BlockedEval QuotaLimitReached QueuedAllocations.* BlockedOn Placed
		SnapshotIndex CreateTime ModifyTime JobModifyIndex` + indexes + `
		FailedTGAllocs.*.(NodesEvaluated,NodesFiltered,NodesInPool,NodesExhausted,CoalescedFailures)
		FailedTGAllocs.*.DimensionExhausted.*`
	deploymentFields = `ID Namespace JobID JobVersion Status StatusDescription CreateTime
		ModifyTime` + indexes + `
		TaskGroups.*.(AutoRevert,AutoPromote,Promoted,PlacedCanaries,DesiredCanaries,DesiredTotal,PlacedAllocs)
		TaskGroups.*.(HealthyAllocs,UnhealthyAllocs,ProgressDeadline,RequireProgressBy)`
	nodeFields = `ID Name Address HTTPAddr Datacenter NodeClass NodePool ComputedClass Version Status
		StatusDescription StatusUpdatedAt SchedulingEligibility Drain Returning Unaccounted
		Epoch BootID` + indexes + `
		Drivers.*.(Detected,Healthy,UpdateTime)
		NodeResources.Cpu.(CpuShares,TotalCpuCores)
		NodeResources.Memory.MemoryMB
		NodeResources.Disk.DiskMB
		CSIControllerPlugins.*.(PluginID,Healthy,UpdateTime,Provider,ProviderVersion,AllocID)
		CSINodePlugins.*.(PluginID,Healthy,UpdateTime,Provider,ProviderVersion,AllocID)
		CSINodePlugins.*.NodeInfo.(ID,MaxVolumes,RequiresNodeStageVolume,SupportsStats,SupportsExpand)
		HostVolumes.*.(Name,ReadOnly)
		Events.(Subsystem,Timestamp)`
	volumeFields = `ID Name ExternalID Namespace PluginID Class JobID AllocID State Capacity RequestedCapacityMin
		RequestedCapacityMax AccessMode AttachmentMode Schedulable Provider ProviderVersion ControllerRequired
		ControllersHealthy ControllersExpected NodesHealthy NodesExpected ExpandPending CloneID SnapshotID Snapshot
		OnNodeLoss CreateTime ModifyTime DeleteAt Drift Waiting CurrentReaders CurrentWriters` + indexes + `
		RequestedCapabilities.(AccessMode,AttachmentMode)
		Topologies.Segments.*
		LastError.(Kind,Code,Time,Method)
		Claims.(AllocID,NodeID,Mode,State,Granted,CreateIndex,ModifyIndex)
		Attachments.(NodeID,State,CreateIndex,ModifyIndex)`
	pluginFields = `ID Provider Version ControllerRequired ControllersHealthy ControllersExpected NodesHealthy
		NodesExpected` + indexes + `
		Controllers.*.(PluginID,AllocID,Healthy,UpdateTime,Provider,ProviderVersion)
		Controllers.*.ControllerInfo.*
		Nodes.*.(PluginID,AllocID,Healthy,UpdateTime,Provider,ProviderVersion)
		Nodes.*.NodeInfo.(ID,MaxVolumes,RequiresNodeStageVolume,SupportsStats,SupportsExpand)`
	claimFields = `ID Namespace VolumeID AllocID NodeID NodeName JobID TaskGroup PluginID State Mode AccessMode
		AttachmentMode CreateIndex ModifyIndex`
	selfFields = `config.(Region,Datacenter,NodeName,DataDir,BindAddr,LogLevel,DevMode) config.Version.Version
		config.Server.(Enabled,BootstrapExpect) config.Client.(Enabled,NodePool,NodeClass)
		config.Ports.(HTTP,RPC,Serf) stats.*.*`
	memberFields = `ServerName ServerRegion ServerDC Members.(Name,Addr,Port,Status)
		Members.Tags.(region,dc,id,rpc_addr,http_addr,version,level,expect,zone,non_voting,bootstrap)`
	raftFields   = `Index Servers.(ID,Node,Address,Leader,Voter,RaftProtocol)`
	healthFields = `Healthy FailureTolerance Leader Voters Servers.(ID,Name,Address,SerfStatus,Version,Leader)
		Servers.(LastContact,LastTerm,LastIndex,Healthy,Voter,StableSince)`
	autopilotFields = `CleanupDeadServers LastContactThreshold MaxTrailingLogs MinQuorum ServerStabilizationTime
		EnableRedundancyZones DisableUpgradeMigration EnableCustomUpgrades` + indexes
	schedulerFields = `SchedulerConfig.(SchedulerAlgorithm,MemoryOversubscriptionEnabled,RejectJobRegistration)
		SchedulerConfig.(PauseEvalBroker,CreateIndex,ModifyIndex) SchedulerConfig.PreemptionConfig.*`
	metricFields = `Timestamp Gauges.(Name,Value) Gauges.Labels.*
		Counters.(Name,Count,Rate,Sum,Min,Max,Mean,Stddev)
		Counters.Labels.* Samples.(Name,Count,Rate,Sum,Min,Max,Mean,Stddev) Samples.Labels.*`
	hostFields = `AgentID HostData.OS HostData.Network.(name,flags,mtu,addresses)
		HostData.Disk.*.(DiskMB,UsedMB)`
)

// nodeAllowed adds the attributes of the machine, whose names have dots.
func nodeAllowed() shownFields {
	all := parseFields(nodeFields)
	all["Attributes"] = shownFields{
		"kernel.name": {}, "kernel.version": {}, "os.name": {}, "os.version": {},
		"cpu.arch": {}, "cpu.numcores": {}, "memory.totalbytes": {},
	}
	return all
}

// clusterCaptures are made at each interval.
var clusterCaptures = []capture{
	{file: "leader", path: "/v1/status/leader"},
	{file: "peers", path: "/v1/status/peers"},
	{file: "members", path: "/v1/agent/members", fields: parseFields(memberFields)},
	{file: "agent-self", path: "/v1/agent/self", fields: parseFields(selfFields)},
	{file: "metrics", path: "/v1/metrics", fields: parseFields(metricFields)},
	{file: "raft", path: "/v1/operator/raft/configuration", query: "stale", fields: parseFields(raftFields)},
	{file: "autopilot-health", path: "/v1/operator/autopilot/health", fields: parseFields(healthFields)},
	{
		file: "autopilot-configuration", path: "/v1/operator/autopilot/configuration",
		fields: parseFields(autopilotFields),
	},
	{file: "scheduler", path: "/v1/operator/scheduler/configuration", fields: parseFields(schedulerFields)},
	{file: "namespaces", path: "/v1/namespaces", fields: parseFields("Name Quota" + indexes)},
	{file: "node-pools", path: "/v1/node/pools", fields: parseFields("Name" + indexes)},
	{
		file: "nodes", path: "/v1/nodes", item: "/v1/node/", id: "ID",
		fields: nodeAllowed(),
	},
	{
		file: "jobs", path: "/v1/jobs", query: "namespace=*", item: "/v1/job/", id: "ID",
		fields: parseFields(jobFields),
	},
	{file: "allocations", path: "/v1/allocations", query: "namespace=*", fields: parseFields(allocFields)},
	{file: "evaluations", path: "/v1/evaluations", query: "namespace=*", fields: parseFields(evalFields)},
	{file: "deployments", path: "/v1/deployments", query: "namespace=*", fields: parseFields(deploymentFields)},
	{
		file: "volumes", path: "/v1/volumes", query: "type=csi&namespace=*", item: "/v1/volume/csi/", id: "ID",
		fields: parseFields(volumeFields),
	},
	{
		file: "plugins", path: "/v1/plugins", query: "type=csi", item: "/v1/plugin/csi/", id: "ID",
		fields: parseFields(pluginFields),
	},
	{file: "claims", path: "/v1/volumes/claims", query: "namespace=*", fields: parseFields(claimFields)},
}

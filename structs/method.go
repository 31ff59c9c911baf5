package structs

// Method names a remote procedure together with the types of its request and answer, so that caller and
// endpoint cannot disagree. The name is "Noun.Verb".
type Method[Req, Resp any] struct {
	Name string
	// Write says that the method must be served by the leader and never by a stale follower.
	Write bool
}

func read[Req, Resp any](name string) Method[Req, Resp] { return Method[Req, Resp]{Name: name} }
func write[Req, Resp any](name string) Method[Req, Resp] {
	return Method[Req, Resp]{Name: name, Write: true}
}

// The methods that servers serve.
var (
	StatusLeader     = read[QueryRequest, StatusLeaderResponse]("Status.Leader")
	StatusPeers      = read[QueryRequest, StatusPeersResponse]("Status.Peers")
	StatusPing       = read[QueryRequest, Empty]("Status.Ping") // answered by any server itself
	OperatorRaft     = read[QueryRequest, RaftConfigurationResponse]("Operator.RaftConfiguration")
	OperatorRemove   = write[RaftRemovePeerRequest, Empty]("Operator.RaftRemovePeer")
	SystemGC         = write[WriteRequest, Empty]("System.GarbageCollect")
	NodeRegister     = write[NodeRegisterRequest, NodeRegisterResponse]("Node.Register")
	NodeDeregister   = write[NodeDeregisterRequest, Empty]("Node.Deregister")
	NodeHeartbeat    = write[NodeHeartbeatRequest, NodeHeartbeatResponse]("Node.UpdateStatus")
	NodeUpdate       = write[NodeUpdateRequest, Empty]("Node.Update")
	NodeUpdateCSI    = write[NodeUpdateCSIRequest, Empty]("Node.UpdateCSI")
	NodeEligibility  = write[NodeEligibilityRequest, Empty]("Node.UpdateEligibility")
	NodeUpdateAllocs = write[AllocsClientUpdateRequest, Empty]("Node.UpdateAlloc")
	NodeGet          = read[NodeGetRequest, NodeGetResponse]("Node.Get")
	NodeList         = read[QueryRequest, NodeListResponse]("Node.List")
	NodeAllocs       = read[NodeGetRequest, AllocsResponse]("Node.GetAllocs") // full allocs, for operators
	NodeClientAllocs = read[NodeGetRequest, NodeClientAllocsResponse]("Node.GetClientAllocs")
	NodeEvaluate     = write[NodeGetWriteRequest, NodeEvaluateResponse]("Node.Evaluate")

	JobRegister    = write[JobRegisterRequest, JobRegisterResponse]("Job.Register")
	JobDeregister  = write[JobDeregisterRequest, JobDeregisterResponse]("Job.Deregister")
	JobEvaluate    = write[JobEvaluateRequest, JobRegisterResponse]("Job.Evaluate")
	JobGet         = read[JobGetRequest, JobGetResponse]("Job.GetJob")
	JobList        = read[QueryRequest, JobListResponse]("Job.List")
	JobVersions    = read[JobGetRequest, JobVersionsResponse]("Job.GetJobVersions")
	JobSummaryGet  = read[JobGetRequest, JobSummaryResponse]("Job.Summary")
	JobAllocations = read[JobGetRequest, AllocListResponse]("Job.Allocations")
	JobEvaluations = read[JobGetRequest, EvalListResponse]("Job.Evaluations")

	AllocGet  = read[AllocGetRequest, AllocGetResponse]("Alloc.GetAlloc")
	AllocsGet = read[AllocsGetRequest, AllocsResponse]("Alloc.GetAllocs") // by id, for a node's pull
	AllocList = read[QueryRequest, AllocListResponse]("Alloc.List")
	AllocStop = write[AllocStopRequest, AllocStopResponse]("Alloc.Stop")

	EvalGet    = read[EvalGetRequest, EvalGetResponse]("Eval.GetEval")
	EvalList   = read[QueryRequest, EvalListResponse]("Eval.List")
	EvalAllocs = read[EvalGetRequest, AllocListResponse]("Eval.Allocations")

	CSIPluginGet    = read[CSIPluginGetRequest, CSIPluginGetResponse]("CSIPlugin.Get")
	CSIPluginList   = read[QueryRequest, CSIPluginListResponse]("CSIPlugin.List")
	CSIPluginDelete = write[CSIPluginDeleteRequest, Empty]("CSIPlugin.Delete")

	CSIVolumeGet          = read[CSIVolumeGetRequest, CSIVolumeGetResponse]("CSIVolume.Get")
	CSIVolumeList         = read[CSIVolumeListRequest, CSIVolumeListResponse]("CSIVolume.List")
	CSIVolumeRegister     = write[CSIVolumeRegisterRequest, CSIVolumeRegisterResponse]("CSIVolume.Register")
	CSIVolumeCreate       = write[CSIVolumeRegisterRequest, CSIVolumeRegisterResponse]("CSIVolume.Create")
	CSIVolumeDeregister   = write[CSIVolumeDeregisterRequest, Empty]("CSIVolume.Deregister")
	CSIVolumeDelete       = write[CSIVolumeDeleteRequest, Empty]("CSIVolume.Delete")
	CSIVolumeClaim        = write[CSIVolumeClaimRequest, CSIVolumeClaimResponse]("CSIVolume.Claim")
	CSIVolumeUnpublish    = write[CSIVolumeUnpublishRequest, Empty]("CSIVolume.Unpublish")
	CSIVolumeDetach       = write[CSIVolumeDetachRequest, CSIVolumeDetachResponse]("CSIVolume.Detach")
	CSIVolumeNodeExpanded = write[CSINodeExpandOutcome, Empty]("CSIVolume.NodeExpanded")
	CSIVolumeRetry        = write[CSIVolumeRetryRequest, Empty]("CSIVolume.Retry")
	CSIClaimGet           = read[CSIClaimGetRequest, CSIClaimGetResponse]("CSIVolume.GetClaim")
	CSIClaimList          = read[CSIClaimListRequest, CSIClaimListResponse]("CSIVolume.ListClaims")
	CSIVolumeExternal     = read[CSIVolumeExternalRequest, CSIVolumeExternalResponse]("CSIVolume.ListExternal")
)

// The methods that a node serves to servers, over the connection the node opened itself.
var (
	ClientCSIControllerCreate   = write[ClientCSICreateRequest, ClientCSICreateResponse]("ClientCSI.ControllerCreateVolume")
	ClientCSIControllerDelete   = write[ClientCSIDeleteRequest, Empty]("ClientCSI.ControllerDeleteVolume")
	ClientCSIControllerAttach   = write[ClientCSIAttachRequest, ClientCSIAttachResponse]("ClientCSI.ControllerAttachVolume")
	ClientCSIControllerDetach   = write[ClientCSIDetachRequest, Empty]("ClientCSI.ControllerDetachVolume")
	ClientCSIControllerValidate = write[ClientCSIValidateRequest, Empty]("ClientCSI.ControllerValidateVolume")
	ClientCSIControllerExpand   = write[ClientCSIExpandRequest, ClientCSIExpandResponse]("ClientCSI.ControllerExpandVolume")
	ClientCSIControllerList     = read[ClientCSIListRequest, ClientCSIListResponse]("ClientCSI.ControllerListVolumes")
	ClientCSINodeExpand         = write[ClientCSINodeExpandRequest, ClientCSINodeExpandResponse]("ClientCSI.NodeExpandVolume")
	ClientCSINodeVolume         = read[ClientCSINodeVolumeRequest, ClientCSINodeVolumeResponse]("ClientCSI.NodeVolume")
	ClientCSINodeDetach         = write[ClientCSINodeDetachRequest, Empty]("ClientCSI.NodeDetachVolume")
)

// QueryRequest is a read that needs nothing but its options.
type QueryRequest struct{ QueryOptions }

// WriteRequest is a write that needs nothing but its options.
type WriteRequest struct{ WriteOptions }

package refdocs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"berth/api"
	"berth/structs"
	"berth/ui"
)

// limit is one row of the reference of limits.
type limit struct {
	Constant string // its name in structs
	Max      int64
	Unit     string // "" of a number, or bytes, MHz, MiB, duration
	Of       string // the thing that it bounds
	Beyond   string // the effect on a request beyond it
}

// The effects on requests and texts beyond a limit.
const (
	beyondInvalid  = "*invalid*"
	beyondCut      = "cut"
	rejectedAnswer = "the call fails"
	beyondEnds     = "the one that was not used for the longest time ends"
	beyondFails    = "the task does not start; a running one keeps its file"
)

// agentLimits are those of the streams of one caller, and of the page of an agent.
var agentLimits = []limit{
	{
		"MaxOwn", api.MaxOwnStreams, "",
		"files, logs and streams of events that one agent sends to one caller at a time: a token, or all without " +
			"one at an address, also of a proxy; the operator socket has as many besides",
		"*unavailable*, status 429",
	},
	{"Most", int64(ui.DefaultSessionLimits.Most), "", "sessions of [the page](../page.md#rights) of one agent", beyondEnds},
	{"OfToken", int64(ui.DefaultSessionLimits.OfToken), "", "such sessions of one token", beyondEnds},
	{
		"Idle", int64(ui.DefaultSessionLimits.Idle), "duration",
		"the time of such a session without a request", "the session ends",
	},
	{
		"Lifetime", int64(ui.DefaultSessionLimits.Lifetime), "duration",
		"the time of such a session after its login", "the session ends",
	},
}

// allLimits describes each constant of structs/limits.go.
var allLimits = []limit{
	{"MaxGroupCount", structs.MaxGroupCount, "", "`count` of one task group", beyondInvalid},
	{"MaxJobCount", structs.MaxJobCount, "", "instances of one job, the sum of its counts", beyondInvalid},
	{"MaxGroups", structs.MaxGroups, "", "task groups of one job", beyondInvalid},
	{"MaxTasks", structs.MaxTasks, "", "tasks of one group", beyondInvalid},
	{
		"MaxConfigNesting", structs.MaxConfigNesting, "", "levels of maps and lists in the `config` of a task",
		beyondInvalid,
	},
	{"MaxVolumes", structs.MaxVolumes, "", "volumes of one group", beyondInvalid},
	{
		"MaxConstraints", structs.MaxConstraints, "",
		"constraints of a job, a group or a task; its affinities; its spreads", beyondInvalid,
	},
	{
		"MaxListed", structs.MaxListed, "",
		"entries of another list: datacenters, volume mounts, topologies, capabilities",
		beyondInvalid,
	},
	{
		"MaxDescription", structs.MaxDescription, "bytes", "the description of a namespace or a node pool",
		beyondInvalid,
	},
	{"MaxPairs", structs.MaxPairs, "", "entries of one map: `meta`, `env`", beyondInvalid},
	{"MaxPairsBytes", structs.MaxPairsBytes, "bytes", "keys and values of one map", beyondInvalid},
	{"MaxJobBytes", structs.MaxJobBytes, "bytes", "one job, encoded", beyondInvalid},
	{"MaxName", structs.MaxName, "bytes", "an ID or a name", beyondInvalid},
	{
		"MaxText", structs.MaxText, "bytes",
		"a free text: a constraint's value, a path; one in a node's report is cut",
		beyondInvalid,
	},
	{"MaxCPU", structs.MaxCPU, "MHz", "CPU of one task, one allocation, one node", beyondInvalid},
	{
		"MaxMemoryMB", structs.MaxMemoryMB, "MiB",
		"memory of one task, one allocation, one node", beyondInvalid,
	},
	{"MaxDiskMB", structs.MaxDiskMB, "MiB", "disk of one allocation, one node", beyondInvalid},
	{
		"MaxVolumeBytes", structs.MaxVolumeBytes, "bytes",
		"`capacity_min`, `capacity_max` and `Capacity` of a volume; " +
			"beyond it the answer of a plugin fails its call",
		beyondInvalid,
	},
	{"MaxRestarts", structs.MaxRestarts, "", "`attempts` of a restart policy", beyondInvalid},
	{"MaxCrons", structs.MaxCrons, "", "schedules of one periodic job", beyondInvalid},
	{"MaxPayload", structs.MaxPayload, "bytes", "the payload of a dispatch", beyondInvalid},
	{"MaxReschedules", structs.MaxReschedules, "", "`attempts` of a reschedule policy", beyondInvalid},
	{
		"MaxInterval", int64(structs.MaxInterval), "duration",
		"`interval`, `delay` and `max_delay` of either policy; " +
			"`max_run_duration`, `lost_after`, `stop_on_client_after`",
		beyondInvalid,
	},
	{
		"MaxTaskWait", int64(structs.MaxTaskWait), "duration",
		"`kill_timeout`, `shutdown_delay`, `health_timeout`, `hang_timeout`", beyondInvalid,
	},
	{"MaxWait", int64(structs.MaxWait), "duration", "`wait` of a blocking query", "answered then"},
	{"MaxLogFiles", structs.MaxLogFiles, "", "log files of one task", beyondInvalid},
	{"MaxLogFileSizeMB", structs.MaxLogFileSizeMB, "MiB", "one log file", beyondInvalid},
	{
		"MaxNodeAttributes", structs.MaxNodeAttributes, "",
		"attributes, `meta` entries and drivers that one node reports; its reservable cores likewise",
		beyondInvalid,
	},
	{"MaxNodeBytes", structs.MaxNodeBytes, "bytes", "keys and values of these", beyondInvalid},
	{"MaxNodePlugins", structs.MaxNodePlugins, "", "plugin instances that one node reports", beyondInvalid},
	{
		"MaxNodeVolumes", structs.MaxNodeVolumes, "",
		"volumes that one node reports after a restore, held or left",
		beyondInvalid,
	},
	{
		"MaxTaskEvents", structs.MaxTaskEvents, "",
		"events of one task that a node reports", "the oldest are dropped",
	},
	{"MaxTemplates", structs.MaxTemplates, "", "`template` blocks of one task", beyondInvalid},
	{
		"MaxTemplateText", structs.MaxTemplateText, "bytes", "the text of one template",
		beyondInvalid + "; of a file, the task fails",
	},
	{
		"MaxTemplateBytes", structs.MaxTemplateBytes, "bytes",
		"a rendered file; the files that one template reads, in sum", beyondFails,
	},
	{"MaxTemplateReads", structs.MaxTemplateReads, "", "files, variables, services and keys that one template reads", beyondFails},
	{"MaxDelimiter", structs.MaxDelimiter, "bytes", "a delimiter of a template", beyondInvalid},
	{"MaxEvalIDs", structs.MaxEvalIDs, "", "evaluations that one request deletes by their IDs", beyondInvalid},
	{"MaxDeviceDemands", structs.MaxDeviceDemands, "", "`device` blocks of one task", beyondInvalid},
	{"MaxDevices", structs.MaxDevices, "", "devices of one block, of one node", beyondInvalid},
	{"MaxEndingCalls", structs.MaxEndingCalls, "", "calls that an instance of a plugin reports as not made", beyondInvalid},
	{"MaxHostVolumes", structs.MaxHostVolumes, "", "host volumes of one node", beyondInvalid},
	{"MaxDeviceGroups", structs.MaxDeviceGroups, "", "device groups of one node", beyondInvalid},
	{"MaxDeviceAttributes", structs.MaxDeviceAttributes, "", "attributes of one device group", beyondInvalid},
	{
		"MaxDeviceBytes", structs.MaxDeviceBytes, "bytes",
		"names, IDs, attributes and descriptions of a node's devices; its agent leaves out the groups beyond it",
		beyondInvalid,
	},
	{"MaxArtifacts", structs.MaxArtifacts, "", "artifacts of one task", beyondInvalid},
	{"MaxArtifactPairs", structs.MaxArtifactPairs, "", "options of one artifact, and headers", beyondInvalid},
	{"MaxArtifactBytes", structs.MaxArtifactBytes, "bytes", "keys and values of these", beyondInvalid},
	{"MaxGroupPorts", structs.MaxGroupPorts, "", "ports of one group", beyondInvalid},
	{
		"MaxResolvers", structs.MaxResolvers, "", "name servers of one group; domains, and options, likewise",
		beyondInvalid,
	},
	{
		"MaxNodeAddresses", structs.MaxNodeAddresses, "",
		"interfaces of one node, and their addresses in host networks; its agent leaves out those beyond it",
		beyondInvalid,
	},
	{"MaxPortsText", structs.MaxPortsText, "bytes", "a list of reserved ports", beyondInvalid},
	{"MaxServices", structs.MaxServices, "", "services of one group, with those of its tasks", beyondInvalid},
	{"MaxServiceTags", structs.MaxServiceTags, "", "tags of one service, and its canary tags", beyondInvalid},
	{"MaxServiceChecks", structs.MaxServiceChecks, "", "checks of one service", beyondInvalid},
	{
		"MaxServiceBytes", structs.MaxServiceBytes, "bytes",
		"names, addresses, tags and meta of the services of one group; an allocation offers twice as much at most",
		beyondInvalid,
	},
	{
		"MaxMeshItems", structs.MaxMeshItems, "",
		"upstreams of one proxy; exposed paths, and addresses, listeners, services and hosts of a gateway, likewise",
		beyondInvalid,
	},
	{
		"MaxIdentities", structs.MaxIdentities, "",
		"`identity` blocks of one task, besides the default one", beyondInvalid,
	},
	{"MaxAudiences", structs.MaxAudiences, "", "audiences of one identity", beyondInvalid},
	{"MinIdentityTTL", int64(structs.MinIdentityTTL), "duration", "at least: `ttl` of an identity", beyondInvalid},
	{"MaxIdentityTTL", int64(structs.MaxIdentityTTL), "duration", "`ttl` of an identity", beyondInvalid},
	{"MaxIdentity", structs.MaxIdentity, "bytes", "a token of an identity, which the servers sign for a node", beyondFails},
	{"MaxFilter", structs.MaxFilter, "bytes", "a filter expression", beyondInvalid},
	{"MaxFilterSteps", structs.MaxFilterSteps, "", "steps of the parser of a filter", beyondInvalid},
	{
		"MaxFilterPatterns", structs.MaxFilterPatterns, "",
		"size of all regular expressions of a filter, repetitions written out", beyondInvalid,
	},
	{
		"MaxSource", structs.MaxSource, "bytes",
		"a file in HCL or JSON: a job, a volume, a configuration", beyondInvalid,
	},
	{
		"MaxJobSource", structs.MaxJobSource, "bytes",
		"`job_max_source_size`: the source of a job, with its variables", "the server does not start",
	},
	{"MaxNesting", structs.MaxNesting, "", "levels of brackets in such a file", beyondInvalid},
	{
		"MaxRepeats", structs.MaxRepeats, "",
		"of each operator in a row without brackets in such a file", beyondInvalid,
	},
	{"MaxParts", structs.MaxParts, "", "brackets, arguments and elements in such a file", beyondInvalid},
	{"MaxVariables", structs.MaxVariables, "", "variables of a job file, and its locals", beyondInvalid},
	{
		"MaxEvaluation", structs.MaxEvaluation, "bytes",
		"all values that the expressions of a job file yield, also those within others", beyondInvalid,
	},
	{"MaxPlaced", structs.MaxPlaced, "", "allocations that one plan places", "the next plan continues"},
	{
		"MaxReason", structs.MaxReason, "bytes",
		"a reason for which a node does not get an allocation", beyondCut,
	},
	{
		"MaxReasons", structs.MaxReasons, "",
		"such reasons of one task group, those of most nodes first", "counted",
	},
	{
		"MaxVolumePuts", structs.MaxVolumePuts, "",
		"volumes that one request registers or creates", beyondInvalid,
	},
	{"MaxClaims", structs.MaxClaims, "", "claims in one claim or release", beyondInvalid},
	{
		"MaxExternalAsk", structs.MaxExternalAsk, "",
		"calls of plugins for a page of `/v1/volumes/external`",
		"the next page continues",
	},
	{
		"MaxExternalSum", structs.MaxExternalSum, "bytes",
		"the volumes on a page of `/v1/volumes/external`",
		"the next page continues",
	},
	{
		"MaxExternal", structs.MaxExternal, "",
		"volumes on a page of `/v1/volumes/external` whose size is not given",
		"the next page continues",
	},
	{"MaxWaitingJobs", structs.MaxWaitingJobs, "", "jobs that a volume's `WaitingJobs` names", beyondCut},
	{
		"MaxCSIString", structs.MaxCSIString, "bytes",
		"a string that a CSI plugin gets or answers", beyondInvalid,
	},
	{
		"MaxCSIMap", structs.MaxCSIMap, "bytes",
		"a map, the mount flags or the topologies that a CSI plugin gets or answers", beyondInvalid,
	},
	{"MaxCSIName", structs.MaxCSIName, "bytes", "the name of a CSI plugin", rejectedAnswer},
	{
		"MaxPluginBaseDir", structs.MaxPluginBaseDir, "bytes",
		"`stage_publish_base_dir` of a plugin", beyondInvalid,
	},
	{
		"MaxProvider", structs.MaxProvider, "bytes",
		"`former_provider` of a job, a driver's name", beyondInvalid,
	},
	{"MaxCSIID", structs.MaxCSIID, "bytes", "a CSI plugin's ID of a volume", rejectedAnswer},
	{"MaxCSINodeID", structs.MaxCSINodeID, "bytes", "a CSI plugin's ID of a node", rejectedAnswer},
	{"MaxCSIContext", structs.MaxCSIContext, "bytes", "a context that a CSI plugin answers", rejectedAnswer},
	{
		"MaxCSITopologies", structs.MaxCSITopologies, "",
		"topologies of one volume that a CSI plugin answers, or that a registration gives", rejectedAnswer,
	},
	{"MaxCSIToken", structs.MaxCSIToken, "bytes", "a page token of a CSI plugin", rejectedAnswer},
	{"MaxCSIAnswer", structs.MaxCSIAnswer, "bytes", "an answer of a CSI plugin", rejectedAnswer},
	{
		"MaxCSIListed", structs.MaxCSIListed, "",
		"volumes in one answer of a CSI plugin that lists them", rejectedAnswer,
	},
	{
		"MaxCSIList", structs.MaxCSIList, "bytes",
		"an answer of a CSI plugin that lists volumes", rejectedAnswer,
	},
	{
		"MaxCSIErrorText", structs.MaxCSIErrorText, "bytes",
		"the message of a CSI plugin in an error", beyondCut,
	},
	{
		"MaxCSIHealth", structs.MaxCSIHealth, "",
		"adverse conditions of a volume, or of the storage at a node, that a plugin reports", beyondCut,
	},
	{"MaxFaults", structs.MaxFaults, "", "faults that one answer names", "counted"},
	{"MaxQuoted", structs.MaxQuoted, "bytes", "a text from outside that a fault quotes", beyondCut},
	{"MaxErrorText", structs.MaxErrorText, "bytes", "the text of an error", beyondCut},
	{"MaxExecArgs", structs.MaxExecArgs, "", "words of a command that runs in a task", beyondInvalid},
	{"MaxExecBytes", structs.MaxExecBytes, "bytes", "all words of such a command", beyondInvalid},
	{"MaxExecs", structs.MaxExecs, "", "such commands that run on one node at a time", "*unavailable*"},
	{"MaxActions", structs.MaxActions, "", "actions of one task", beyondInvalid},
	{"MaxFilesListed", structs.MaxFilesListed, "", "files of a directory of an allocation that is listed", "*precondition*"},
	{"MaxFileStreams", structs.MaxFileStreams, "", "files, logs and streams of events that one agent sends at a time", "*unavailable*"},
	{"MaxTailLines", structs.MaxTailLines, "", "last lines of a file or log (`-n`, `lines`)", beyondInvalid},
	{"MaxTailBytes", structs.MaxTailBytes, "bytes", "the text that is searched for these lines", "it begins there"},
	{"MaxJoinAddresses", structs.MaxJoinAddresses, "", "gossip addresses in one request to join servers", beyondInvalid},
	{"MaxJoinAddress", structs.MaxJoinAddress, "bytes", "one of these addresses", beyondInvalid},
	{"MaxSearched", structs.MaxSearched, "", "matches of one kind in the answer of a search", "`Truncations`"},
	{"MaxHTTPHead", structs.MaxHTTPHead, "bytes", "the header of one HTTP request", "status 431"},
	{"MaxHTTPBody", structs.MaxHTTPBody, "bytes", "the body of one HTTP request", "status 413"},
	{
		"MaxHTTPJob", structs.MaxHTTPJob, "bytes",
		"the body of one HTTP request that holds a job or volumes", "status 413",
	},
	{
		"MaxJSONParts", structs.MaxJSONParts, "",
		"objects, lists and null elements of lists in the body of one HTTP request", "status 413",
	},
	{
		"MaxHTTPBodies", structs.MaxHTTPBodies, "bytes", "the bodies of all HTTP requests in flight",
		"*unavailable*, status 503",
	},
	{
		"JSONPartBytes", structs.JSONPartBytes, "bytes",
		"an object, a list or a null element of a list in a body counts as so many bytes among these", "counted",
	},
	{
		"MaxRPCRequest", structs.MaxRPCRequest, "bytes",
		"one RPC request, and the answer of a node", beyondInvalid,
	},
	{"MaxRPCAnswer", structs.MaxRPCAnswer, "bytes", "the RPC answer of a server", beyondInvalid},
	{"MaxAllocIDs", structs.MaxAllocIDs, "", "allocations that one RPC request names by ID", beyondInvalid},
	{
		"MaxRPCParts", structs.MaxRPCParts, "",
		"lists, maps and entries in one RPC request; eight entries of a map count as one", beyondInvalid,
	},
	{
		"MaxRPCInFlight", structs.MaxRPCInFlight, "bytes",
		"all RPC requests in flight on one agent", "*unavailable*",
	},
	{
		"RPCPartBytes", structs.RPCPartBytes, "bytes",
		"a list, a map or an entry in an RPC request counts as so many bytes among these", "counted",
	},
	{
		"SmallWaitingRPC", structs.SmallWaitingRPC, "bytes",
		"the same of an RPC request that waits for a change or for a plugin", "counted",
	},
	{
		"SmallRPC", structs.SmallRPC, "bytes",
		"an RPC request up to this size does not count among these and is not rejected for them", "counted",
	},
	{"MaxVariablePath", structs.MaxVariablePath, "bytes", "the path of a variable", beyondInvalid},
	{"MaxVariableItems", structs.MaxVariableItems, "", "items of one variable", beyondInvalid},
	{"MaxVariableBytes", structs.MaxVariableBytes, "bytes", "names and values of the items of one variable", beyondInvalid},
	{"MaxStoredVars", structs.MaxStoredVars, "", "variables of one namespace", "*precondition*"},
	{"MaxStoredBytes", structs.MaxStoredBytes, "bytes", "the encrypted items of all variables of one namespace", "*precondition*"},
	{"MinLockTime", int64(structs.MinLockTime), "duration", "at least: `TTL` and `LockDelay` of the lock of a variable", beyondInvalid},
	{"MaxLockTime", int64(structs.MaxLockTime), "duration", "`TTL` and `LockDelay` of the lock of a variable", beyondInvalid},
	{
		"MaxEntry", structs.MaxEntry, "bytes",
		"one entry of the log: a write, or a plan of the scheduler", beyondInvalid,
	},
	{
		"MaxArchive", structs.MaxArchive, "bytes",
		"the state in an archive of `operator snapshot`", beyondInvalid,
	},
	{"MaxArchiveIndex", structs.MaxArchiveIndex, "", "the index and the term of an archive", beyondInvalid},
	{"MaxPeersFile", structs.MaxPeersFile, "bytes", "`raft/peers.json`", "the server does not start"},
}

func TestLimits_ListsEveryConstant(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../structs/limits.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, l := range allLimits {
		listed[l.Constant] = true
	}
	constants := 0
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, spec := range decl.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if !ast.IsExported(name.Name) {
					continue
				}
				constants++
				if !listed[name.Name] {
					t.Errorf("the list of limits lacks %s", name.Name)
				}
			}
		}
	}
	if constants != len(allLimits) {
		t.Errorf("%d constants, %d limits", constants, len(allLimits))
	}
}

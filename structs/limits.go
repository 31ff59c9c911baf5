package structs

import "time"

// The bounds of one request, job file, report or answer. A bound applies to new input: rows that an older
// version has stored beyond it stay, and their readers cope with them. Limits lists all of them for the
// reference; a test compares the list with these constants.
const (
	// Of names and texts, in bytes.
	MaxName           = 255       // an ID or a name: it also names a directory
	MaxText           = 4 << 10   // a free text: a constraint's value, a path, a description
	MaxPairs          = 1000      // entries of one map: meta, env
	MaxPairsBytes     = 256 << 10 // keys and values of one map
	MaxListed         = 1000      // entries of one list: datacenters, mounts, topologies
	MaxConstraints    = 256       // constraints in one place
	MaxFaults         = 20        // faults that one answer names
	MaxQuoted         = 64        // bytes of a text from outside that a fault quotes
	MaxErrorText      = 32 << 10  // bytes of the text of any error
	MaxJobBytes       = 4 << 20   // one job, encoded
	MaxNodeAttributes = 4096      // attributes, meta entries and drivers of one node
	MaxNodeBytes      = 1 << 20   // keys and values of these
	MaxNodePlugins    = 1000      // plugin instances that one node reports
	MaxNodeVolumes    = 10_000    // volumes that one node reports after a restore
	MaxTaskEvents     = 10        // events of one task
	MaxFilter         = 64 << 10  // a filter expression
	MaxFilterSteps    = 2_000_000 // steps of the parser of a filter, which goes back often: a fifth of a second
	MaxFilterPatterns = 4000      // size of all regular expressions of a filter, repetitions written out
	MaxSource         = 1 << 20   // a file in HCL, or in JSON that stands for one
	MaxNesting        = 250       // brackets, and templates, within one another in such a file
	MaxRepeats        = 5000      // of each operator that may stand in a row without brackets in such a file
	MaxVariable       = 64 << 10  // bytes and elements of one variable or local of a job file
	MaxVariableUses   = 1000      // uses of variables and locals in one job file

	// Of jobs.
	MaxJobCount      = 50_000 // instances of one job: the sum of its counts
	MaxGroupCount    = 10_000 // instances of one task group
	MaxGroups        = 1000   // task groups of one job
	MaxTasks         = 100    // tasks of one group
	MaxVolumes       = 128    // volumes of one group
	MaxRestarts      = 10_000 // restart attempts
	MaxReschedules   = 1000   // reschedule attempts: an allocation remembers each
	MaxLogFiles      = 1000   // log files of one task
	MaxLogFileSizeMB = 64 << 10
	MaxPlaced        = 2048 // allocations that one plan places
	MaxReason        = 512  // bytes of a reason for which a node does not get an allocation
	MaxReasons       = 16   // such reasons of one task group, or of one allocation

	// Of resources: of one task, of one allocation and of one node alike.
	MaxCPU      = 100_000_000 // MHz
	MaxMemoryMB = 1 << 30     // 1 PiB
	MaxDiskMB   = 1 << 34     // 16 PiB

	// Of volumes.
	MaxVolumeBytes = 1 << 60  // 1 EiB: capacity_min, capacity_max, Capacity and a size that a plugin answers
	MaxClaims      = 4096     // claims in one request
	MaxVolumePuts  = 256      // volumes that one request registers or creates
	MaxExternal    = 10_000   // volumes on a page of a plugin's storage without a given size
	MaxExternalSum = 64 << 20 // bytes of the volumes on such a page
	MaxExternalAsk = 1000     // calls of plugins for such a page
	MaxWaitingJobs = 100      // jobs of CSIVolumeDetail.WaitingJobs

	// Bounds of texts to and from a CSI plugin, in bytes (CSI spec, "Size Limits"). IDs and contexts from a
	// plugin may be longer, because real ones are whole resource paths.
	MaxCSIString = 128     // a string
	MaxCSIMap    = 4 << 10 // a map, the mount flags, the topologies
	MaxCSIName   = 63      // the name that a plugin gives itself
	MaxCSINodeID = 256     // a plugin's ID of a node
	// MaxPluginBaseDir bounds stage_publish_base_dir, so that every plugin accepts the paths below it.
	MaxPluginBaseDir = 80
	MaxProvider      = 63       // a driver's name (CSI spec, GetPluginInfoResponse.name)
	MaxCSIID         = 1 << 10  // a plugin's ID of a volume
	MaxCSIContext    = 16 << 10 // a context of a volume
	MaxCSIPlaces     = 256      // topologies of one volume; a number
	MaxCSIToken      = 4 << 10  // a page token
	MaxCSIAnswer     = 1 << 20  // an answer
	MaxCSIListed     = 200_000  // volumes in one answer that lists them
	MaxCSIList       = 16 << 20 // an answer that lists volumes: some plugins ignore max_entries
	MaxCSIErrorText  = 2048     // a plugin's words within an error

	// Of durations.
	MaxInterval = 10 * 365 * 24 * time.Hour // of restart and reschedule policies
	MaxTaskWait = 24 * time.Hour            // kill_timeout, shutdown_delay, health_timeout, hang_timeout
	MaxWait     = 10 * time.Minute          // of a read that waits for news

	// Of HTTP.
	MaxHTTPHead   = 64 << 10  // bytes of the head of one request
	MaxHTTPBody   = 1 << 20   // bytes of one body
	MaxHTTPJob    = 16 << 20  // bytes of a body that holds a job
	MaxHTTPBodies = 128 << 20 // bytes of all bodies that are being read or served
	// objects, lists and null elements of lists in one body; each counts as JSONPartBytes
	MaxJSONParts  = 100_000
	JSONPartBytes = 512 // of memory, about, that an object or a list takes when it is decoded

	// Of RPC.
	MaxRPCRequest  = 64 << 20  // bytes of one request, and of the answer of a node
	MaxRPCAnswer   = 1 << 30   // bytes of one answer of a server
	MaxAllocIDs    = 1_000     // allocations that one request asks for by ID
	MaxRPCParts    = 400_000   // lists, maps and entries of one request; eight entries of a map count as one
	RPCPartBytes   = 512       // of memory, about, that a part takes when it is decoded
	MaxRPCInFlight = 512 << 20 // bytes of all requests above SmallRPC that are being read or served
	SmallRPC       = 64 << 10  // bytes of memory: a smaller request is not counted
	// SmallWaitingRPC takes the place of SmallRPC for requests that wait, of which there may be very many.
	SmallWaitingRPC = 2 << 10

	// Of the files of a server.
	MaxEntry        = 32 << 20 // bytes of one entry of the log; its reader takes no more than 64 MiB
	MaxArchive      = 16 << 30 // bytes of state in an archive: a server keeps the state in memory
	MaxArchiveIndex = 1 << 53  // index and term of an archive: one near 2^64 leaves no room for further entries
	MaxPeersFile    = 64 << 10 // bytes of raft/peers.json
)

// limit is one bound as the reference shows it.
type limit struct {
	Constant string // its name in this package
	Max      int64
	Unit     string // "" of a number, or bytes, MHz, MiB, duration
	Of       string // the thing that it bounds
	Beyond   string // the fate of a request beyond it
}

// The fates of requests and texts beyond a limit.
const (
	beyondInvalid = "*invalid*"
	beyondCut     = "cut"
	refusedAnswer = "the call fails"
)

// Limits is the list of all of them.
var Limits = []limit{
	{"MaxGroupCount", MaxGroupCount, "", "`count` of one task group", beyondInvalid},
	{"MaxJobCount", MaxJobCount, "", "instances of one job, the sum of its counts", beyondInvalid},
	{"MaxGroups", MaxGroups, "", "task groups of one job", beyondInvalid},
	{"MaxTasks", MaxTasks, "", "tasks of one group", beyondInvalid},
	{"MaxVolumes", MaxVolumes, "", "volumes of one group", beyondInvalid},
	{"MaxConstraints", MaxConstraints, "", "constraints of a job, a group or a task", beyondInvalid},
	{
		"MaxListed", MaxListed, "", "entries of another list: datacenters, volume mounts, topologies, capabilities",
		beyondInvalid,
	},
	{"MaxPairs", MaxPairs, "", "entries of one map: `meta`, `env`", beyondInvalid},
	{"MaxPairsBytes", MaxPairsBytes, "bytes", "keys and values of one map", beyondInvalid},
	{"MaxJobBytes", MaxJobBytes, "bytes", "one job, encoded", beyondInvalid},
	{"MaxName", MaxName, "bytes", "an ID or a name", beyondInvalid},
	{
		"MaxText", MaxText, "bytes", "a free text: a constraint's value, a path; one in a node's report is cut",
		beyondInvalid,
	},
	{"MaxCPU", MaxCPU, "MHz", "CPU of one task, one allocation, one node", beyondInvalid},
	{"MaxMemoryMB", MaxMemoryMB, "MiB", "memory of one task, one allocation, one node", beyondInvalid},
	{"MaxDiskMB", MaxDiskMB, "MiB", "disk of one allocation, one node", beyondInvalid},
	{
		"MaxVolumeBytes", MaxVolumeBytes, "bytes",
		"`capacity_min`, `capacity_max` and `Capacity` of a volume; " +
			"beyond it the answer of a plugin fails its call",
		beyondInvalid,
	},
	{"MaxRestarts", MaxRestarts, "", "`attempts` of a restart policy", beyondInvalid},
	{"MaxReschedules", MaxReschedules, "", "`attempts` of a reschedule policy", beyondInvalid},
	{
		"MaxInterval", int64(MaxInterval), "duration", "`interval`, `delay` and `max_delay` of either policy",
		beyondInvalid,
	},
	{
		"MaxTaskWait", int64(MaxTaskWait), "duration",
		"`kill_timeout`, `shutdown_delay`, `health_timeout`, `hang_timeout`", beyondInvalid,
	},
	{"MaxWait", int64(MaxWait), "duration", "`wait` of a blocking query", "answered then"},
	{"MaxLogFiles", MaxLogFiles, "", "log files of one task", beyondInvalid},
	{"MaxLogFileSizeMB", MaxLogFileSizeMB, "MiB", "one log file", beyondInvalid},
	{
		"MaxNodeAttributes", MaxNodeAttributes, "",
		"attributes, `meta` entries and drivers that one node reports; its reservable cores likewise",
		beyondInvalid,
	},
	{"MaxNodeBytes", MaxNodeBytes, "bytes", "keys and values of these", beyondInvalid},
	{"MaxNodePlugins", MaxNodePlugins, "", "plugin instances that one node reports", beyondInvalid},
	{
		"MaxNodeVolumes", MaxNodeVolumes, "", "volumes that one node reports after a restore, held or left",
		beyondInvalid,
	},
	{"MaxTaskEvents", MaxTaskEvents, "", "events of one task that a node reports", "the oldest are dropped"},
	{"MaxFilter", MaxFilter, "bytes", "a filter expression", beyondInvalid},
	{"MaxFilterSteps", MaxFilterSteps, "", "steps of the parser of a filter", beyondInvalid},
	{
		"MaxFilterPatterns", MaxFilterPatterns, "",
		"size of all regular expressions of a filter, repetitions written out", beyondInvalid,
	},
	{"MaxSource", MaxSource, "bytes", "a file in HCL or JSON: a job, a volume, a configuration", beyondInvalid},
	{"MaxNesting", MaxNesting, "", "levels of brackets in such a file", beyondInvalid},
	{"MaxRepeats", MaxRepeats, "", "of each operator in a row without brackets in such a file", beyondInvalid},
	{"MaxVariable", MaxVariable, "", "bytes and elements of a variable or a local of a job file", beyondInvalid},
	{"MaxVariableUses", MaxVariableUses, "", "uses of variables and locals in a job file", beyondInvalid},
	{"MaxPlaced", MaxPlaced, "", "allocations that one plan places", "the next plan continues"},
	{"MaxReason", MaxReason, "bytes", "a reason for which a node does not get an allocation", beyondCut},
	{"MaxReasons", MaxReasons, "", "such reasons of one task group, those of most nodes first", "counted"},
	{"MaxVolumePuts", MaxVolumePuts, "", "volumes that one request registers or creates", beyondInvalid},
	{"MaxClaims", MaxClaims, "", "claims in one claim or release", beyondInvalid},
	{
		"MaxExternalAsk", MaxExternalAsk, "", "calls of plugins for a page of `/v1/volumes/external`",
		"the next page continues",
	},
	{
		"MaxExternalSum", MaxExternalSum, "bytes", "the volumes on a page of `/v1/volumes/external`",
		"the next page continues",
	},
	{
		"MaxExternal", MaxExternal, "", "volumes on a page of `/v1/volumes/external` whose size is not given",
		"the next page continues",
	},
	{"MaxWaitingJobs", MaxWaitingJobs, "", "jobs that a volume's `WaitingJobs` names", beyondCut},
	{"MaxCSIString", MaxCSIString, "bytes", "a string that a CSI plugin gets or answers", beyondInvalid},
	{
		"MaxCSIMap", MaxCSIMap, "bytes",
		"a map, the mount flags or the topologies that a CSI plugin gets or answers", beyondInvalid,
	},
	{"MaxCSIName", MaxCSIName, "bytes", "the name of a CSI plugin", refusedAnswer},
	{"MaxPluginBaseDir", MaxPluginBaseDir, "bytes", "`stage_publish_base_dir` of a plugin", beyondInvalid},
	{"MaxProvider", MaxProvider, "bytes", "`former_provider` of a job, a driver's name", beyondInvalid},
	{"MaxCSIID", MaxCSIID, "bytes", "a CSI plugin's ID of a volume", refusedAnswer},
	{"MaxCSINodeID", MaxCSINodeID, "bytes", "a CSI plugin's ID of a node", refusedAnswer},
	{"MaxCSIContext", MaxCSIContext, "bytes", "a context that a CSI plugin answers", refusedAnswer},
	{
		"MaxCSIPlaces", MaxCSIPlaces, "",
		"topologies of one volume that a CSI plugin answers, or that a registration gives", refusedAnswer,
	},
	{"MaxCSIToken", MaxCSIToken, "bytes", "a page token of a CSI plugin", refusedAnswer},
	{"MaxCSIAnswer", MaxCSIAnswer, "bytes", "an answer of a CSI plugin", refusedAnswer},
	{"MaxCSIListed", MaxCSIListed, "", "volumes in one answer of a CSI plugin that lists them", refusedAnswer},
	{"MaxCSIList", MaxCSIList, "bytes", "an answer of a CSI plugin that lists volumes", refusedAnswer},
	{"MaxCSIErrorText", MaxCSIErrorText, "bytes", "the message of a CSI plugin in an error", beyondCut},
	{"MaxFaults", MaxFaults, "", "faults that one answer names", "counted"},
	{"MaxQuoted", MaxQuoted, "bytes", "a text from outside that a fault quotes", beyondCut},
	{"MaxErrorText", MaxErrorText, "bytes", "the text of an error", beyondCut},
	{"MaxHTTPHead", MaxHTTPHead, "bytes", "the header of one HTTP request", "status 431"},
	{"MaxHTTPBody", MaxHTTPBody, "bytes", "the body of one HTTP request", "status 413"},
	{
		"MaxHTTPJob", MaxHTTPJob, "bytes", "the body of one HTTP request that holds a job or volumes", "status 413",
	},
	{
		"MaxJSONParts", MaxJSONParts, "",
		"objects, lists and null elements of lists in the body of one HTTP request", "status 413",
	},
	{
		"MaxHTTPBodies", MaxHTTPBodies, "bytes", "the bodies of all HTTP requests in flight",
		"*unavailable*, status 503",
	},
	{
		"JSONPartBytes", JSONPartBytes, "bytes",
		"an object, a list or a null element of a list in a body counts as so many bytes among these", "counted",
	},
	{"MaxRPCRequest", MaxRPCRequest, "bytes", "one RPC request, and the answer of a node", beyondInvalid},
	{"MaxRPCAnswer", MaxRPCAnswer, "bytes", "the RPC answer of a server", beyondInvalid},
	{"MaxAllocIDs", MaxAllocIDs, "", "allocations that one RPC request names by ID", beyondInvalid},
	{
		"MaxRPCParts", MaxRPCParts, "",
		"lists, maps and entries in one RPC request; eight entries of a map count as one", beyondInvalid,
	},
	{"MaxRPCInFlight", MaxRPCInFlight, "bytes", "all RPC requests in flight on one agent", "*unavailable*"},
	{
		"RPCPartBytes", RPCPartBytes, "bytes",
		"a list, a map or an entry in an RPC request counts as so many bytes among these", "counted",
	},
	{
		"SmallWaitingRPC", SmallWaitingRPC, "bytes",
		"the same of an RPC request that waits for a change or for a plugin", "counted",
	},
	{
		"SmallRPC", SmallRPC, "bytes",
		"an RPC request up to this size does not count among these and is not rejected for them", "counted",
	},
	{"MaxEntry", MaxEntry, "bytes", "one entry of the log: a write, or a plan of the scheduler", beyondInvalid},
	{"MaxArchive", MaxArchive, "bytes", "the state in an archive of `operator snapshot`", beyondInvalid},
	{"MaxArchiveIndex", MaxArchiveIndex, "", "the index and the term of an archive", beyondInvalid},
	{"MaxPeersFile", MaxPeersFile, "bytes", "`raft/peers.json`", "the server does not start"},
}

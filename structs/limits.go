package structs

import "time"

// The bounds of one request, job file, report or answer. A bound applies to new input: rows that an older
// version has stored beyond it stay, and their readers accept them. The reference, docs/reference/limits.md,
// describes each constant; test/refdocs compares it with this file.
const (
	// Bounds of names and texts, in bytes.
	MaxName           = 255       // an ID or a name: it also names a directory
	MaxText           = 4 << 10   // a free text: a constraint's value, a path, a description
	MaxDescription    = 256       // a description of a namespace or node pool
	MaxPairs          = 1000      // entries of one map: meta, env
	MaxPairsBytes     = 256 << 10 // keys and values of one map
	MaxListed         = 1000      // entries of one list: datacenters, mounts, topologies
	MaxConstraints    = 256       // constraints in one place, affinities and spreads likewise
	MaxFaults         = 20        // faults that one answer names
	MaxQuoted         = 64        // bytes of a text from outside that a fault quotes
	MaxErrorText      = 32 << 10  // bytes of the text of any error
	MaxJobBytes       = 4 << 20   // one job, encoded
	MaxNodeAttributes = 4096      // attributes, meta entries and drivers of one node
	MaxNodeBytes      = 1 << 20   // keys and values of these
	MaxNodePlugins    = 1000      // plugin instances that one node reports
	MaxHostVolumes    = 128       // host volumes of one node
	MaxEndingCalls    = 16        // calls that one instance of a plugin reports as not made
	MaxNodeVolumes    = 10_000    // volumes that one node reports after a restore
	MaxTaskEvents     = 10        // events of one task
	MaxFilter         = 64 << 10  // a filter expression
	MaxFilterSteps    = 2_000_000 // steps of the parser of a filter, which goes back often: a fifth of a second
	MaxFilterPatterns = 4000      // size of all regular expressions of a filter, repetitions written out
	MaxSource         = 1 << 20   // a file in HCL, or in JSON in its place
	MaxJobSource      = 8 << 20   // a job_max_source_size: of the source of a job, with its variables
	MaxNesting        = 250       // brackets, and templates, within one another in such a file
	MaxRepeats        = 5000      // repetitions of each operator without brackets in such a file
	MaxParts          = 100_000   // brackets, arguments, elements in such a file; parsed, up to 3 KiB each
	MaxVariables      = 1000      // variables of one job file, and its locals
	MaxEvaluation     = 16 << 20  // bytes of all values that the expressions of one job file yield

	// Bounds of jobs.
	MaxJobCount      = 50_000 // instances of one job: the sum of its counts
	MaxGroupCount    = 10_000 // instances of one task group
	MaxGroups        = 1000   // task groups of one job
	MaxTasks         = 100    // tasks of one group
	MaxConfigNesting = 250    // levels of maps and lists in the config of one task
	MaxVolumes       = 128    // volumes of one group
	MaxRestarts      = 10_000 // restart attempts
	MaxReschedules   = 1000   // reschedule attempts: an allocation remembers each
	MaxLogFiles      = 1000   // log files of one task
	MaxLogFileSizeMB = 64 << 10
	MaxPlaced        = 2048     // allocations that one plan places
	MaxReason        = 512      // bytes of a reason for which a node does not get an allocation
	MaxReasons       = 16       // such reasons of one task group, or of one allocation
	MaxCrons         = 100      // schedules of one periodic job
	MaxPayload       = 16 << 10 // bytes of the payload of a dispatch

	// Bounds of artifacts.
	MaxArtifacts     = 64       // of one task
	MaxArtifactPairs = 64       // options, and headers, of one artifact
	MaxArtifactBytes = 32 << 10 // keys and values of its options, and of its headers

	// Bounds of resources: of one task, of one allocation and of one node alike.
	MaxCPU      = 100_000_000 // MHz
	MaxMemoryMB = 1 << 30     // 1 PiB
	MaxDiskMB   = 1 << 34     // 16 PiB

	// Bounds of templates.
	MaxTemplates     = 64        // of one task
	MaxTemplateText  = 256 << 10 // bytes of one text
	MaxTemplateBytes = 1 << 20   // bytes of one rendered file, and of all files that one text reads
	MaxTemplateReads = 256       // values that one text reads: files, variables, services and keys
	MaxDelimiter     = 64        // bytes of a delimiter

	// MaxEvalIDs bounds the evaluations that one request deletes by their IDs.
	MaxEvalIDs = 4096

	// Bounds of devices.
	MaxDeviceDemands    = 32        // device blocks of one task
	MaxDevices          = 1024      // devices of one demand, and of one node
	MaxDeviceGroups     = 128       // device groups of one node
	MaxDeviceAttributes = 128       // attributes of one device group
	MaxDeviceBytes      = 512 << 10 // the texts of a node's device groups: names, IDs, attributes, descriptions

	// Bounds of networks.
	MaxGroupPorts    = 128     // ports of one group
	MaxResolvers     = 16      // name servers of one group; domains, and options, likewise
	MaxNodeAddresses = 256     // networks of one node, and their addresses
	MaxPortsText     = 1 << 10 // a list of ports

	// Bounds of services.
	MaxServices      = 64       // of one group and its tasks
	MaxServiceTags   = 64       // of one service
	MaxServiceChecks = 64       // of one service
	MaxServiceBytes  = 16 << 10 // names, tags and meta of the services of one group
	// MaxMeshItems bounds each list of the service mesh: upstreams, exposed paths, addresses, listeners,
	// services and hosts of a gateway.
	MaxMeshItems = 128

	// Bounds of identities.
	MaxIdentities  = 16             // of one task, besides the default one
	MaxAudiences   = 16             // of one identity; the tokens of one plugin
	MinIdentityTTL = time.Minute    // of its tokens
	MaxIdentityTTL = 24 * time.Hour // likewise
	MaxIdentity    = 8 << 10        // bytes of a token

	// Bounds of volumes.
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
	MaxCSITopologies = 256      // topologies of one volume; a number
	MaxCSIToken      = 4 << 10  // a page token
	MaxCSIAnswer     = 1 << 20  // an answer
	MaxCSIListed     = 200_000  // volumes in one answer that lists them
	MaxCSIList       = 16 << 20 // an answer that lists volumes: some plugins ignore max_entries
	MaxCSIErrorText  = 2048     // a plugin's message in an error
	MaxCSIHealth     = 16       // adverse conditions of one volume, or of the storage at a node; a number

	// Bounds of durations.
	MaxInterval = 10 * 365 * 24 * time.Hour // of restart and reschedule policies; max_run_duration; disconnect
	MaxTaskWait = 24 * time.Hour            // kill_timeout, shutdown_delay, health_timeout, hang_timeout
	MaxWait     = 10 * time.Minute          // of a blocking query
	MinLockTime = 10 * time.Second          // the TTL and the delay of the lock of a variable
	MaxLockTime = 24 * time.Hour

	// Bounds of the commands that users run in tasks. A command travels in the head of a request.
	MaxExecArgs  = 1024     // of one command, with its program
	MaxExecBytes = 16 << 10 // of its arguments
	MaxExecs     = 128      // that run on one node
	MaxActions   = 64       // of one task

	// Bounds of the files of allocations that users read.
	MaxFilesListed = 10_000   // files of one directory
	MaxFileStreams = 512      // files, logs and streams of events that one agent sends at a time
	MaxTailLines   = 100_000  // last lines of a file or log
	MaxTailBytes   = 16 << 20 // bytes that are searched for them

	// Bounds of the gossip addresses of one request to join servers.
	MaxJoinAddresses = 16
	MaxJoinAddress   = 260 // bytes: a DNS name and a port

	// Bounds of variables.
	MaxVariablePath  = 128       // bytes of a path
	MaxVariableItems = 1000      // items of one variable
	MaxVariableBytes = 64 << 10  // names and values of its items
	MaxStoredVars    = 10_000    // variables of one namespace
	MaxStoredBytes   = 128 << 20 // their encrypted items

	// Bounds of searches.
	MaxSearched = 20 // matches of one context

	// Bounds of HTTP.
	MaxHTTPHead   = 64 << 10  // bytes of the head of one request
	MaxHTTPBody   = 1 << 20   // bytes of one body
	MaxHTTPJob    = 16 << 20  // bytes of a body that holds a job
	MaxHTTPBodies = 128 << 20 // bytes of all bodies that are being read or served
	// objects, lists and null elements of lists in one body; each counts as JSONPartBytes
	MaxJSONParts  = 100_000
	JSONPartBytes = 512 // of memory, about, that an object or a list takes when it is decoded

	// Bounds of RPC.
	// MaxRPCRequest is above MaxEntry, because requests may be larger than their entries. The inventory in a
	// node's heartbeat has up to 56 MiB and no entry of its own. The texts of a report of allocations are cut
	// before they get into an entry.
	MaxRPCRequest  = 64 << 20  // bytes of one request, and of the answer of a node
	MaxRPCAnswer   = 1 << 30   // bytes of one answer of a server
	MaxAllocIDs    = 1_000     // allocations that one request names by ID
	MaxRPCParts    = 400_000   // lists, maps and entries of one request; eight entries of a map count as one
	RPCPartBytes   = 512       // of memory, about, that a part takes when it is decoded
	MaxRPCInFlight = 512 << 20 // bytes of all requests above SmallRPC that are being read or served
	SmallRPC       = 64 << 10  // bytes of memory: a smaller request is not counted
	// SmallWaitingRPC takes the place of SmallRPC for requests that wait, of which there may be very many.
	SmallWaitingRPC = 2 << 10

	// Bounds of the files of a server.
	MaxEntry        = 32 << 20 // bytes of one entry of the log; its reader accepts at most 64 MiB
	MaxArchive      = 16 << 30 // bytes of state in an archive: a server keeps the state in memory
	MaxArchiveIndex = 1 << 53  // index and term of an archive: one near 2^64 leaves no index for further entries
	MaxPeersFile    = 64 << 10 // bytes of raft/peers.json
)

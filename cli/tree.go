package cli

// tree is every command of the command line, in the order of its help.
func tree() []Command {
	return []Command{
		{Name: "job", Group: groupWork, Synopsis: "Run, watch and stop jobs", Sub: []Command{
			{Name: "run", Acts: true, Args: "<file>", Synopsis: "Register a job and watch until it runs",
				Help: helpJobRun, Flags: jobRunFlags, Run: jobRun},
			{Name: "status", Args: "[job]", Synopsis: "List jobs, or show one with its allocations",
				Renders: true, Run: jobStatus},
			{Name: "stop", Acts: true, Args: "<job>",
				Synopsis: "Stop a job and watch until its allocations have ended",
				Flags:    jobStopFlags, Run: jobStop},
			{Name: "validate", Args: "<file>", Synopsis: "Check a job file", Local: true, Run: jobValidate},
			{Name: "inspect", Args: "<job>", Synopsis: "Show a job as it is stored",
				Flags: jobInspectFlags, Renders: true, Run: jobInspect},
		}},
		{Name: "alloc", Group: groupWork, Synopsis: "Look into allocations", Sub: []Command{
			{Name: "status", Args: "[alloc]",
				Synopsis: "List allocations, or show one with its tasks and volumes",
				Renders:  true, Run: allocStatus},
			{Name: "logs", Args: "<alloc> [task]", Synopsis: "Show what a task has written",
				Flags: allocLogsFlags, Run: allocLogs},
			{Name: "stop", Acts: true, Args: "<alloc>",
				Synopsis: "Stop an allocation; the scheduler places it anew",
				Flags:    detachFlags, Run: allocStop},
		}},
		{Name: "eval", Group: groupWork, Synopsis: "Look into evaluations", Sub: []Command{
			{Name: "status", Args: "[eval]",
				Synopsis: "List evaluations, or show one with what could not be placed",
				Renders:  true, Run: evalStatus},
		}},
		{Name: "volume", Group: groupStorage, Synopsis: "Make, look into and delete volumes", Sub: []Command{
			{Name: "init", Args: "[file]", Synopsis: "Write an example of a volume file (volume.hcl)",
				Local: true, Run: volumeInit},
			{Name: "create", Acts: true, Args: "<file>", Synopsis: "Have a plugin make a volume",
				Flags: volumeCreateFlags, Run: volumeCreate},
			{Name: "register", Acts: true, Args: "<file>",
				Synopsis: "Make known a volume that its plugin has already", Run: volumeRegister},
			{Name: "status", Args: "[volume]",
				Synopsis: "List volumes, or show one with its claims and attachments",
				Flags:    volumeStatusFlags, Renders: true, Run: volumeStatus},
			{Name: "deregister", Acts: true, Args: "<volume>",
				Synopsis: "Forget a volume, leaving it at its plugin",
				Flags:    volumeDeregisterFlags, Run: volumeDeregister},
			{Name: "delete", Acts: true, Args: "<volume>",
				Synopsis: "Have the plugin delete a volume, with all that is on it",
				Flags:    volumeDeleteFlags, Run: volumeDelete},
			{Name: "retry", Acts: true, Args: "<volume>",
				Synopsis: "Try at once again what failed for a volume",
				Help:     helpVolumeRetry, Run: volumeRetry},
			{Name: "detach", Acts: true, Args: "<volume> <node>",
				Synopsis: "Have a node let go of a volume that nothing there uses any more",
				Help:     helpVolumeDetach, Flags: volumeDetachFlags, Run: volumeDetach},
		}},
		{Name: "plugin", Group: groupStorage, Synopsis: "Look into CSI plugins", Sub: []Command{
			{Name: "status", Args: "[plugin]", Synopsis: "List CSI plugins, or show one with its instances",
				Renders: true, Run: pluginStatus},
		}},
		{Name: "node", Group: groupCluster, Synopsis: "Look into nodes and keep work off them",
			Sub: []Command{
				{Name: "status", Args: "[node]",
					Synopsis: "List nodes, or show one with its plugins and allocations",
					Flags:    nodeStatusFlags, Renders: true, Run: nodeStatus},
				{Name: "purge", Acts: true, Args: "<node>", Synopsis: "Forget a node that is off for good",
					Help: helpNodePurge, Run: nodePurge},
				{Name: "eligibility", Acts: true, Args: "[node]",
					Synopsis: "Allow or forbid new placements on a node",
					Flags:    nodeEligibilityFlags, Run: nodeEligibility},
			}},
		{Name: "server", Group: groupCluster, Synopsis: "Look into servers and remove them", Sub: []Command{
			{Name: "members", Synopsis: "List the servers", Renders: true, Run: serverMembers},
			{Name: "leave", Acts: true,
				Synopsis: "Have the agent's server leave the cluster and the agent end",
				Help:     helpServerLeave, Flags: serverLeaveFlags, Run: serverLeave},
			{Name: "force-leave", Acts: true, Args: "<server>",
				Synopsis: "Have a failed server count as one that has left",
				Help:     helpForceLeave, Flags: forceLeaveFlags, Run: serverForceLeave},
		}},
		{Name: "operator", Group: groupCluster, Synopsis: "Look after the cluster", Sub: []Command{
			{Name: "raft", Synopsis: "Look into Raft and remove dead servers", Sub: []Command{
				{Name: "list-peers", Synopsis: "List the members of the Raft configuration",
					Flags: listPeersFlags, Renders: true, Run: raftListPeers},
				{Name: "remove-peer", Acts: true, Synopsis: "Take the vote of a dead server away",
					Help: helpRemovePeer, Flags: removePeerFlags, Run: raftRemovePeer},
			}},
			{Name: "metrics", Synopsis: "Show the metrics of one agent",
				Flags: metricsFlags, Run: operatorMetrics},
			{Name: "snapshot", Synopsis: "Save and restore the whole state", Sub: []Command{
				{Name: "save", Acts: true, Args: "<file>", Synopsis: "Save the whole state to a file",
					Run: snapshotSave},
				{Name: "restore", Acts: true, Args: "<file>",
					Synopsis: "Replace the whole state by a saved one", Run: snapshotRestore},
				{Name: "inspect", Args: "<file>", Synopsis: "Check a saved state and say what it is",
					Local: true, Renders: true, Run: snapshotInspect},
			}},
		}},
		{Name: "system", Group: groupCluster, Synopsis: "Clean up", Sub: []Command{
			{Name: "gc", Acts: true, Synopsis: "Forget what has ended and is of no more use", Run: systemGC},
		}},
		{Name: "completion", Group: GroupSelf, Args: "<shell>",
			Synopsis: "Print what lets bash, zsh or fish complete commands",
			Help:     helpCompletion, Local: true, Run: completion},
		{Name: "version", Group: GroupSelf, Synopsis: "Say which berth this is",
			Local: true, Run: showVersion},
	}
}

// detachFlags are those of commands that watch what they began.
var detachFlags = []Flag{
	{Name: "detach", Kind: Bool, Usage: "Do not watch; show the ID of the evaluation"},
	{Name: "timeout", Kind: Duration, Value: "duration", Default: "5m", Usage: "How long to watch"},
}

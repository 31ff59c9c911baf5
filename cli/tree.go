package cli

// tree is the command line, in the order of its help. The verbs of a noun are in the file of the noun.
func tree() []Command {
	return []Command{
		{Name: "job", Group: groupWork, Synopsis: "Run, watch and stop jobs",
			Sub: jobCommands()},
		{Name: "alloc", Group: groupWork, Synopsis: "Look into allocations",
			Sub: allocCommands()},
		{Name: "eval", Group: groupWork, Synopsis: "Look into evaluations",
			Sub: evalCommands()},
		{Name: "volume", Group: groupStorage, Synopsis: "Make, look into and delete volumes",
			Sub: volumeCommands()},
		{Name: "plugin", Group: groupStorage, Synopsis: "Look into CSI plugins",
			Sub: pluginCommands()},
		{Name: "node", Group: groupCluster, Synopsis: "Look into nodes and keep work off them",
			Sub: nodeCommands()},
		{Name: "server", Group: groupCluster, Synopsis: "Look into servers and remove them",
			Sub: serverCommands()},
		{Name: "operator", Group: groupCluster, Synopsis: "Look after the cluster",
			Sub: operatorCommands()},
		{Name: "system", Group: groupCluster, Synopsis: "Clean up",
			Sub: systemCommands()},
		{Name: "completion", Group: GroupSelf, Args: "<shell>",
			Synopsis: "Print what lets bash, zsh or fish complete commands", Help: helpCompletion,
			Local: true, Run: completion,
			Examples: []string{
				"source <(berth completion bash)",
				"berth completion fish > ~/.config/fish/completions/berth.fish",
			}},
		{Name: "version", Group: GroupSelf, Synopsis: "Say which berth this is", Local: true,
			Run:      showVersion,
			Examples: []string{"berth version"}},
	}
}

// detachFlags are those of commands that watch what they began.
var detachFlags = []Flag{
	{Name: "detach", Kind: Bool, Usage: "Do not watch; show the ID of the evaluation"},
	{Name: "timeout", Kind: Duration, Value: "duration", Default: "5m", Usage: "How long to watch"},
}

package command

// VerboseFlag is the option of commands that show IDs.
var VerboseFlag = Flag{Name: "verbose", Usage: "Show complete IDs"}

// DetachFlags are the options of commands that watch the effect of their request.
var DetachFlags = []Flag{
	{Name: "detach", Usage: "Do not watch; print the ID of the evaluation"},
	{
		Name:    "timeout",
		Kind:    Duration,
		Value:   "duration",
		Default: "5m",
		Usage:   "How long to watch",
	},
	VerboseFlag,
}

// WatchTimeout is the option of -monitor.
var WatchTimeout = Flag{
	Name:    "timeout",
	Kind:    Duration,
	Value:   "duration",
	Default: "1h",
	Usage:   "How long to watch",
}

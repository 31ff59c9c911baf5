package cli

// verboseFlag is the option of commands that show IDs.
var verboseFlag = Flag{Name: "verbose", Usage: "Show complete IDs"}

// detachFlags are the options of commands that watch the effect of their request.
var detachFlags = []Flag{
	{Name: "detach", Usage: "Do not watch; print the ID of the evaluation"},
	{
		Name:    "timeout",
		Kind:    Duration,
		Value:   "duration",
		Default: "5m",
		Usage:   "How long to watch",
	},
	verboseFlag,
}

// watchTimeout is the option of -monitor.
var watchTimeout = Flag{
	Name:    "timeout",
	Kind:    Duration,
	Value:   "duration",
	Default: "1h",
	Usage:   "How long to watch",
}

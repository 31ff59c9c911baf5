package command

import (
	"berth/api"
	"berth/internal/opsocket"
)

// CommonFlags are the options of all commands that call an agent. None of them turns the verification of the
// agent's certificate off.
var CommonFlags = []Flag{
	{
		Name:  "address",
		Kind:  String,
		Value: "url",
		Usage: "The agent to call, http://host:port, https://host:port or unix:///path. " +
			"Default: BERTH_ADDR, else " + opsocket.Default + " or " + opsocket.OfServer +
			" if this user may open it, else " + api.DefaultAddress,
	},
	{
		Name:  "namespace",
		Kind:  String,
		Value: "name",
		Usage: "The namespace. Default: BERTH_NAMESPACE, else default",
	},
	{
		Name:  "region",
		Kind:  String,
		Value: "name",
		Usage: "The region. Default: BERTH_REGION, else the agent's own",
	},
	{
		Name:  "ca-cert",
		Kind:  String,
		Value: "file",
		Usage: "The certificate of the authority that signed the agent's, in PEM. " +
			"Default: BERTH_CACERT, else NOMAD_CACERT, else the authorities of this machine",
	},
	{
		Name:  "ca-path",
		Kind:  String,
		Value: "dir",
		Usage: "A directory of such certificates, for a command without -ca-cert. " +
			"Default: BERTH_CAPATH, else NOMAD_CAPATH",
	},
	{
		Name:  "client-cert",
		Kind:  String,
		Value: "file",
		Usage: "The certificate of the caller, in PEM. Default: BERTH_CLIENT_CERT, else NOMAD_CLIENT_CERT",
	},
	{
		Name:  "client-key",
		Kind:  String,
		Value: "file",
		Usage: "The key of -client-cert, in PEM. Default: BERTH_CLIENT_KEY, else NOMAD_CLIENT_KEY",
	},
	{
		Name:  "tls-server-name",
		Kind:  String,
		Value: "name",
		Usage: "The name that the agent's certificate must have. " +
			"Default: BERTH_TLS_SERVER_NAME, else NOMAD_TLS_SERVER_NAME, else the host of the address",
	},
}

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

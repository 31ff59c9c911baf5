package refdocs

// tlsTexts explains the block tls.
var tlsTexts = blockText{Block: "tls", Intro: "The encryption of all ports of the agent, and the certificates that " +
	"give access to them, see " +
	"[TLS](../operations/tls.md).", Settings: []settingText{
	{
		"mode", "`off`, with a warning beyond loopback",
		"`off`: plain TCP; `prefer`: TLS with agents that speak it, and both on the ports; `require`: TLS alone, " +
			"with a certificate of the cluster",
	},
	{"ca_file", "", "the certificates of the authorities, in PEM; required with `prefer` and `require`"},
	{
		"cert_file", "",
		"the certificate of the agent, in PEM: that of a server, or of the node with the ID of this one; read again " +
			"when it changes, and on SIGHUP",
	},
	{"key_file", "", "the key of the certificate, in PEM; likewise"},
	{
		"ca_key_file", "",
		"of a server: the key of the authority in `ca_file`, which the first leader stores, encrypted; without the file " +
			"nothing happens, so it may go afterwards",
	},
	{
		"renew", "",
		"the agent renews its certificate by itself and writes it to its file; the servers are the authority",
	},
	{
		"plain_loopback", "",
		"with `require`, programs of this machine may call the HTTP API at a loopback address in plain text; so may " +
			"each task with the network of the machine",
	},
}}

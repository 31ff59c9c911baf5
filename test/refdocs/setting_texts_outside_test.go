package refdocs

// loginIdentityTexts explains a block with the identity for logins.
var loginIdentityTexts = []settingText{
	{"aud", "off", "the audiences of the identity, which the other side expects; at most 16"},
	{"ttl", "1h", "its time to live, 1m to 24h"},
	{"env", "", "the task has the identity in `NOMAD_TOKEN_NAME`, too"},
	{"file", "", "the task has the identity in a file, too"},
}

// outsideTexts explains the logins of workloads at Consul and Vault.
var outsideTexts = []blockText{
	{
		Block: "consul.service_identity",
		Intro: "Of servers: the identity of services in Consul that name none, see " +
			"[Consul and Vault](../operations/consul-and-vault.md). The same on every server.",
		Settings: loginIdentityTexts,
	},
	{
		Block: "consul.task_identity",
		Intro: "Of servers: the identity `consul_default` of tasks with a block `consul`, or with templates " +
			"that read from Consul.",
		Settings: loginIdentityTexts,
	},
	{
		Block: "vault",
		Intro: "The Vault at which tasks log in, see " +
			"[Vault and OpenBao](../operations/consul-and-vault.md#vault-and-openbao). A server uses `enabled` and " +
			"the block `default_identity` alone.",
		Settings: []settingText{
			{"enabled", "", "use Vault"},
			{"address", "", "`https://host:port`; `http://` for this machine alone"},
			{"namespace", "", "the namespace of Vault in which tasks log in"},
			{"ca_file", "the authorities of the system", "the absolute path of a PEM file: the authority of Vault"},
			{"ca_path", "", "a directory of such files, at most 256"},
			{"cert_file", "", "the certificate of this agent, read for each connection"},
			{"key_file", "", "its key"},
			{"tls_server_name", "the host of `address`", "the name in the certificate of Vault"},
			{"tls_skip_verify", "", "take any certificate of Vault: everybody on the way can read the tokens"},
			{"timeout", "", "the bound on each request, 100ms to 1m"},
			{"jwt_auth_backend_path", "", "the path of the auth method at which tasks log in"},
			{
				"create_from_role", "the default of the auth method",
				"the role of tasks whose jobs name none",
			},
		},
	},
	{
		Block:    "vault.default_identity",
		Intro:    "Of servers: the identity `vault_default` of tasks with a block `vault`. The same on every server.",
		Settings: loginIdentityTexts,
	},
}

// uiTexts explains the block of the page.
var uiTexts = blockText{Block: "ui", Intro: "[The page](../page.md) at `/ui/`.", Settings: []settingText{
	{"enabled", "", "the agent serves the page"},
}}

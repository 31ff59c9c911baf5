package refdocs

import "slices"

// allSettingTexts returns settingTexts with the blocks of the keyring before those of fencing, and those of
// the audit log before those of nodes.
func allSettingTexts() []blockText {
	all := insertBefore("server.fencing", settingTexts, slices.Concat(keyringTexts, identityTexts, backupTexts))
	all = insertBefore("client", all, auditSettingTexts)
	last := slices.IndexFunc(all, func(b blockText) bool { return b.Block == "consul" })
	return slices.Insert(all, last+1, outsideTexts...)
}

func insertBefore(block string, all, more []blockText) []blockText {
	next := slices.IndexFunc(all, func(b blockText) bool { return b.Block == block })
	return slices.Insert(slices.Clone(all), next, more...)
}

// identityTexts explains the block workload_identity of a server.
var identityTexts = []blockText{{
	Block: "server.workload_identity",
	Intro: "The signed tokens of tasks and services; the same on every server, see " +
		"[Identities](../operations/identity.md).",
	Settings: []settingText{
		{
			"algorithm", "",
			"of the tokens for others than the servers: `RS256`, which most can verify, or `EdDSA`, which costs a " +
				"tenth; the tokens for the servers have `EdDSA`",
		},
		{"rotate_after", "", "the age at which another signing key replaces one, at least `1h`"},
	},
}}

// backupTexts explains the block snapshot_agent of a server.
var backupTexts = []blockText{{
	Block: "server.snapshot_agent",
	Intro: "Archives of the state on a schedule, which the leader saves, see " +
		"[On a schedule](../operations/backup.md#on-a-schedule).",
	Settings: []settingText{
		{"every", "none", "the time between two archives, `1m` to `720h`; `1h` saves one at each full hour"},
		{"directory", "", "where the archives are; made if missing"},
		{"retain", "", "the newest archives that stay in `directory`, 1 to 10,000"},
		{"command", "", "in place of `directory`: a program and its arguments, which reads an archive from its " +
			"standard input; `BERTH_SNAPSHOT_NAME` has the name of the archive"},
		{"timeout", "", "of one archive"},
		{"encrypt_to", "", "recipients of age (`age1...`) for whom each archive is encrypted"},
		{"recipients_file", "", "a file with recipients of age, one a line"},
	},
}}

// keyringTexts explains the block keyring of a server, and the blocks in it.
var keyringTexts = []blockText{
	{
		Block: "server.keyring",
		Intro: "The key-encryption key, which opens the keys of the secrets; the same on every server, see " +
			"[Keyring](../operations/keyring.md). It has one of `file`, `command` and the block `transit`.",
		Settings: keySourceTexts,
	},
	{
		Block:    "server.keyring.transit",
		Intro:    transitIntro,
		Settings: transitTexts,
	},
	{
		Block: "server.keyring.previous",
		Intro: "The former key-encryption key, which only opens root keys, see [Replace the key-encryption " +
			"key](../operations/keyring.md#replace-the-key-encryption-key).",
		Settings: keySourceTexts,
	},
	{
		Block:    "server.keyring.previous.transit",
		Intro:    transitIntro,
		Settings: transitTexts,
	},
}

// keySourceTexts explains the ways to a key-encryption key.
var keySourceTexts = []settingText{
	{
		"file", "",
		"a file of `berth operator root keyring init`, outside of `data_dir`, which only its owner may read",
	},
	{
		"command", "",
		"instead of `file`, a program with its arguments that wraps and unwraps root keys, see " +
			"[A key management system](../operations/keyring.md#a-key-management-system)",
	},
	{"key_id", "", "with `command`, the name of the key in the key management system, at most 512 bytes"},
}

const transitIntro = "A key of the transit engine of Vault or OpenBao, see " +
	"[Vault and OpenBao](../operations/keyring.md#vault-and-openbao)."

// transitTexts explains a block transit.
var transitTexts = []settingText{
	{"address", "", "`https://host:port`; `http://` only for this machine"},
	{"key_name", "", "the name of the key in the engine"},
	{"mount_path", "`transit`", "the path of the engine"},
	{"namespace", "", "the namespace of the engine"},
	{"token_file", "", "a file with the token; read for each call, so it may be renewed there"},
	{"ca_file", "", "the authorities of the address in PEM, in place of those of the system"},
	{"tls_server_name", "", "the name in the certificate of the address, in place of its host"},
}

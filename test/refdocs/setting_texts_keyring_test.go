package refdocs

// keyringTexts explains the block keyring of a server.
var keyringTexts = blockText{Block: "server.keyring", Intro: "The key-encryption key, which opens the keys of the " +
	"secrets; the same on every server, see " +
	"[Keyring](../operations/keyring.md).", Settings: []settingText{
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
}}

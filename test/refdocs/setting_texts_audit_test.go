package refdocs

// auditSettingTexts explains the audit log.
var auditSettingTexts = []blockText{
	{Block: "audit", Intro: "The record of changes and denied calls, see [The audit log](../operations/audit.md).", Settings: []settingText{
		{"enabled", "", "the agent writes an audit log"},
	}},
	{Block: "audit.sink", Intro: "A place for the lines: `sink \"name\" { }`, at most 8. Without one: a file.", Settings: []settingText{
		{"type", "required", "`file`, `stdout` or `syslog`"},
		{"delivery_guarantee", "`enforced`", "`enforced`: no change without its line; `best-effort`: lines may be lost"},
		{"format", "`json`", "`json`"},
		{"path", "audit/audit.log in `data_dir`", "the absolute path of the file"},
		{"mode", "`0600`", "the mode of the file; the owner alone may write"},
		{"rotate_bytes", "no limit", "the size at which the file is renamed, at least 65536"},
		{"rotate_duration", "`24h`", "the age at which the file is renamed"},
		{"rotate_max_files", "0", "the number of renamed files that stay; 0 keeps all"},
	}},
	{Block: "audit.filter", Intro: "Events that are left out: `filter \"name\" { }`, at most 64. An event fits each list.", Settings: []settingText{
		{"type", "`HTTPEvent`", "`HTTPEvent`"},
		{"endpoints", "all", "paths, with `*` for any text"},
		{"stages", "all", "`OperationReceived`, `OperationComplete` or `*`"},
		{"operations", "all", "methods of HTTP, or procedures such as `Variables.RenewLock`, with `*` for any text"},
	}},
}

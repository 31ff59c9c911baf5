package cli

import "strings"

// examples are command lines for the help of each command of tree, by the command without "berth".
var examples = map[string][]string{
	"job run": {"berth job run web.hcl", "berth job run -detach web.hcl",
		"berth job run -check-index 42 web.hcl"},
	"job status":   {"berth job status", "berth job status web"},
	"job stop":     {"berth job stop web", "berth job stop -purge web"},
	"job validate": {"berth job validate web.hcl"},
	"job inspect":  {"berth job inspect web > web.json", "berth job inspect -version 3 web"},

	"alloc status": {"berth alloc status", "berth alloc status 53b92b20"},
	"alloc logs":   {"berth alloc logs 53b92b20", "berth alloc logs -f -stderr 53b92b20 server"},
	"alloc stop":   {"berth alloc stop 53b92b20"},
	"eval status":  {"berth eval status", "berth eval status 3fe7f397"},

	"volume init":       {"berth volume init", "berth volume init data.hcl"},
	"volume create":     {"berth volume create data.hcl"},
	"volume register":   {"berth volume register data.hcl"},
	"volume status":     {"berth volume status", "berth volume status data", "berth volume status -node n1"},
	"volume deregister": {"berth volume deregister data", "berth volume deregister -force data"},
	"volume delete":     {"berth volume delete data", "berth volume delete -secret password=swordfish data"},
	"volume retry":      {"berth volume retry data"},
	"volume detach": {"berth volume detach data n1",
		`berth volume detach -force -reason "its power is off" data n1`},
	"plugin status": {"berth plugin status", "berth plugin status hostpath"},

	"node status":        {"berth node status", "berth node status n1", "berth node status -self -verbose"},
	"node purge":         {"berth node purge n1"},
	"node eligibility":   {"berth node eligibility -disable n1", "berth node eligibility -enable -self"},
	"server members":     {"berth server members"},
	"server leave":       {"berth server leave", "berth server leave -address http://10.0.0.3:4746"},
	"server force-leave": {"berth server force-leave s3", "berth server force-leave -prune s3.global"},

	"operator raft list-peers": {"berth operator raft list-peers", "berth operator raft list-peers -stale"},
	"operator raft remove-peer": {
		"berth operator raft remove-peer -peer-id 541ba1cf-e48d-59c5-0ec1-ce31ec81cc1a",
		"berth operator raft remove-peer -peer-address 10.0.0.3:4747"},
	"operator check":            {"berth operator check backup.snap"},
	"operator metrics":          {"berth operator metrics", "berth operator metrics -format prometheus"},
	"operator snapshot save":    {"berth operator snapshot save backup.snap"},
	"operator snapshot restore": {"berth operator snapshot restore backup.snap"},
	"operator snapshot inspect": {"berth operator snapshot inspect backup.snap"},
	"system gc":                 {"berth system gc"},

	"completion": {"source <(berth completion bash)",
		"berth completion fish > ~/.config/fish/completions/berth.fish"},
	"version": {"berth version"},
}

// examples are those of the command at a path such as "berth job run".
func (cmd *Command) examples(path string) []string {
	if cmd.Examples != nil {
		return cmd.Examples
	}
	return examples[strings.TrimPrefix(path, "berth ")]
}

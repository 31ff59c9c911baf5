package interop

import "strings"

// withoutRoute tells why berth has no route for a call of the public client, by its handle or by its name.
var withoutRoute = map[string]string{
	"ACLAuth":                                    "berth has no authentication yet",
	"ACLAuthMethods":                             "berth has no authentication yet",
	"ACLBindingRules":                            "berth has no authentication yet",
	"ACLIdentity":                                "berth has no authentication yet",
	"ACLPolicies":                                "berth has no authentication yet",
	"ACLRoles":                                   "berth has no authentication yet",
	"ACLTokens":                                  "berth has no authentication yet",
	"Agent.CPUProfile":                           "profiles are at /debug/pprof, if the operator turns it on",
	"Agent.Lookup":                               "profiles are at /debug/pprof, if the operator turns it on",
	"Agent.Trace":                                "profiles are at /debug/pprof, if the operator turns it on",
	"Agent.GetSchedulerWorkerConfig":             "one loop of the leader processes all evaluations",
	"Agent.GetSchedulerWorkersInfo":              "one loop of the leader processes all evaluations",
	"Agent.SetSchedulerWorkerConfig":             "one loop of the leader processes all evaluations",
	"Agent.Host":                                 "it would show the environment of the agent",
	"Agent.InstallKey":                           "gossip is not encrypted yet",
	"Agent.ListKeys":                             "gossip is not encrypted yet",
	"Agent.RemoveKey":                            "gossip is not encrypted yet",
	"Agent.UseKey":                               "gossip is not encrypted yet",
	"Agent.Join":                                 "servers join by retry_join in their configuration",
	"Agent.SetServers":                           "nodes learn the servers from each heartbeat",
	"Agent.Reload":                               "an agent reads its configuration again at SIGHUP",
	"Allocations.GetPauseState":                  "the dialect's enterprise edition",
	"Allocations.SetPauseState":                  "the dialect's enterprise edition",
	"CSIVolumes":                                 "berth does not call plugins for snapshots yet",
	"Evaluations":                                "ended evaluations are counted by lists and deleted after a time",
	"HostVolumes":                                "host volumes are those in the configuration of nodes",
	"Jobs.TagVersion":                            "versions have no tags",
	"Jobs.TagVersionOpts":                        "versions have no tags",
	"Jobs.UntagVersion":                          "versions have no tags",
	"Keyring":                                    "berth encrypts no variables",
	"Nodes.GC":                                   "berth alloc gc removes the directory of one allocation",
	"Operator.ApplyLicense":                      "berth has no licence keys",
	"Operator.LicenseGet":                        "berth has no licence keys",
	"Operator.LicensePut":                        "berth has no licence keys",
	"Operator.AutopilotCASConfiguration":         "dead servers are removed by an operator",
	"Operator.AutopilotGetConfiguration":         "dead servers are removed by an operator",
	"Operator.AutopilotServerHealth":             "dead servers are removed by an operator",
	"Operator.AutopilotSetConfiguration":         "dead servers are removed by an operator",
	"Operator.RaftTransferLeadershipByAddress":   "a server gives its leadership up as it leaves",
	"Operator.RaftTransferLeadershipByID":        "a server gives its leadership up as it leaves",
	"Operator.UpgradeCheckVaultWorkloadIdentity": "berth has no Vault",
	"Operator.Utilization":                       "the dialect's enterprise edition",
	"Quotas":                                     "the dialect's enterprise edition",
	"Recommendations":                            "the dialect's enterprise edition",
	"SentinelPolicies":                           "the dialect's enterprise edition",
	"Services":                                   "berth has no services yet",
	"System":                                     "summaries are computed when they are read",
	"TaskGroupHostVolumeClaims":                  "host volumes are those in the configuration of nodes",
}

// reasonOf returns why berth has no route for a call, "" if nobody has said it.
func reasonOf(call string) string {
	noun, _, _ := strings.Cut(call, ".")
	reason, known := withoutRoute[call]
	if !known {
		reason = withoutRoute[noun]
	}
	return reason
}

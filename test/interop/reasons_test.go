package interop

import "strings"

// The reasons of calls that do not count.
const (
	enterprise      = "the dialect's enterprise edition"
	introductions   = "a machine joins by a token of berth node join-token create"
	noAccessControl = "access control is off in the cluster of the calls"
)

// withoutRoute tells why berth does not serve a call of the public client, by its handle or by its name.
var withoutRoute = map[string]string{
	"ACLAuth":                                    noAccessControl,
	"ACLIdentity":                                introductions,
	"ACLTokens.BootstrapOpts":                    "Bootstrap has made the first token",
	"ACLTokens.ExchangeOneTimeToken":             noAccessControl,
	"ACLTokens.UpsertOneTimeToken":               noAccessControl,
	"ACLTokens.Upload":                           "the servers draw the secret of a token: nobody uploads one",
	"Agent.SetSchedulerWorkerConfig":             "one loop of the leader processes all evaluations",
	"Agent.SetServers":                           "nodes learn the servers from each heartbeat",
	"ACLOIDC":                                    noAccessControl,
	"Nodes.Identity":                             "the agents of the calls have no TLS certificates",
	"Allocations.GetPauseState":                  enterprise,
	"Allocations.SetPauseState":                  enterprise,
	"HostVolumes.Register":                       "a directory that exists is one of the configuration of its node",
	"Nodes.GcAlloc":                              "the client reads an empty answer alone, where Allocations.GC reads no empty one",
	"Operator.ApplyLicense":                      enterprise,
	"Operator.LicenseGet":                        enterprise,
	"Operator.LicensePut":                        enterprise,
	"Operator.UpgradeCheckVaultWorkloadIdentity": "berth knows no older way of logins at Vault",
	"Operator.Utilization":                       enterprise,
	"Recommendations":                            enterprise,
	"SentinelPolicies":                           enterprise,
	"Services.Delete":                            "the node of the instance runs, and would register it again",
}

// reasonOf returns why berth does not serve a call, "" if nobody has said it.
func reasonOf(call string) string {
	for name := call; name != ""; {
		if reason, known := withoutRoute[name]; known {
			return reason
		}
		dot := strings.LastIndexByte(name, '.')
		name = name[:max(dot, 0)]
	}
	return ""
}

// notWorking has the outcomes of rows that do not count. An empty answer is right, because berth does not
// have such things. A rejected call has a row because it needs an object to be rejected for.
var notWorking = map[string]string{
	"Nodes.GcAlloc":        "rejected",
	"Nodes.Identity.Get":   "rejected",
	"Nodes.Identity.Renew": "rejected",
	"Services.Delete":      "rejected",
}

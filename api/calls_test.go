package api_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"berth/api"
	accessapi "berth/api/access"
	"berth/api/allocs"
	"berth/api/events"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/volumes"
)

// calls has all calls of the client by their names.
var calls = map[string]any{
	"api.OpenExec":                        api.OpenExec,
	"access.AdmissionRule":                accessapi.AdmissionRule,
	"access.AdmissionRules":               accessapi.AdmissionRules,
	"access.AuthMethod":                   accessapi.AuthMethod,
	"access.AuthMethods":                  accessapi.AuthMethods,
	"access.AuthURL":                      accessapi.AuthURL,
	"access.BindingRule":                  accessapi.BindingRule,
	"access.BindingRules":                 accessapi.BindingRules,
	"access.Bootstrap":                    accessapi.Bootstrap,
	"access.CompleteAuth":                 accessapi.CompleteAuth,
	"access.CreateAuthMethod":             accessapi.CreateAuthMethod,
	"access.DeleteAdmissionRule":          accessapi.DeleteAdmissionRule,
	"access.DeleteAuthMethod":             accessapi.DeleteAuthMethod,
	"access.DeleteBindingRule":            accessapi.DeleteBindingRule,
	"access.DeletePolicy":                 accessapi.DeletePolicy,
	"access.DeleteQuota":                  accessapi.DeleteQuota,
	"access.DeleteRole":                   accessapi.DeleteRole,
	"access.DeleteToken":                  accessapi.DeleteToken,
	"access.Discover":                     accessapi.Discover,
	"access.ExchangeOneTime":              accessapi.ExchangeOneTime,
	"access.IdentityKeySet":               accessapi.IdentityKeySet,
	"access.Login":                        accessapi.Login,
	"access.MakeOneTime":                  accessapi.MakeOneTime,
	"access.Policies":                     accessapi.Policies,
	"access.Policy":                       accessapi.Policy,
	"access.PutAdmissionRule":             accessapi.PutAdmissionRule,
	"access.PutBindingRule":               accessapi.PutBindingRule,
	"access.PutPolicy":                    accessapi.PutPolicy,
	"access.PutQuota":                     accessapi.PutQuota,
	"access.PutRole":                      accessapi.PutRole,
	"access.PutToken":                     accessapi.PutToken,
	"access.Quota":                        accessapi.Quota,
	"access.QuotaUsage":                   accessapi.QuotaUsage,
	"access.QuotaUsages":                  accessapi.QuotaUsages,
	"access.Quotas":                       accessapi.Quotas,
	"access.ReadMode":                     accessapi.ReadMode,
	"access.Role":                         accessapi.Role,
	"access.RoleByName":                   accessapi.RoleByName,
	"access.Roles":                        accessapi.Roles,
	"access.SetMode":                      accessapi.SetMode,
	"access.Token":                        accessapi.Token,
	"access.TokenSelf":                    accessapi.TokenSelf,
	"access.Tokens":                       accessapi.Tokens,
	"access.TryAdmissionRule":             accessapi.TryAdmissionRule,
	"access.UpdateAuthMethod":             accessapi.UpdateAuthMethod,
	"access.Variable":                     accessapi.Variable,
	"access.Variables":                    accessapi.Variables,
	"access.WriteVariable":                accessapi.WriteVariable,
	"allocs.Cat":                          allocs.Cat,
	"allocs.GC":                           allocs.GC,
	"allocs.GCNode":                       allocs.GCNode,
	"allocs.Get":                          allocs.Get,
	"allocs.List":                         allocs.List,
	"allocs.ListChecks":                   allocs.ListChecks,
	"allocs.ListFiles":                    allocs.ListFiles,
	"allocs.ListServices":                 allocs.ListServices,
	"allocs.Logs":                         allocs.Logs,
	"allocs.ReadAt":                       allocs.ReadAt,
	"allocs.Restart":                      allocs.Restart,
	"allocs.Signal":                       allocs.Signal,
	"allocs.StatFile":                     allocs.StatFile,
	"allocs.Stats":                        allocs.Stats,
	"allocs.Stop":                         allocs.Stop,
	"allocs.StreamFile":                   allocs.StreamFile,
	"events.Open":                         events.Open,
	"jobs.AllocationsOf":                  jobs.AllocationsOf,
	"jobs.ApplyTag":                       jobs.ApplyTag,
	"jobs.CountEvaluations":               jobs.CountEvaluations,
	"jobs.DeleteEvaluations":              jobs.DeleteEvaluations,
	"jobs.DeleteService":                  jobs.DeleteService,
	"jobs.DeploymentsOf":                  jobs.DeploymentsOf,
	"jobs.Deregister":                     jobs.Deregister,
	"jobs.Dispatch":                       jobs.Dispatch,
	"jobs.Evaluate":                       jobs.Evaluate,
	"jobs.EvaluationsOf":                  jobs.EvaluationsOf,
	"jobs.FailDeployment":                 jobs.FailDeployment,
	"jobs.FilterEvaluations":              jobs.FilterEvaluations,
	"jobs.ForcePeriodic":                  jobs.ForcePeriodic,
	"jobs.Get":                            jobs.Get,
	"jobs.GetDeployment":                  jobs.GetDeployment,
	"jobs.GetEvaluation":                  jobs.GetEvaluation,
	"jobs.GetScalingPolicy":               jobs.GetScalingPolicy,
	"jobs.GetService":                     jobs.GetService,
	"jobs.GetSubmission":                  jobs.GetSubmission,
	"jobs.LatestDeployment":               jobs.LatestDeployment,
	"jobs.List":                           jobs.List,
	"jobs.ListActions":                    jobs.ListActions,
	"jobs.ListDeploymentAllocations":      jobs.ListDeploymentAllocations,
	"jobs.ListDeployments":                jobs.ListDeployments,
	"jobs.ListEvaluationAllocations":      jobs.ListEvaluationAllocations,
	"jobs.ListEvaluations":                jobs.ListEvaluations,
	"jobs.ListScalingPolicies":            jobs.ListScalingPolicies,
	"jobs.ListServices":                   jobs.ListServices,
	"jobs.ListStatuses":                   jobs.ListStatuses,
	"jobs.ListVersions":                   jobs.ListVersions,
	"jobs.OpenAction":                     jobs.OpenAction,
	"jobs.Parse":                          jobs.Parse,
	"jobs.PauseDeployment":                jobs.PauseDeployment,
	"jobs.Plan":                           jobs.Plan,
	"jobs.PromoteDeployment":              jobs.PromoteDeployment,
	"jobs.Register":                       jobs.Register,
	"jobs.RemoveTag":                      jobs.RemoveTag,
	"jobs.Revert":                         jobs.Revert,
	"jobs.Scale":                          jobs.Scale,
	"jobs.ScaleStatus":                    jobs.ScaleStatus,
	"jobs.ServicesOf":                     jobs.ServicesOf,
	"jobs.SetDeploymentHealth":            jobs.SetDeploymentHealth,
	"jobs.SetStable":                      jobs.SetStable,
	"jobs.SomeStatuses":                   jobs.SomeStatuses,
	"jobs.Summary":                        jobs.Summary,
	"jobs.UnblockDeployment":              jobs.UnblockDeployment,
	"jobs.Validate":                       jobs.Validate,
	"jobs.Why":                            jobs.Why,
	"nodes.ConfirmLost":                   nodes.ConfirmLost,
	"nodes.DeletePool":                    nodes.DeletePool,
	"nodes.Drain":                         nodes.Drain,
	"nodes.DrainStatus":                   nodes.DrainStatus,
	"nodes.Evaluate":                      nodes.Evaluate,
	"nodes.ExtendLease":                   nodes.ExtendLease,
	"nodes.Fence":                         nodes.Fence,
	"nodes.FenceStatus":                   nodes.FenceStatus,
	"nodes.Get":                           nodes.Get,
	"nodes.GetPool":                       nodes.GetPool,
	"nodes.HostStats":                     nodes.HostStats,
	"nodes.List":                          nodes.List,
	"nodes.ListAllocations":               nodes.ListAllocations,
	"nodes.ListFencePins":                 nodes.ListFencePins,
	"nodes.ListForeign":                   nodes.ListForeign,
	"nodes.ListPoolJobs":                  nodes.ListPoolJobs,
	"nodes.ListPoolNodes":                 nodes.ListPoolNodes,
	"nodes.ListPools":                     nodes.ListPools,
	"nodes.PinFence":                      nodes.PinFence,
	"nodes.Purge":                         nodes.Purge,
	"nodes.PutPool":                       nodes.PutPool,
	"nodes.SetEligibility":                nodes.SetEligibility,
	"nodes.TestFence":                     nodes.TestFence,
	"operator.AcceptClock":                operator.AcceptClock,
	"operator.AgentSelfOf":                operator.AgentSelfOf,
	"operator.ApplyNodeMeta":              operator.ApplyNodeMeta,
	"operator.Authorities":                operator.Authorities,
	"operator.AutopilotHealth":            operator.AutopilotHealth,
	"operator.CreateJoinToken":            operator.CreateJoinToken,
	"operator.DeleteJoinToken":            operator.DeleteJoinToken,
	"operator.DeleteNamespace":            operator.DeleteNamespace,
	"operator.DeleteRevocation":           operator.DeleteRevocation,
	"operator.Export":                     operator.Export,
	"operator.ForceLeave":                 operator.ForceLeave,
	"operator.GC":                         operator.GC,
	"operator.GetAutopilotConfig":         operator.GetAutopilotConfig,
	"operator.GetNamespace":               operator.GetNamespace,
	"operator.GetSchedulerConfig":         operator.GetSchedulerConfig,
	"operator.GossipKeyring":              operator.GossipKeyring,
	"operator.Host":                       operator.Host,
	"operator.Join":                       operator.Join,
	"operator.JoinTokens":                 operator.JoinTokens,
	"operator.Leader":                     operator.Leader,
	"operator.Leave":                      operator.Leave,
	"operator.ListClocks":                 operator.ListClocks,
	"operator.ListMembers":                operator.ListMembers,
	"operator.ListNamespaces":             operator.ListNamespaces,
	"operator.Metrics":                    operator.Metrics,
	"operator.Monitor":                    operator.Monitor,
	"operator.NodeIdentity":               operator.NodeIdentity,
	"operator.NodeMeta":                   operator.NodeMeta,
	"operator.Peers":                      operator.Peers,
	"operator.Profile":                    operator.Profile,
	"operator.PutNamespace":               operator.PutNamespace,
	"operator.RaftConfiguration":          operator.RaftConfiguration,
	"operator.ReadAgent":                  operator.ReadAgent,
	"operator.ReadHealth":                 operator.ReadHealth,
	"operator.Reload":                     operator.Reload,
	"operator.RemoveAuthority":            operator.RemoveAuthority,
	"operator.RemovePeer":                 operator.RemovePeer,
	"operator.RemoveRootKey":              operator.RemoveRootKey,
	"operator.RenewNodeIdentity":          operator.RenewNodeIdentity,
	"operator.ReplaceAuthority":           operator.ReplaceAuthority,
	"operator.RequestOperatorCertificate": operator.RequestOperatorCertificate,
	"operator.RestoreSnapshot":            operator.RestoreSnapshot,
	"operator.Revocations":                operator.Revocations,
	"operator.RevokeCertificates":         operator.RevokeCertificates,
	"operator.RootKeys":                   operator.RootKeys,
	"operator.RotateRootKey":              operator.RotateRootKey,
	"operator.SaveSnapshot":               operator.SaveSnapshot,
	"operator.SchedulerConfig":            operator.SchedulerConfig,
	"operator.SchedulerWorkers":           operator.SchedulerWorkers,
	"operator.SearchFuzzy":                operator.SearchFuzzy,
	"operator.SearchPrefix":               operator.SearchPrefix,
	"operator.SetAutopilotConfig":         operator.SetAutopilotConfig,
	"operator.SetSchedulerConfig":         operator.SetSchedulerConfig,
	"operator.TransferLeadership":         operator.TransferLeadership,
	"volumes.ClaimsOf":                    volumes.ClaimsOf,
	"volumes.ClassSpaces":                 volumes.ClassSpaces,
	"volumes.Create":                      volumes.Create,
	"volumes.CreateHostVolume":            volumes.CreateHostVolume,
	"volumes.CreateSnapshot":              volumes.CreateSnapshot,
	"volumes.CreateSnapshotGroup":         volumes.CreateSnapshotGroup,
	"volumes.Delete":                      volumes.Delete,
	"volumes.DeleteClass":                 volumes.DeleteClass,
	"volumes.DeleteExternalSnapshot":      volumes.DeleteExternalSnapshot,
	"volumes.DeleteHostVolume":            volumes.DeleteHostVolume,
	"volumes.DeletePlugin":                volumes.DeletePlugin,
	"volumes.DeleteSchedule":              volumes.DeleteSchedule,
	"volumes.DeleteSnapshot":              volumes.DeleteSnapshot,
	"volumes.DeleteSnapshotGroup":         volumes.DeleteSnapshotGroup,
	"volumes.DeleteStickyClaim":           volumes.DeleteStickyClaim,
	"volumes.Deregister":                  volumes.Deregister,
	"volumes.Detach":                      volumes.Detach,
	"volumes.DriftOfPlugin":               volumes.DriftOfPlugin,
	"volumes.Get":                         volumes.Get,
	"volumes.GetClass":                    volumes.GetClass,
	"volumes.GetHostVolume":               volumes.GetHostVolume,
	"volumes.GetPlugin":                   volumes.GetPlugin,
	"volumes.GetPluginConfig":             volumes.GetPluginConfig,
	"volumes.GetSchedule":                 volumes.GetSchedule,
	"volumes.GetSnapshot":                 volumes.GetSnapshot,
	"volumes.GetSnapshotGroup":            volumes.GetSnapshotGroup,
	"volumes.Label":                       volumes.Label,
	"volumes.List":                        volumes.List,
	"volumes.ListClaims":                  volumes.ListClaims,
	"volumes.ListClasses":                 volumes.ListClasses,
	"volumes.ListDrift":                   volumes.ListDrift,
	"volumes.ListExternal":                volumes.ListExternal,
	"volumes.ListExternalSnapshots":       volumes.ListExternalSnapshots,
	"volumes.ListHostVolumes":             volumes.ListHostVolumes,
	"volumes.ListPlugins":                 volumes.ListPlugins,
	"volumes.ListSchedules":               volumes.ListSchedules,
	"volumes.ListSnapshotGroups":          volumes.ListSnapshotGroups,
	"volumes.ListSnapshots":               volumes.ListSnapshots,
	"volumes.ListStickyClaims":            volumes.ListStickyClaims,
	"volumes.ListUsage":                   volumes.ListUsage,
	"volumes.PauseSchedule":               volumes.PauseSchedule,
	"volumes.PutClass":                    volumes.PutClass,
	"volumes.PutSchedule":                 volumes.PutSchedule,
	"volumes.Register":                    volumes.Register,
	"volumes.ReleaseClaim":                volumes.ReleaseClaim,
	"volumes.Retry":                       volumes.Retry,
	"volumes.SetPluginConfig":             volumes.SetPluginConfig,
	"volumes.Undelete":                    volumes.Undelete,
	"volumes.Usage":                       volumes.Usage,
	"volumes.Why":                         volumes.Why,
}

var callForm = regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(\s*ctx context\.Context, c \*(?:api\.)?Client\b`)

// TestCalls_AreAll reads the calls in the source.
func TestCalls_AreAll(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	own, ownErr := filepath.Glob("*.go")
	if err != nil || ownErr != nil {
		t.Fatal(err, ownErr)
	}
	found := 0
	for _, file := range append(files, own...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		area := filepath.Base(filepath.Dir(file))
		if area == "." {
			area = "api"
		}
		for _, m := range callForm.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "Raw" { // it takes any path
				continue
			}
			found++
			if calls[area+"."+m[1]] == nil {
				t.Errorf("%s.%s is not among the calls that the tests make", area, m[1])
			}
		}
	}
	if found != len(calls) {
		t.Errorf("the source has %d calls, and the list has %d", found, len(calls))
	}
}

// unusual has the calls whose texts are no names, with the reason. Other tests make them.
var unusual = map[string]string{
	"operator.GossipKeyring": "its text is one of four operations",
	"operator.Profile":       "the kind of the profile is a part of the path",
	"volumes.DriftOfPlugin":  "it chooses from the answer itself",
}

// eachCall makes all calls with sample arguments, except the unusual ones. told gets the name, the number of
// texts among the arguments and the error.
func eachCall(ctx context.Context, c *api.Client, told func(name string, texts int, err error)) {
	for name, call := range calls {
		if unusual[name] != "" {
			continue
		}
		f := reflect.ValueOf(call)
		args := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(c)}
		texts := 0
		for i := 2; i < f.Type().NumIn(); i++ {
			if f.Type().In(i).Kind() == reflect.String {
				texts++
			}
			args = append(args, sampleArgument(f.Type().In(i)))
		}
		out := f.Call(args)
		err, _ := out[len(out)-1].Interface().(error)
		told(name, texts, err)
	}
}

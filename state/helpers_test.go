package state_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func saved(t testing.TB, s *state.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func putNode(id string) func(*state.WriteTx) error {
	return func(tx *state.WriteTx) error {
		schema.Nodes.Put(tx, &structs.Node{ID: id})
		return nil
	}
}

// countRows counts the rows of all tables.
func countRows(s *state.Store) (sum int) {
	for _, n := range rowsByTable(s.Read()) {
		sum += n
	}
	return sum
}

func rowsByTable(tx *state.ReadTx) map[string]int {
	counted := map[string]int{}
	count(tx, counted, schema.Nodes)
	count(tx, counted, schema.Plugins)
	count(tx, counted, schema.Instances)
	count(tx, counted, schema.PluginCounts)
	count(tx, counted, schema.Volumes)
	count(tx, counted, schema.Claims)
	count(tx, counted, schema.ClaimQueues)
	count(tx, counted, schema.Attachments)
	count(tx, counted, schema.JobVersions)
	count(tx, counted, schema.Jobs)
	count(tx, counted, schema.Allocs)
	count(tx, counted, schema.Evals)
	count(tx, counted, schema.Unblocks)
	count(tx, counted, schema.JobSubmissions)
	count(tx, counted, schema.SchedulerConfig)
	count(tx, counted, schema.Namespaces)
	count(tx, counted, schema.NodePools)
	count(tx, counted, schema.Deployments)
	count(tx, counted, schema.PeriodicLaunches)
	count(tx, counted, schema.EvalAllocs)
	count(tx, counted, schema.ScalingEvents)
	count(tx, counted, schema.SITokens)
	count(tx, counted, schema.ClusterMetadata)
	count(tx, counted, schema.LeaseBounds)
	count(tx, counted, schema.NodeLeases)
	count(tx, counted, schema.AutopilotConfig)
	count(tx, counted, schema.FenceRuns)
	count(tx, counted, schema.FenceOrders)
	count(tx, counted, schema.FencePins)
	count(tx, counted, schema.PluginConfigs)
	count(tx, counted, schema.RootKeys)
	count(tx, counted, safes)
	count(tx, counted, schema.SecretsMarks)
	count(tx, counted, schema.Variables)
	count(tx, counted, schema.Authorities)
	count(tx, counted, schema.JoinTokens)
	count(tx, counted, schema.Certificates)
	count(tx, counted, schema.Revocations)
	count(tx, counted, schema.ACLPolicies)
	count(tx, counted, schema.ACLRoles)
	count(tx, counted, schema.ACLTokens)
	count(tx, counted, schema.ACLMethodTokens)
	count(tx, counted, schema.ACLBootstraps)
	count(tx, counted, schema.ACLModes)
	count(tx, counted, schema.SigningKeys)
	count(tx, counted, schema.AdmissionRules)
	count(tx, counted, schema.ACLAuthMethods)
	count(tx, counted, schema.ACLBindingRules)
	count(tx, counted, schema.ACLLoginMarks)
	count(tx, counted, schema.ACLOneTimeTokens)
	count(tx, counted, schema.Quotas)
	count(tx, counted, schema.QuotaUses)
	count(tx, counted, schema.VolumeClasses)
	count(tx, counted, schema.Exhausted)
	count(tx, counted, schema.Snapshots)
	count(tx, counted, schema.Drifts)
	count(tx, counted, schema.DriftSummaries)
	count(tx, counted, schema.Health)
	count(tx, counted, schema.SnapshotSchedules)
	count(tx, counted, schema.SnapshotGroups)
	count(tx, counted, schema.HostClaims)
	count(tx, counted, schema.ClusterTimes)
	count(tx, counted, schema.ACLDeletedTokens)
	count(tx, counted, schema.WrongClocks)
	if len(counted) != len(schema.All.Tables) {
		panic("a table of the schema is not counted")
	}
	return counted
}

func count[R mvcc.Record](tx *state.ReadTx, counted map[string]int, t *mvcc.Table[R]) {
	counted[t.Name()] = 0
	for range t.Scan(tx) {
		counted[t.Name()]++
	}
}

// wakesReader reports whether a change ends the wait of a reader. It runs in a synctest bubble.
func wakesReader(
	s *state.Store, tx *state.ReadTx, read func(*state.ReadTx), write func(*state.WriteTx) error,
) bool {
	ctx, cancel := context.WithCancel(context.Background())
	read(tx)
	woke := make(chan error, 1)
	go func() { woke <- s.Wait(ctx, tx) }()
	synctest.Wait()
	_ = s.Write(s.Index()+1, write)
	synctest.Wait()
	cancel()
	return <-woke == nil
}

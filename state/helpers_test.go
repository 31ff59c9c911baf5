package state

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"berth/internal/mvcc"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func saved(t testing.TB, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func putNode(id string) func(*WriteTx) error {
	return func(tx *WriteTx) error {
		nodes.Put(tx, &structs.Node{ID: id})
		return nil
	}
}

// countRows counts the rows of all tables.
func countRows(s *Store) (sum int) {
	for _, n := range rowsByTable(s.Read()) {
		sum += n
	}
	return sum
}

func rowsByTable(tx *ReadTx) map[string]int {
	counted := map[string]int{}
	count(tx, counted, nodes)
	count(tx, counted, plugins)
	count(tx, counted, instances)
	count(tx, counted, counts)
	count(tx, counted, volumes)
	count(tx, counted, claims)
	count(tx, counted, claimQueues)
	count(tx, counted, attachments)
	count(tx, counted, jobVersions)
	count(tx, counted, jobs)
	count(tx, counted, allocs)
	count(tx, counted, evals)
	count(tx, counted, unblocks)
	count(tx, counted, jobSubmissions)
	count(tx, counted, schedulerConfig)
	count(tx, counted, namespaces)
	count(tx, counted, nodePools)
	count(tx, counted, deployments)
	count(tx, counted, periodicLaunches)
	count(tx, counted, evalAllocs)
	count(tx, counted, scalingEvents)
	count(tx, counted, siTokens)
	count(tx, counted, clusterMetadata)
	count(tx, counted, leaseBounds)
	count(tx, counted, nodeLeases)
	count(tx, counted, autopilotConfig)
	count(tx, counted, fenceRuns)
	count(tx, counted, fenceOrders)
	count(tx, counted, pluginConfigs)
	count(tx, counted, rootKeys)
	count(tx, counted, safes)
	count(tx, counted, secretsMarks)
	count(tx, counted, variables)
	count(tx, counted, authorities)
	count(tx, counted, joinTokens)
	count(tx, counted, certificates)
	count(tx, counted, revocations)
	if len(counted) != len(allTables.Tables) {
		panic("a table of the schema is not counted")
	}
	return counted
}

func count[R mvcc.Record](tx *ReadTx, counted map[string]int, t *mvcc.Table[R]) {
	counted[t.Name()] = 0
	for range t.Scan(tx) {
		counted[t.Name()]++
	}
}

// wakesReader reports whether a change ends the wait of a reader. It runs in a synctest bubble.
func wakesReader(s *Store, tx *ReadTx, read func(*ReadTx), write func(*WriteTx) error) bool {
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

package state_test

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/lease"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/cluster"
	"berth/structs/quota"
	"berth/structs/storage"
	"berth/tools/codecgen"
)

// fullFixture returns a fixture with rows in every table.
func fullFixture(t testing.TB) *fixture {
	w := threeNodes(t, true)
	w.Job(aJob("plugin", structs.JobSystem, "p"))
	w.source(1, "text")
	do(w, state.SchedulerConfigSet, setConfig(0, "spread"))
	w.Claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		WriteOptions: w.Now(),
		Evals: []*structs.Evaluation{{
			ID:            "blocked",
			JobID:         "j",
			Status:        structs.EvalBlocked,
			BlockedOn:     []string{structs.WakeCapacity},
			SnapshotIndex: w.Index,
		}},
	})
	w.ApplyNamespace(&cluster.Namespace{Name: "prod"})
	bounds := []*quota.Limit{{Region: "global", RegionLimit: &quota.Bounds{Allocations: 3}}}
	do(w, namespace.QuotaPut, &quota.SpecPutRequest{Quota: &quota.Spec{Name: "team", Limits: bounds}})
	w.ApplyNamespace(&cluster.Namespace{Name: "prod", Quota: "team"})
	do(w, state.NodePoolApply, &cluster.NodePoolApplyRequest{Pool: &cluster.NodePool{Name: "gpu"}})
	w.deployment("d", "j")
	w.Job(periodicJob("nightly", "@daily"))
	w.scale("j", 2)
	do(w, trust.SITokensRegister, w.Tokens("a1", [2]string{"proxy", "x"}))
	do(w, lease.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: 20 * time.Second})
	do(w, lease.NodeLeaseSet, &cluster.NodeLeaseRequest{NodeID: "n1", Length: time.Hour})
	do(w, state.AutopilotConfigSet, &cluster.AutopilotConfigRequest{Config: cluster.DefaultAutopilotConfig()})
	w.Node("lost")
	w.Status(structs.NodeDown, "lost")
	word := &cluster.NodeFenceRequest{NodeID: "lost", By: "ann", Why: "it burns", WriteOptions: w.Now()}
	do(w, state.ConfirmLost, word)
	do(w, state.FenceOrdered, word)
	do(w, state.FencePinsChange, &cluster.NodeFencePinRequest{
		NodeID: "lost", Pins: map[string]string{"bmc": "10.0.9.17"}, By: "ann", WriteOptions: w.Now(),
	})
	do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", OnNodeLoss: structs.LossFence})
	w.RootKey("k", "", false)
	w.RootKey("one", "k", false)
	w.safe("a", "one", "x")
	do(w, trust.SecretsSealed, &cluster.SecretsSealedRequest{Now: 1})
	do(w, state.VariablePut, aVariable("app/db"))
	do(w, trust.AuthoritySet, anAuthority("ca"))
	do(w, trust.JoinTokenPut, aJoinToken("t", 2))
	do(w, trust.MachineCertificateSet, aCertificate("t", "joined", "k"))
	do(w, trust.Revoke, revokeNode("n9", 7))
	addAccess(w)
	addLogins(w)
	return w
}

// addAccess adds a row to each table of access control.
func addAccess(w *fixture) {
	do(w, state.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{Name: "read", Rules: "rules"}})
	do(w, state.RolePut, &access.RolePutRequest{Role: &access.Role{
		ID: "r", Name: "readers", Policies: []*access.PolicyLink{{Name: "read"}},
	}})
	do(w, state.ACLBootstrap, &access.BootstrapChange{Token: &access.Token{
		AccessorID: "root", SecretHash: []byte("hash"), Type: access.TypeManagement,
	}})
	do(w, state.ACLModeChange, &access.ModeChange{Mode: access.ModeEnforce})
	do(w, state.AdmissionRulePut, &admission.RulePutRequest{Rule: &admission.Rule{
		Name: "r", On: admission.OnJob, Mode: admission.ModeDeny, Expression: "true", Message: "m",
	}})
	do(w, trust.SigningKeyAdd, &access.KeyAddRequest{Key: &access.SigningKey{
		KeyID: "s", Algorithm: access.KeyEdDSA, PublicKey: []byte("public"), Private: &structs.Sealed{KeyID: "k"},
	}})
	do(w, csi.ClassPut, &storage.ClassPutRequest{
		Class: &storage.VolumeClass{Name: "fast", PluginID: "p", Default: true},
	})
	do(w, csi.DriftRecord, &storage.DriftRecordRequest{
		PluginID: "p",
		Found: []*storage.VolumeDrift{{
			PluginID: "p", Kind: storage.DriftMissingVolume, ExternalID: "x", Namespace: "default", VolumeID: "v",
		}},
		Summary: &storage.DriftSummary{PluginID: "p", Counts: map[string]int{storage.DriftMissingVolume: 1}},
	})
	w.Index++
	err := w.Store.Write(w.Index, func(tx *state.WriteTx) error {
		schema.Health.Put(tx, &storage.VolumeHealth{
			Namespace: "default", VolumeID: "v", PluginID: "p", ExternalID: "x",
			Condition: &storage.VolumeCondition{Abnormal: true, Message: "m", Statuses: []*structs.CSIHealth{
				{Status: "DEGRADED", Reason: "Slow"},
			}},
		})
		csi.NoteExhaustion(tx, &structs.CSIVolume{
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", Class: "fast", RequestedCapacityMin: 1},
		}, 1)
		schema.Snapshots.Put(tx, &storage.VolumeSnapshot{
			Namespace: "default", Name: "g-v", VolumeID: "v", PluginID: "p", Group: "g",
			Progress: storage.Progress{State: storage.SnapshotFailed},
		})
		schema.SnapshotGroups.Put(tx, &storage.GroupSnapshot{
			Namespace: "default", Name: "g", PluginID: "p", VolumeIDs: []string{"v"},
			Progress: storage.Progress{State: storage.SnapshotFailed},
		})
		schema.SnapshotSchedules.Put(tx, &storage.SnapshotSchedule{
			Namespace: "default", Name: "s", VolumeID: "v", Crons: []string{"@daily"}, Keep: 1,
		})
		host := schema.Volumes.Get(tx, "default", "v").Copy()
		host.ID = "hv"
		host.Name = "hv"
		host.ExternalID = ""
		host.State = structs.VolumeFailed
		host.Host = &structs.CSIHost{Name: "data", NodeID: "n"}
		schema.Volumes.Put(tx, host)
		schema.HostClaims.Put(tx, &storage.TaskGroupHostVolumeClaim{
			ID: "c", Namespace: "default", JobID: "j", AllocID: "gone", VolumeID: "hv", VolumeName: "data",
		})
		schema.ClusterTimes.Put(tx, &cluster.ClusterTime{
			Time: 7, Ahead: time.Hour, Since: 5, Agreed: 6, Jumps: []cluster.ClockJump{{Since: 1, At: 2, By: 3}},
		})
		schema.ACLDeletedTokens.Put(tx, &access.DeletedToken{AccessorID: "t", Time: 1, End: 2})
		schema.WrongClocks.Put(tx, &cluster.WrongClock{ServerID: "s", Server: "s.global", Ahead: time.Hour})
		return nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

func TestSnapshot_HasEveryTable(t *testing.T) {
	w := fullFixture(t)
	for table, n := range rowsByTable(w.Store.Read()) {
		if n == 0 {
			t.Errorf("table %s is empty, so the test does not cover it", table)
		}
	}
	first := saved(t, w.Store)
	other := state.New()
	_ = other.Write(99, putNode("replaced"))
	if err := other.Load(bytes.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, saved(t, other)) {
		t.Error("the bytes differ after a save, a load and a save")
	}
	if other.Index() != w.Index || state.Node(other.Read(), "replaced") != nil {
		t.Errorf("the store is at index %d, want %d, or it has a row of before", other.Index(), w.Index)
	}
	if faults := state.Check(other.Read()); faults != nil {
		t.Errorf("the loaded rows have faults: %v", faults)
	}
	// The indexes are also loaded: the store continues like the old one.
	for _, s := range []*state.Store{w.Store, other} {
		if err := s.Write(w.Index+1, func(tx *state.WriteTx) error {
			return state.VolumeUnpublish(tx,
				&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{
					Namespace: "default",
					VolumeID:  "v",
					AllocID:   "a1",
				}}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(saved(t, w.Store), saved(t, other)) {
		t.Error("the stores differ after the same entry")
	}
}

// TestSchema_RowsAreWireTypes holds rows in the wire packages, because a golden file lists their fields.
// Those of computed tables are in no file. The table store has one row of its own.
func TestSchema_RowsAreWireTypes(t *testing.T) {
	for _, table := range schema.Tables() {
		pkg, _, _ := strings.Cut(table.RowType(), ".")
		known := table.RowType() == "mvcc.TableIndex" || slices.ContainsFunc(codecgen.WirePackages,
			func(folder string) bool { return path.Base(folder) == pkg })
		if !table.IsComputed() && !known {
			t.Errorf("the rows of table %s are of type %s", table.Name(), table.RowType())
		}
	}
}

// TestLoad_KeepsTheBytesOfAnEarlierFile, which has rows in every table of its version.
func TestLoad_KeepsTheBytesOfAnEarlierFile(t *testing.T) {
	file, err := os.ReadFile("testdata/snapshot_v1.bin")
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	if err := s.Load(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if faults := state.Check(s.Read()); faults != nil {
		t.Error(faults)
	}
	later := []string{
		schema.JobSubmissions.Name(), schema.SchedulerConfig.Name(), schema.Namespaces.Name(),
		schema.NodePools.Name(), schema.Deployments.Name(),
		schema.PeriodicLaunches.Name(), schema.ScalingEvents.Name(), schema.SITokens.Name(),
		schema.ClusterMetadata.Name(),
		schema.LeaseBounds.Name(), schema.NodeLeases.Name(), schema.AutopilotConfig.Name(),
		schema.FenceRuns.Name(), schema.FenceOrders.Name(), schema.FencePins.Name(),
		schema.PluginConfigs.Name(), schema.RootKeys.Name(), safes.Name(), schema.SecretsMarks.Name(),
		schema.Variables.Name(), schema.Authorities.Name(), schema.JoinTokens.Name(), schema.Certificates.Name(),
		schema.Revocations.Name(), schema.ACLPolicies.Name(), schema.ACLRoles.Name(), schema.ACLTokens.Name(),
		schema.ACLMethodTokens.Name(),
		schema.ACLBootstraps.Name(), schema.ACLModes.Name(),
		schema.SigningKeys.Name(), schema.AdmissionRules.Name(),
		schema.Quotas.Name(), schema.QuotaUses.Name(),
		schema.ACLAuthMethods.Name(), schema.ACLBindingRules.Name(),
		schema.ACLLoginMarks.Name(), schema.ACLOneTimeTokens.Name(), schema.VolumeClasses.Name(),
		schema.Drifts.Name(), schema.DriftSummaries.Name(), schema.Health.Name(),
		schema.Exhausted.Name(), schema.Snapshots.Name(), schema.SnapshotSchedules.Name(),
		schema.SnapshotGroups.Name(),
		schema.HostClaims.Name(), schema.ClusterTimes.Name(), schema.WrongClocks.Name(),
		schema.ACLDeletedTokens.Name(),
	}
	for table, n := range rowsByTable(s.Read()) {
		if n == 0 && !slices.Contains(later, table) {
			t.Errorf("table %s is empty, so the test does not cover it", table)
		}
	}
	if !bytes.Equal(saved(t, s), file) {
		t.Error("the bytes of the file differ after a load and a save")
	}
}

func TestLoad_RejectsAnIncompleteJob(t *testing.T) {
	for _, groups := range [][]*structs.TaskGroup{
		{nil},
		{{Name: "g", Tasks: []*structs.Task{nil}}},
	} {
		j := &structs.Job{
			ID:         "j",
			Namespace:  "default",
			TaskGroups: groups,
		}
		for name, put := range map[string]func(*state.WriteTx){
			"jobs":         func(tx *state.WriteTx) { schema.Jobs.Put(tx, j) },
			"job_versions": func(tx *state.WriteTx) { schema.JobVersions.Put(tx, j) },
		} {
			s := state.New()
			_ = s.Write(1, func(tx *state.WriteTx) error {
				put(tx)
				schema.Allocs.Put(tx, &structs.Allocation{
					ID:        "a",
					Namespace: "default",
					JobID:     "j",
					TaskGroup: "g",
				})
				return nil
			})
			err := state.New().Load(bytes.NewReader(saved(t, s)))
			if !structs.IsKind(err, structs.KindInvalid) ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("got error %v, want one that names table %s", err, name)
			}
		}
	}
}

// FuzzLoad checks that no bytes make Load panic, and that Save writes every loaded state.
func FuzzLoad(f *testing.F) {
	f.Add(saved(f, fullFixture(f).Store))
	f.Add(saved(f, state.New()))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := state.New()
		if s.Load(bytes.NewReader(in)) == nil {
			_ = state.Check(s.Read())
			saved(t, s)
		}
	})
}

package fsm

import (
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/internal/level"
	"berth/state"
	"berth/structs"
)

// TestCommands_HaveTheLevelOfTheirRelease holds the level of each command: a server of a lower level stops at
// an entry of it.
func TestCommands_HaveTheLevelOfTheirRelease(t *testing.T) {
	newer := map[string]int{ // the commands that are newer than the first release
		"LeaseBoundSet":      2,
		"NodeLeaseSet":       2,
		"AutopilotConfigSet": 2,
		"ClusterTimeSet":     2,
		"NodeLeave":          2,
		"NodeLeftovers":      2,
		"JobTag":             2,
		"JobUntag":           2,
		"ServiceDelete":      2,
		"FenceBegin":         2,
		"FenceEnd":           2,
		"FenceOrdered":       2,
		"FencePins":          2,
		"ConfirmLost":        2,
		"LeaseProof":         2,
		"PluginConfigSet":    2,
		"RootKeyAdd":         2,
		"RootKeyRekeyed":     2,
		"RootKeyRemove":      2,
		"RootKeyRewrap":      2,
		"Reseal":             2,
		"SecretsSeal":        2,
		"SecretsSealed":      2,
		"VariablePut":        2,
		"VariableDelete":     2,
		"VariableLock":       2,
		"VariableUnlock":     2,
		"VariableLockExpire": 2,

		"AuthoritySet":          2,
		"JoinTokenPut":          2,
		"JoinTokenDelete":       2,
		"MachineCertificateSet": 2,
		"Revoke":                2,
		"Unrevoke":              2,
		"AuthorityRemove":       2,

		"ACLBootstrap":    2,
		"ACLMode":         2,
		"ACLPolicyPut":    2,
		"ACLPolicyDelete": 2,
		"ACLRolePut":      2,
		"ACLRoleDelete":   2,
		"ACLTokenPut":     2,
		"ACLTokenDelete":  2,
		"ACLTokensExpire": 2,

		"SigningKeyAdd":      2,
		"SigningKeyActivate": 2,
		"SigningKeyRemove":   2,

		"AdmissionRulePut":       2,
		"AdmissionRuleDelete":    2,
		"ACLAuthMethodPut":       2,
		"ACLAuthMethodDelete":    2,
		"ACLBindingRulePut":      2,
		"ACLBindingRuleDelete":   2,
		"ACLLogin":               2,
		"ACLOneTime":             2,
		"QuotaPut":               2,
		"QuotaDelete":            2,
		"VolumeClassPut":         2,
		"VolumeClassDelete":      2,
		"SnapshotPut":            2,
		"SnapshotDelete":         2,
		"SnapshotNote":           2,
		"SnapshotOutcome":        2,
		"DriftRecord":            2,
		"DriftRepair":            2,
		"HealthRecord":           2,
		"VolumeUndelete":         2,
		"VolumeReclaim":          2,
		"VolumeSpace":            2,
		"VolumeGrow":             2,
		"SnapshotGroupPut":       2,
		"SnapshotGroupDelete":    2,
		"SnapshotGroupNote":      2,
		"SnapshotGroupOutcome":   2,
		"SnapshotSchedulePut":    2,
		"SnapshotScheduleDelete": 2,
		"SnapshotScheduleRun":    2,
		"SnapshotSchedulePause":  2,
		"HostVolumeClaimDelete":  2,
	}
	for _, c := range commands {
		want := level.First
		if of, ok := newer[c.Name]; ok {
			want = of
		}
		if c.Level != want || c.Level > level.Now {
			t.Errorf("%s has level %d, want %d; this version has %d", c.Name, c.Level, want, level.Now)
		}
	}
	for _, entry := range [][]byte{nil, {250}} {
		if got := CommandOf(entry); got.ID != 0 || got.Level != 0 || got.Batched {
			t.Errorf("entry %v: got command %+v, want none", entry, got)
		}
	}
}

// TestCommands_MayShareABatch lists the commands that share entries.
func TestCommands_MayShareABatch(t *testing.T) {
	want := map[string]bool{}
	for _, name := range strings.Fields("NodeRegister NodeStatus NodeUpdateCSI JobRegister EvalUpdate " +
		"PlanApply AllocsClientUpdate VolumePut VolumeOutcome VolumeClaim VolumeUnpublish " +
		"AttachmentOutcome SITokensRegister SITokensDeregister") {
		want[name] = true
	}
	for _, c := range commands {
		if c.Batched != want[c.Name] {
			t.Errorf("%s may share a batch: %v, want %v", c.Name, c.Batched, want[c.Name])
		}
	}
}

// newerPayload is a payload with a field of a later release.
type newerPayload struct {
	Name  string
	Bound int `level:"2"`
	Hint  int `level:"2" older:"drop"`
}

// aCommand lists another command for the time of a test.
func aCommand(t *testing.T, options ...func(*CommandInfo)) Command[newerPayload] {
	t.Helper()
	listed := commands
	t.Cleanup(func() { commands = listed })
	apply := func(*state.WriteTx, *newerPayload) error { return nil }
	return command(255, "Newer", apply, options...)
}

func TestFitLevel_NamesWhatAServerDoesNotKnow(t *testing.T) {
	newer := []func(*CommandInfo){since(2)}
	for name, c := range map[string]struct {
		options []func(*CommandInfo)
		payload newerPayload
		least   int
		want    string
	}{
		"servers without a level": {nil, newerPayload{Name: "x"}, 0, "the command Newer needs level 1"},
		"a newer command":         {newer, newerPayload{Name: "x"}, 1, "the command Newer needs level 2"},
		"one that they know":      {newer, newerPayload{Name: "x", Bound: 1}, 2, ""},
		"a newer field":           {nil, newerPayload{Bound: 1}, 1, "Bound needs level 2"},
		"a field that is not set": {nil, newerPayload{Name: "x"}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			entry, err := aCommand(t, c.options...).Encode(&c.payload)
			if err != nil {
				t.Fatal(err)
			}
			_, err = FitLevel(entry, c.least)
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" && (!structs.IsKind(err, structs.KindPrecondition) ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A hint of the leader reaches the log once all servers know it, and the entry does so before.
func TestFitLevel_DropsWhatAnOlderServerNeedNotKnow(t *testing.T) {
	c := aCommand(t)
	for least, want := range map[int]newerPayload{1: {Name: "x"}, 2: {Name: "x", Hint: 1}} {
		entry, err := c.Encode(&newerPayload{Name: "x", Hint: 1})
		if err != nil {
			t.Fatal(err)
		}
		entry, err = FitLevel(entry, least)
		var got newerPayload
		if err == nil {
			err = codec.Decode(entry[1:], &got)
		}
		if err != nil || entry[0] != c.ID || got != want {
			t.Errorf("level %d: %+v, %v", least, got, err)
		}
	}
}

// A damaged entry is not proposed beside an older server: its fields are not known.
func TestFitLevel_RejectsAnEntryThatItCannotRead(t *testing.T) {
	c := aCommand(t)
	if _, err := FitLevel([]byte{c.ID, 0xc1}, 1); structs.KindOf(err) != structs.KindInternal {
		t.Errorf("got %v", err)
	}
}

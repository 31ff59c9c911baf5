package cli

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/cluster"
	"berth/structs/quota"
	"berth/structs/storage"
)

// seenAt is the index at which the rows of answerRows were made and changed.
const seenAt = 7

// answerRows answers the reads and the acts of the commands that destroy.
func answerRows(c *apitest.Caller) {
	row := structs.Indexes{CreateIndex: seenAt, ModifyIndex: seenAt}
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{Job: &structs.Job{ID: "web", Indexes: row}})
	apitest.Answer(c, structs.JobDeregister, structs.JobDeregisterResponse{})
	apitest.Answer(c, structs.NodeGet, structs.NodeGetResponse{Node: &structs.NodeDetail{Node: structs.Node{
		ID: clitest.Node1, Name: "one", Status: structs.NodeDown, Epoch: 8, HTTPAddr: "10.0.0.1:4646",
		BootID: "b1", Indexes: row,
	}}})
	apitest.Answer(c, structs.NodeList, structs.NodeListResponse{Nodes: []*structs.NodeListStub{
		{ID: clitest.Node1, Name: "one"},
	}})
	apitest.Answer(c, structs.NodeDeregister, structs.Empty{})
	answerVolume(c, row)

	apitest.Answer(c, storage.ClassGet, storage.ClassGetResponse{Class: &storage.VolumeClass{Indexes: row}})
	apitest.Answer(c, storage.ClassDelete, structs.Empty{})
	apitest.Answer(c, storage.SnapshotGet, storage.SnapshotGetResponse{
		Snapshot: &storage.VolumeSnapshot{Indexes: row},
	})
	apitest.Answer(c, storage.SnapshotDelete, structs.Empty{})
	apitest.Answer(c, storage.SnapshotGroupGet, storage.SnapshotGroupGetResponse{
		Group: &storage.GroupSnapshot{Indexes: row},
	})
	apitest.Answer(c, storage.SnapshotGroupDelete, structs.Empty{})
	apitest.Answer(c, storage.ScheduleGet, storage.ScheduleGetResponse{
		Schedule: &storage.SnapshotSchedule{Indexes: row},
	})
	apitest.Answer(c, storage.ScheduleDelete, structs.Empty{})

	apitest.Answer(c, cluster.NodePoolGet, cluster.NodePoolGetResponse{Pool: &cluster.NodePool{Indexes: row}})
	apitest.Answer(c, cluster.NodePoolDelete, structs.Empty{})
	apitest.Answer(c, cluster.NamespaceGet,
		cluster.NamespaceGetResponse{Namespace: &cluster.Namespace{Indexes: row}})
	apitest.Answer(c, cluster.NamespaceDelete, structs.Empty{})
	apitest.Answer(c, quota.SpecGet, quota.SpecGetResponse{Quota: &quota.Spec{Indexes: row}})
	apitest.Answer(c, quota.SpecDelete, structs.Empty{})
	apitest.Answer(c, admission.RuleGet, admission.RuleGetResponse{Rule: &admission.Rule{Indexes: row}})
	apitest.Answer(c, admission.RuleDelete, structs.Empty{})
	apitest.Answer(c, access.PolicyGet, access.PolicyGetResponse{Policy: &access.Policy{Indexes: row}})
	apitest.Answer(c, access.PolicyDelete, structs.Empty{})
	apitest.Answer(c, access.AuthMethodGet,
		access.AuthMethodGetResponse{Method: &access.AuthMethod{Indexes: row}})
	apitest.Answer(c, access.AuthMethodDelete, structs.Empty{})
	apitest.Answer(c, access.VariableList, access.VariableListResponse{
		Variables: []*access.VariableMetadata{{Path: "db", Indexes: row}},
	})
	apitest.Answer(c, access.VariableApply, access.VariableApplyResponse{
		WriteMeta: structs.WriteMeta{Index: seenAt + 1},
	})
}

// answerVolume answers for a volume with the claims of three allocations.
func answerVolume(c *apitest.Caller, row structs.Indexes) {
	apitest.Answer(c, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{
		CSIVolume: structs.CSIVolume{ID: "data", Indexes: row},
		Claims: []*structs.CSIClaim{
			{NodeID: clitest.Node1, AllocID: clitest.Alloc1},
			{NodeID: clitest.Node1, AllocID: clitest.Alloc3},
			{NodeID: clitest.Node2, AllocID: clitest.Alloc2},
		},
	}})
	apitest.Answer(c, structs.CSIVolumeDeregister, structs.Empty{})
	apitest.Answer(c, structs.CSIVolumeDelete, structs.Empty{})
	apitest.Answer(c, structs.CSIVolumeDetach, structs.CSIVolumeDetachResponse{})
	claim := &structs.VolumeClaimStub{VolumeID: "data", AllocID: clitest.Alloc1, NodeID: clitest.Node1}
	apitest.Answer(c, structs.VolumeClaimList, structs.VolumeClaimListResponse{
		Claims: []*structs.VolumeClaimStub{claim},
	})
	apitest.Answer(c, structs.VolumeClaimRelease, structs.VolumeClaimReleaseResponse{})
	apitest.Answer(c, structs.VolumeClaimForce, structs.VolumeClaimReleaseResponse{})
}

// sent is the request that a command has to send about the row that it has read.
type sent struct {
	args   string // of the command
	method string
	shown  *structs.DetachShown
	says   []string
}

// loses is the sentence about the claim of an allocation.
func loses(alloc string) string {
	return "Allocation " + structs.ShortID(alloc) + " loses its claim on volume data there."
}

// isOf is the sentence about the machine of the node.
const isOf = "It ran on 10.0.0.1:4646, in boot b1: that machine must write no more."

// destroying are the commands that destroy what has a name, which another can have later.
var destroying = map[string]sent{
	"job stop":                        {args: "-detach web", method: structs.JobDeregister.Name},
	"node purge":                      {args: "one", method: structs.NodeDeregister.Name},
	"node pool delete":                {args: "gpu", method: cluster.NodePoolDelete.Name},
	"namespace delete":                {args: "prod", method: cluster.NamespaceDelete.Name},
	"quota delete":                    {args: "team", method: quota.SpecDelete.Name},
	"admission delete":                {args: "images", method: admission.RuleDelete.Name},
	"acl policy delete":               {args: "team", method: access.PolicyDelete.Name},
	"acl auth-method delete":          {args: "corp", method: access.AuthMethodDelete.Name},
	"var purge":                       {args: "db", method: access.VariableApply.Name},
	"volume deregister":               {args: "data", method: structs.CSIVolumeDeregister.Name},
	"volume delete":                   {args: "data", method: structs.CSIVolumeDelete.Name},
	"volume class delete":             {args: "fast", method: storage.ClassDelete.Name},
	"volume snapshot delete":          {args: "nightly", method: storage.SnapshotDelete.Name},
	"volume snapshot group delete":    {args: "nightly", method: storage.SnapshotGroupDelete.Name},
	"volume snapshot schedule delete": {args: "nightly", method: storage.ScheduleDelete.Name},
	"volume detach":                   {args: "data one", method: structs.CSIVolumeDetach.Name},
	"volume claim release": {
		args: "data " + clitest.Alloc1, method: structs.VolumeClaimRelease.Name,
	},
}

// releasing are the commands that release claims by force.
var releasing = map[string]sent{
	"volume detach": {
		args:   "-force -reason off data one",
		method: structs.CSIVolumeDetach.Name,
		shown:  &structs.DetachShown{Epoch: 8, Allocs: []string{clitest.Alloc1, clitest.Alloc3}},
		says:   []string{"Node one is down.", isOf, loses(clitest.Alloc1), loses(clitest.Alloc3)},
	},
	"volume claim release": {
		args:   "-force -reason off data " + clitest.Alloc1,
		method: structs.VolumeClaimForce.Name,
		shown:  &structs.DetachShown{Epoch: 8, Allocs: []string{clitest.Alloc1}},
		says:   []string{"Node one is down.", isOf, loses(clitest.Alloc1)},
	},
}

// named are the commands that destroy and need no row, with the reason.
var named = map[string]string{
	"alloc stop":                     "the ID is drawn",
	"alloc gc":                       "the ID is drawn",
	"eval delete":                    "the IDs are drawn",
	"deployment fail":                "the ID is drawn",
	"acl role delete":                "the ID is drawn",
	"acl token delete":               "the ID is drawn",
	"acl binding-rule delete":        "the ID is drawn",
	"node join-token revoke":         "the ID is drawn",
	"server join-token revoke":       "the ID is drawn",
	"operator root keyring remove":   "the ID is drawn",
	"volume claim delete":            "the ID is drawn, or that of an allocation",
	"service delete":                 "the ID of an instance is that of its allocation",
	"tls ca remove":                  "the ID is that of the key",
	"tls revoke":                     "berth tls unrevoke takes it back",
	"operator gossip keyring remove": "a key names itself",
	"node confirm-lost":              "the request has the epoch of the node",
	"node fence":                     "the request has the epoch of the node",
	"job tag unset":                  "a tag keeps a version, and its end deletes none",
	"node gc":                        "it removes only what is left of ended allocations",
	"system gc":                      "it deletes only what has ended",
	"server leave":                   "it is about the server of the agent",
	"server force-leave":             "a server is a member of the gossip, and no row",
	"operator raft remove-peer":      "the servers remove none that answers",
	"operator snapshot restore":      "it replaces all rows",
}

// keeping are the last words of the commands that destroy nothing, or what they replace as a whole is checked
// by an index of its own. A command with another last word destroys.
var keeping = strings.Fields(`
	accept apply bootstrap consul create debug dispatch drain eligibility eval force init install join label
	lease login mode one-time pause promote put redact register renew replace request restart resume retry revert
	rotate run save scale set-config signal start transfer-leadership unblock undelete unrevoke update use vault`)

// actsOf returns the paths of the commands of a tree that change something, without the short forms.
func actsOf(parent string, tree []command.Command) (paths []string) {
	for _, c := range tree {
		path := strings.TrimSpace(parent + " " + c.Name)
		if c.Acts && c.Same == "" {
			paths = append(paths, path)
		}
		paths = append(paths, actsOf(path, c.Sub)...)
	}
	return paths
}

// Each command that destroys names a row, or says why it needs none.
func TestCommands_ThatDestroyAreAllKnown(t *testing.T) {
	t.Parallel()
	acts := actsOf("", Tree())
	for _, path := range acts {
		word := path[strings.LastIndex(path, " ")+1:]
		_, isDestroying := destroying[path]
		if !isDestroying && named[path] == "" && !slices.Contains(keeping, word) {
			t.Errorf("berth %s: test that it acts on the row that it has read, or say why it needs no row", path)
		}
	}
	for path := range maps.Keys(destroying) {
		if !slices.Contains(acts, path) {
			t.Errorf("berth %s is no command", path)
		}
	}
	for path := range maps.Keys(named) {
		if !slices.Contains(acts, path) {
			t.Errorf("berth %s is no command", path)
		}
	}
}

// A command that destroys acts on the row that it has read, and on no other that has its name by then. One
// that releases claims by force says first which, and releases no others.
func TestCommands_ActOnTheRowThatTheyHaveRead(t *testing.T) {
	t.Parallel()
	c := &apitest.Caller{}
	answerRows(c)
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	for path, want := range destroying {
		wantSent(t, c, addr, path, want)
	}
	for path, want := range releasing {
		wantSent(t, c, addr, path, want)
	}
}

// wantSent runs a command, which has to send one request.
func wantSent(t *testing.T, c *apitest.Caller, addr, path string, want sent) {
	t.Helper()
	c.Take()
	code, out, errs := runLine(t, path+" "+want.args+" -address "+addr)
	if code != 0 {
		t.Fatalf("%s: exit code %d: %s", path, code, errs)
	}
	for _, says := range want.says {
		if !strings.Contains(out, says) {
			t.Errorf("%s: got %q, want %q in it", path, out, says)
		}
	}
	requests := 0
	for _, call := range c.Take() {
		if call.Method != want.method {
			continue
		}
		requests++
		if index, shown := rowOf(call.Request), shownOf(call.Request); index != seenAt ||
			!reflect.DeepEqual(shown, want.shown) {
			t.Errorf("%s: about the row %d and %+v", path, index, shown)
		}
	}
	if requests != 1 {
		t.Errorf("%s: %d requests, want one", path, requests)
	}
}

// A command whose caller may not read the row acts on the name. One that cannot read it for another reason
// does not act.
func TestCommands_ActOnNoRowThatTheyCouldNotRead(t *testing.T) {
	t.Parallel()
	c := &apitest.Caller{}
	apitest.Answer(c, quota.SpecDelete, structs.Empty{})
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	for kind, acts := range map[structs.Kind]bool{structs.KindDenied: true, structs.KindInternal: false} {
		c.Take()
		apitest.Fail(c, quota.SpecGet, structs.Errorf(kind, "so it is"))
		code, _, errs := runLine(t, "quota delete team -address "+addr)
		sent := slices.ContainsFunc(c.Take(), func(r apitest.Recorded) bool {
			return r.Method == quota.SpecDelete.Name
		})
		if sent != acts || (code == 0) != acts {
			t.Errorf("%s: exit code %d, acted: %v: %s", kind, code, sent, errs)
		}
	}
}

// rowOf returns the index by which a request names its row.
func rowOf(request any) uint64 {
	if r, isVariable := request.(*access.VariableApplyRequest); isVariable {
		if r.CheckIndex == nil {
			return 0
		}
		return *r.CheckIndex
	}
	return request.(interface{ Write() *structs.WriteOptions }).Write().Created
}

// shownOf returns the state on which a forced release was decided.
func shownOf(request any) *structs.DetachShown {
	switch r := request.(type) {
	case *structs.CSIVolumeDetachRequest:
		return r.Shown
	case *structs.VolumeClaimReleaseRequest:
		return r.Shown
	}
	return nil
}

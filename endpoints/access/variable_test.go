package access

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/defaults"
	"berth/test/oneserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is a value that no log entry, no list and no text may have.
const secret = "canary-hunter2"

// variableWorld is a server with variables, which leads and has a root key.
type variableWorld struct {
	Variables
	t       *testing.T
	log     *leaderLog
	renewed int
	onRenew func() error
}

// leaderLog is the log of a server that leads, unless it is deposed.
type leaderLog struct {
	*oneserver.Log
	deposed error
}

func (l *leaderLog) VerifyLeader() error { return l.deposed }

func newVariableWorld(t *testing.T) *variableWorld {
	w := &variableWorld{t: t, log: &leaderLog{Log: oneserver.NewLog()}}
	w.Variables = Variables{Store: w.log.Store, Raft: w.log, Keys: &keyring.Ring{}, Locks: w}
	keyringtest.Use(t, w.Keys, "k1")
	oneserver.Put(t, w.log, fsm.RootKeyAdd, keyringtest.Row("k1"))
	return w
}

func (w *variableWorld) Renew(*access.Variable) error {
	w.renewed++
	if w.onRenew != nil {
		return w.onRenew()
	}
	return nil
}

// apply sends a write, which must not fail.
func (w *variableWorld) apply(req *access.VariableApplyRequest) *access.VariableApplyResponse {
	w.t.Helper()
	resp, err := w.tryApply(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", req.Op, req.Path, err)
	}
	return resp
}

func (w *variableWorld) tryApply(
	req *access.VariableApplyRequest,
) (*access.VariableApplyResponse, error) {
	resp := &access.VariableApplyResponse{}
	req.Now = 7e9
	_, err := w.Apply(w.t.Context(), req, resp)
	return resp, err
}

func set(path string) *access.VariableApplyRequest {
	return &access.VariableApplyRequest{
		Op:    access.VariableSet,
		Path:  path,
		Items: access.VariableItems{"password": secret},
	}
}

func (w *variableWorld) get(req *access.VariableGetRequest) (*access.OpenVariable, error) {
	resp := &access.VariableGetResponse{}
	err := w.Get(w.Store.Read(), req, resp)
	return resp.Variable, err
}

func (w *variableWorld) list(req *access.VariableListRequest) (paths []string) {
	w.t.Helper()
	resp := &access.VariableListResponse{}
	err := w.List(w.Store.Read(), req, resp)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range resp.Variables {
		paths = append(paths, v.Path)
		if v.Lock != nil && v.Lock.ID != "" {
			w.t.Errorf("the list shows the ID of the lock of %s", v.Path)
		}
	}
	return paths
}

func wantKind(t *testing.T, err error, kind structs.Kind) {
	t.Helper()
	if !structs.IsKind(err, kind) {
		t.Errorf("got %v (%s), want %s", err, structs.KindOf(err), kind)
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error shows a value: %v", err)
	}
}

func TestApply_WritesTheItemsEncryptedAlone(t *testing.T) {
	w := newVariableWorld(t)
	written := w.apply(set("app/db")).Variable
	if written.Items["password"] != secret || written.ModifyIndex != w.log.Index() || written.CreateTime != 7e9 {
		t.Errorf("got the items of %+v", written.VariableMetadata)
	}
	read, err := w.get(&access.VariableGetRequest{Path: "app/db"})
	if err != nil || read.Items["password"] != secret {
		t.Errorf("read %v", err)
	}

	shown := fmt.Sprintf("%v %+v %#v %s", set("x"), *read, read.Items, written.Items)
	row := fmt.Sprintf("%+v", state.Variable(w.Store.Read(), "default", "app/db"))
	log := string(bytes.Join(w.log.Entries(), nil))
	if strings.Contains(log+shown+row, secret) {
		t.Error("the log, or a text, has a value")
	}
}

func TestApply_NeedsARootKey(t *testing.T) {
	w := newVariableWorld(t)
	w.Keys.Remove("k1")
	before := w.log.Len()
	_, err := w.tryApply(set("a"))
	wantKind(t, err, structs.KindPrecondition)
	if err == nil || !strings.Contains(err.Error(), "berth operator root keyring init") {
		t.Errorf("got %v", err)
	}
	if w.log.Len() > before {
		t.Error("something was proposed")
	}
}

func TestApply_AnswersAConflictWithThePresentVariable(t *testing.T) {
	w := newVariableWorld(t)
	five := uint64(5)
	absent := set("a")
	absent.CheckIndex = &five
	if got := w.apply(absent); got.Variable != nil || got.Conflict == nil || got.Conflict.ModifyIndex != 0 {
		t.Errorf("got %+v", got)
	}
	acquire := set("a")
	acquire.Op = access.VariableAcquire
	held := w.apply(acquire).Variable
	if held.Lock == nil || held.Lock.ID == "" || held.Lock.TTL != 15*time.Second {
		t.Fatalf("got the lock %+v", held.Lock)
	}
	got := w.apply(set("a")).Conflict
	if got == nil || got.Items["password"] != secret || got.Lock == nil || got.Lock.ID != "" {
		t.Errorf("got %+v, want the present variable without the ID of its lock", got)
	}

	release := &access.VariableApplyRequest{Op: access.VariableRelease, Path: "a", Lock: held.Lock}
	if got := w.apply(release); got.Conflict != nil || got.Variable.Lock != nil {
		t.Errorf("after the release: %+v", got)
	}
	if got := w.apply(release); got.Conflict == nil {
		t.Error("the second release is no conflict")
	}
}

func TestApply_ChecksWrites(t *testing.T) {
	w := newVariableWorld(t)
	large := set("a")
	large.Items["x"] = strings.Repeat("x", structs.MaxVariableBytes)
	unnamed := set("a")
	unnamed.Items[""] = "x"
	for name, req := range map[string]*access.VariableApplyRequest{
		"path":         set("nomad/x"),
		"large":        large,
		"unnamed":      unnamed,
		"no items":     {Op: access.VariableSet, Path: "a"},
		"operation":    {Op: "x", Path: "a"},
		"short TTL":    {Op: access.VariableAcquire, Path: "a", Lock: &access.VariableLock{TTL: 9 * time.Second}},
		"long TTL":     {Op: access.VariableAcquire, Path: "a", Lock: &access.VariableLock{TTL: 25 * time.Hour}},
		"short delay":  {Op: access.VariableAcquire, Path: "a", Lock: &access.VariableLock{LockDelay: 1}},
		"with a value": {Op: access.VariableRelease, Path: "a", Items: set("a").Items},
	} {
		_, err := w.tryApply(req)
		t.Log(name)
		wantKind(t, err, structs.KindInvalid)
	}
}

// addAlloc places an allocation of a job on the node n1.
func (w *variableWorld) addAlloc(job *structs.Job) {
	w.t.Helper()
	node := &structs.Node{
		ID:         "n1",
		SecretID:   "s",
		Name:       "one",
		Status:     structs.NodeReady,
		Datacenter: "dc1",
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 4000},
			Memory: structs.NodeMemoryResources{MemoryMB: 4000},
			Disk:   structs.NodeDiskResources{DiskMB: 40000},
		},
	}
	defaults.Canonicalize(job)
	must(w, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: node})
	must(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(w.Store.Read(), job.Namespace, job.ID)
	must(w, fsm.PlanApply, &structs.Plan{
		JobModifyIndex: stored.JobModifyIndex,
		Eval: &structs.Evaluation{
			ID:        "eval",
			Namespace: job.Namespace,
			JobID:     job.ID,
			Type:      job.Type,
			Status:    structs.EvalComplete,
		},
		Place: []*structs.Allocation{{
			ID:         "a-" + job.ID,
			Name:       structs.AllocName(job.ID, "g", 0),
			Namespace:  job.Namespace,
			JobID:      job.ID,
			JobVersion: stored.Version,
			NodeID:     "n1",
			TaskGroup:  "g",
		}},
	})
	if state.Alloc(w.Store.Read(), "a-"+job.ID) == nil {
		w.t.Fatal("the allocation was not placed")
	}
}

func must[P any](w *variableWorld, c fsm.Command[P], p *P) {
	w.t.Helper()
	oneserver.Put(w.t, w.log, c, p)
}

// TestRenew_WritesNothing: a renewal needs the lock, and a leader that still leads.
func TestRenew_WritesNothing(t *testing.T) {
	w := newVariableWorld(t)
	id := w.apply(&access.VariableApplyRequest{Op: access.VariableAcquire, Path: "a"}).Variable.Lock.ID
	before := w.log.Len()
	renew := func(id string) (*access.VariableRenewResponse, error) {
		resp := &access.VariableRenewResponse{}
		_, err := w.Variables.Renew(t.Context(), &access.VariableRenewRequest{Path: "a", LockID: id}, resp)
		return resp, err
	}
	resp, err := renew(id)
	entries := w.log.Len() - before
	if err != nil || resp.Variable == nil || resp.Variable.Lock.ID != id || w.renewed != 1 || entries != 0 {
		t.Errorf("got %+v, %v, and %d entries", resp, err, entries)
	}
	for _, other := range []string{"", "x"} {
		resp, err = renew(other)
		if err != nil || resp.Conflict == nil || w.renewed != 1 {
			t.Errorf("with the ID %q: %+v, %v", other, resp, err)
		}
	}

	w.log.deposed = structs.NotServedf("another server leads")
	_, err = renew(id)
	wantKind(t, err, structs.KindUnavailable)
	w.log.deposed = nil
	w.onRenew = func() error { // the lock ends between the look at its row and the renewal
		_, err := fsm.Propose(t.Context(), w.log, fsm.VariableLockExpire,
			&access.VariableExpiry{Namespace: "default", Path: "a", LockID: id})
		return err
	}
	resp, err = renew(id)
	if err != nil || resp.Conflict == nil {
		t.Errorf("a lock that has ended was renewed: %+v, %v", resp, err)
	}
}
